package api

import (
	"fmt"
	"strings"

	"moldau/internal/kafka"
)

const errorsHead = `# Error reference

<!-- Generated from the tables in internal/kafka and internal/edge/api. Do not edit. -->

The error codes of the Kafka protocol. Clients send a request again by themselves on the retriable ones, after fetching
metadata where that helps. The last column says when Moldau answers the code; codes without an entry belong to features
that are not built yet, or are never answered.

| Code | Name | Retriable | When |
|---:|---|---|---|
`

// ErrorReference gives docs/reference/errors.md.
func ErrorReference() string {
	var b strings.Builder
	b.WriteString(errorsHead)
	for _, c := range kafka.Codes() {
		retriable := ""
		if c.Retriable() {
			retriable = "yes"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", int16(c), c.Name(), retriable, whenAnswered[c])
	}
	return b.String()
}

// whenAnswered says in one sentence when a node answers a code. A test holds it against the code.
var whenAnswered = map[kafka.Code]string{
	kafka.None:                    "Everything went well.",
	kafka.UnknownServerError:      "Something failed that has no code of its own; the broker's log says what.",
	kafka.OffsetOutOfRange:        "The offset lies outside the partition: before its log start or behind its end.",
	kafka.CorruptMessage:          "A record batch is damaged: lengths or checksum do not fit.",
	kafka.UnknownTopicOrPartition: "There is no such topic or partition, or it was created a moment ago and this broker has not heard of it yet.",
	kafka.LeaderNotAvailable:      "The partition has no leader at the moment.",
	kafka.NotLeaderOrFollower:     "Another broker leads the partition; also answered for the metadata quorum by a node that does not lead it.",
	kafka.RequestTimedOut:         "The controller, the disk or the other replicas took longer than the request allowed; what was asked may still happen.",
	kafka.BrokerNotAvailable:      "A broker that is needed is not registered or is fenced.",
	kafka.ReplicaNotAvailable:     "Some replicas of the partition cannot be reached from this listener; or, when it is to be moved to another log directory, this broker has none yet.",
	kafka.MessageTooLarge:         "The batch is larger than the topic's max.message.bytes, or expands to more than the broker allows.",
	kafka.CoordinatorLoadInProgress: "The broker fetches a new block of producer ids from the controller, or a coordinator is still reading its " +
		"topic.",
	kafka.NetworkException:        "Another broker that is needed could not be reached, or did not answer.",
	kafka.OffsetMetadataTooLarge:  "The text committed with an offset is longer than offset.metadata.max.bytes.",
	kafka.CoordinatorNotAvailable: "The coordinator's topic is being created, or has no leader, or cannot be written to at the moment.",
	kafka.NotCoordinator:          "Another broker coordinates the group or the transactional id, or this one has just stopped to; the client looks for the coordinator again.",
	kafka.IllegalGeneration:       "The member speaks of an older generation of its group; it joins again.",
	kafka.InconsistentGroupProtocol: "The member's protocol type is not the group's, or it has no assignor in common with the other members, or the group " +
		"is of another kind.",
	kafka.InvalidGroupID:              "The group id is empty.",
	kafka.UnsupportedForMessageFormat: "In the node's log only: a log with messages of formats 0 or 1 is not compacted.",
	kafka.UnknownMemberID:             "The group has no such member, or has no more: it left, was removed, or its session ended.",
	kafka.InvalidSessionTimeout:       "The session timeout is not between group.min.session.timeout.ms and group.max.session.timeout.ms.",
	kafka.RebalanceInProgress:         "The group is rebalancing; the member joins again.",
	kafka.InvalidCommitOffsetSize:     "The commit makes more records than the offsets topic takes in one batch.",
	kafka.TopicAuthorizationFailed:    "An authorizer refused the topic.",
	kafka.GroupAuthorizationFailed:    "An authorizer refused the group.",
	kafka.NonEmptyGroup:               "The group has members, so it cannot be deleted.",
	kafka.GroupIDNotFound:             "There is no such group, or it is of another kind.",
	kafka.MemberIDRequired:            "A new member is to join again with the member id of this answer (KIP-394).",
	kafka.GroupMaxSizeReached:         "The group has as many members as group.max.size or group.consumer.max.size allows.",
	kafka.FencedInstanceID:            "Another consumer with the same group.instance.id has taken the member's place.",
	kafka.GroupSubscribedToTopic:      "The offsets of a topic that the group consumes cannot be deleted.",
	kafka.UnstableOffsetCommit:        "A transaction that commits the offset has not ended; the client asks again.",
	kafka.FencedMemberEpoch:           "The member's epoch is not the one the group gave it; it gives up its partitions and joins again.",
	kafka.UnreleasedInstanceID:        "Another member with the same group.instance.id has not left.",
	kafka.UnsupportedAssignor:         "The broker has no such assignor; group.consumer.assignors lists them.",
	kafka.StaleMemberEpoch:            "The request was sent with an older epoch of the member than the group knows; the client repeats it with the newer one.",
	kafka.InvalidRegularExpression:    "The subscription is no regular expression in RE2 syntax.",
	kafka.GroupDeletionFailed:         "The group could not be deleted; the message says why.",
	kafka.InvalidTopicException:       "The name is no topic name, or the topic is internal and not for clients to write to.",
	kafka.RecordListTooLarge:          "The batch is larger than a segment of the topic may be.",
	kafka.NotEnoughReplicas: "acks=all was asked for, and fewer replicas are in sync than min.insync.replicas wants, or a transaction's " +
		"coordinator could not be asked; nothing was written.",
	kafka.NotEnoughReplicasAfterAppend: "The records were written, but then fewer replicas were in sync than " +
		"min.insync.replicas wants.",
	kafka.InvalidRequiredAcks:                "acks is none of -1, 0 and 1.",
	kafka.ClusterAuthorizationFailed:         "An authorizer refused the request.",
	kafka.InvalidTimestamp:                   "A record's timestamp is further from the broker's clock than the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms allow.",
	kafka.UnsupportedVersion:                 "The version of the request does not know what it asks for.",
	kafka.TopicAlreadyExists:                 "A topic of this name exists.",
	kafka.InvalidPartitions:                  "The number of partitions is not possible: not above zero, or not above the present one.",
	kafka.InvalidReplicationFactor:           "The number of replicas is not possible: not above zero, or larger than the number of brokers.",
	kafka.InvalidReplicaAssignment:           "The assignment of replicas to brokers is not possible; the message says why.",
	kafka.InvalidConfig:                      "A configuration key or value is wrong; the message says what is allowed.",
	kafka.NotController:                      "The controller that was asked is not in office, or lost its office before the outcome was certain.",
	kafka.InvalidRequest:                     "The request contradicts itself or asks the wrong node; the message says how.",
	kafka.PolicyViolation:                    "The request goes beyond a limit of the broker; the message names it.",
	kafka.OutOfOrderSequenceNumber:           "A batch of an idempotent producer does not follow the one before it: something in between is missing.",
	kafka.InvalidProducerEpoch:               "A newer instance of the producer has taken its place.",
	kafka.InvalidTxnState:                    "The transaction is not in a state for this: a batch of a partition that was not added to it, or an end that does not fit.",
	kafka.InvalidProducerIDMapping:           "The producer id is not the one that the transactional id has.",
	kafka.InvalidTransactionTimeout:          "The transaction timeout is not above zero, or above transaction.max.timeout.ms.",
	kafka.ConcurrentTransactions:             "The transaction before is still being completed; the client asks again.",
	kafka.TransactionalIDNotFound:            "There is no such transactional id.",
	kafka.ProducerFenced:                     "A newer instance of the transactional producer has taken its place.",
	kafka.TransactionAbortable:               "The transaction cannot go on and is to be aborted; the producer may begin another.",
	kafka.TransactionCoordinatorFenced:       "A transaction marker came from a coordinator that another has replaced.",
	kafka.TransactionalIDAuthorizationFailed: "A transactional batch was sent without a transactional id, or an authorizer refused the id.",
	kafka.OperationNotAttempted:              "Nothing was done, because another part of the same request failed.",
	kafka.LogDirNotFound:                     "The path is none of the broker's log.dirs.",
	kafka.KafkaStorageError:                  "The log directory of the partition is offline or its disk is full.",
	kafka.FetchSessionIDNotFound:             "The fetch session is gone; the client begins a new one by itself.",
	kafka.InvalidFetchSessionEpoch:           "The request does not follow the last one of its fetch session; the client begins a new one by itself.",
	kafka.ListenerNotFound:                   "The leader of the partition is not on the listener that the client uses, or is fenced.",
	kafka.TopicDeletionDisabled:              "delete.topic.enable is false.",
	kafka.FencedLeaderEpoch:                  "The client knows an older leader of the partition; it fetches metadata and asks again.",
	kafka.UnknownLeaderEpoch:                 "The client knows a newer leader of the partition than this broker does.",
	kafka.UnsupportedCompressionType:         "The codec is unknown, or too new for the version of the request (zstd before Produce 7).",
	kafka.StaleBrokerEpoch:                   "A broker speaks for a registration that a later one has replaced.",
	kafka.OffsetNotAvailable:                 "A leader has just been elected and does not know yet up to where its log is committed.",
	kafka.PreferredLeaderNotAvailable:        "The preferred leader is not in sync, so it was not elected.",
	kafka.EligibleLeadersNotAvailable:        "No replica may be elected.",
	kafka.PrincipalDeserializationFailure:    "A broker passed a request on for a client and named the client in a way that does not decode.",
	kafka.NoReassignmentInProgress:           "The partition whose reassignment is to be cancelled has none under way.",
	kafka.ControllerIDNotRegistered:          "No controller of this id is registered.",
	kafka.ElectionNotNeeded:                  "The partition has the leader that an election would give it.",
	kafka.InvalidRecord:                      "A record breaks a rule of the topic or of the format: a missing key where the topic is compacted, wrong offsets or counts.",
	kafka.InvalidUpdateVersion:               "The feature level is unknown, or cannot be reached from the present one.",
	kafka.InconsistentVoterSet:               "The voters of the request are not those of the quorum.",
	kafka.SnapshotNotFound:                   "The metadata snapshot is not there any more.",
	kafka.PositionOutOfRange:                 "The position lies outside the metadata snapshot.",
	kafka.UnknownTopicID:                     "There is no topic with this id: it was deleted, or this broker has not heard of it yet.",
	kafka.DuplicateBrokerRegistration:        "Another broker with this id is alive.",
	kafka.BrokerIDNotRegistered:              "There is no broker with this id.",
	kafka.InconsistentTopicID:                "The topic id does not belong to the topic.",
	kafka.InconsistentClusterID:              "The request was meant for another cluster.",
	kafka.FetchSessionTopicIDError:           "A fetch session began with topic names and went on with ids, or the other way round.",
	kafka.IneligibleReplica:                  "A broker that may not be in sync was proposed for the in-sync replicas.",
	kafka.NewLeaderElected:                   "A reassignment was completed and moved the leader.",
	kafka.MismatchedEndpointType:             "Controllers were asked for on a broker's listener, or brokers on a controller's.",
	kafka.UnsupportedEndpointType:            "There is no such kind of endpoint.",
	kafka.InvalidRegistration:                "A broker's registration is incomplete or does not fit the cluster.",
	kafka.InvalidVoterKey:                    "The request was meant for another voter of the metadata quorum.",
	kafka.DuplicateVoter:                     "The node is a voter of the metadata quorum already.",
	kafka.VoterNotFound:                      "The node is no voter of the metadata quorum.",
	kafka.RebootstrapRequired:                "The client meant another cluster or node; it starts again from its bootstrap servers.",
}
