package api

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// checkTexts writes checks down as operation:type:name.
func checkTexts(checks []server.AccessCheck) []string {
	var out []string
	for _, c := range checks {
		out = append(out, c.Operation.String()+":"+c.Type.String()+":"+c.Name)
	}
	return out
}

// accessExamples has a request of every API in the table and what its caller must be allowed.
func accessExamples() map[kmsg.Request][]string {
	id := kafka.UUID{1, 2, 3}
	produce := produceRequest(9, "a", 0, 1, nil)
	txn := produceRequest(13, "", 0, 1, nil)
	txn.Topics[0].TopicID, txn.TransactionID = id, kmsg.StringPtr("t")
	consumer, replica := fetchRequest(12, "a", 0, 0), fetchRequest(15, "a", 0, 0)
	replica.ReplicaState.ID = 2
	old := fetchRequest(12, "a", 0, 0)
	old.ReplicaID = 2
	create := metadataRequest(9, "a")
	create.AllowAutoTopicCreation = true
	byIDOnly := metadataRequest(12)
	byIDOnly.Topics = append(byIDOnly.Topics, byID(id))
	configs := describeRequest(1, kmsg.ConfigResourceTypeTopic, "a")
	for kind, name := range map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeBroker: "1"} {
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType, x.ResourceName = kind, name
		configs.Resources = append(configs.Resources, x)
	}
	alters := incremental(false, alterOf(kmsg.ConfigResourceTypeGroupConfig, "g", "k", 0),
		alterOf(kmsg.ConfigResourceTypeBrokerLogger, "1", "k", 0))
	initTxn := kmsg.NewPtrInitProducerIDRequest()
	initTxn.TransactionalID = kmsg.StringPtr("t")
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = append(offsets.Topics, kmsg.ListOffsetsRequestTopic{Topic: "a"})
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Topics = append(epochs.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "a"})
	records := kmsg.NewPtrDeleteRecordsRequest()
	records.Topics = append(records.Topics, kmsg.DeleteRecordsRequestTopic{Topic: "a"})
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = append(producers.Topics, kmsg.DescribeProducersRequestTopic{Topic: "a"})
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.Topics = append(pages.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: "a"})
	fetches := names(8, kmsg.OffsetFetch, false, "g", "h").(*kmsg.OffsetFetchRequest)
	fetches.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a"}}
	fetches.Groups[1].Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "b"}}
	const cluster = ":CLUSTER:kafka-cluster"
	return map[kmsg.Request][]string{
		produce: {"WRITE:TOPIC:a"}, txn: {"WRITE:TOPIC:" + id.String(), "WRITE:TRANSACTIONAL_ID:t"},
		consumer: {"READ:TOPIC:a"}, replica: {"CLUSTER_ACTION" + cluster}, old: {"CLUSTER_ACTION" + cluster},
		offsets: {"DESCRIBE:TOPIC:a"}, epochs: {"DESCRIBE:TOPIC:a"}, records: {"DELETE:TOPIC:a"},
		producers: {"READ:TOPIC:a"}, pages: {"DESCRIBE:TOPIC:a"},
		kmsg.NewPtrInitProducerIDRequest(): {"IDEMPOTENT_WRITE" + cluster}, initTxn: {"WRITE:TRANSACTIONAL_ID:t"},
		metadataRequest(9, "a", "b"): {"DESCRIBE:TOPIC:a", "DESCRIBE:TOPIC:b"},
		create:                       {"DESCRIBE:TOPIC:a", "CREATE:TOPIC:a"}, byIDOnly: {"DESCRIBE:TOPIC:" + id.String()},
		forwarded(kmsg.CreateTopics, 7):     {"CREATE:TOPIC:new-topic"},
		forwarded(kmsg.DeleteTopics, 5):     {"DELETE:TOPIC:new-topic"},
		forwarded(kmsg.DeleteTopics, 6):     {"DELETE:TOPIC:new-topic", "DELETE:TOPIC:" + kafka.UUID{7}.String()},
		forwarded(kmsg.CreatePartitions, 3): {"ALTER:TOPIC:new-topic"},
		forwarded(kmsg.AlterConfigs, 2):     {"ALTER_CONFIGS:TOPIC:new-topic"},
		forwarded(kmsg.ElectLeaders, 2):     {"ALTER" + cluster}, forwarded(kmsg.UpdateFeatures, 2): {"ALTER" + cluster},
		alters:                             {"ALTER_CONFIGS:GROUP:g", "ALTER_CONFIGS" + cluster},
		configs:                            {"DESCRIBE_CONFIGS:TOPIC:a", "DESCRIBE_CONFIGS" + cluster},
		kmsg.NewPtrEnvelopeRequest():       {"CLUSTER_ACTION" + cluster},
		kmsg.NewPtrDescribeQuorumRequest(): {"DESCRIBE" + cluster},
		forwarded(kmsg.AlterPartitionAssignments, 1):  {"ALTER" + cluster},
		forwarded(kmsg.ListPartitionReassignments, 0): {"DESCRIBE" + cluster},
		forwarded(kmsg.UnregisterBroker, 0):           {"ALTER" + cluster},
		forwarded(kmsg.UnregisterController, 0):       {"ALTER" + cluster},
		kmsg.NewPtrDescribeLogDirsRequest():           {"DESCRIBE" + cluster},
		kmsg.NewPtrAlterReplicaLogDirsRequest():       {"ALTER" + cluster},
		kmsg.NewPtrDescribeClusterRequest():           nil,
		kmsg.NewPtrListConfigResourcesRequest():       {"DESCRIBE_CONFIGS" + cluster},
		kmsg.NewPtrListGroupsRequest():                {"DESCRIBE" + cluster},
		findRequest(3, 0, "g"):                        {"DESCRIBE:GROUP:g"},
		findRequest(4, 0, "g", "h"):                   {"DESCRIBE:GROUP:g", "DESCRIBE:GROUP:h"},
		findRequest(4, 1, "t"):                        {"DESCRIBE:TRANSACTIONAL_ID:t"},
		findRequest(6, 2, "g:x:0"):                    {"CLUSTER_ACTION" + cluster},
		singleGroup(kmsg.JoinGroup, 9):                {"READ:GROUP:g"}, singleGroup(kmsg.SyncGroup, 5): {"READ:GROUP:g"},
		singleGroup(kmsg.Heartbeat, 4): {"READ:GROUP:g"}, singleGroup(kmsg.LeaveGroup, 5): {"READ:GROUP:g"},
		singleGroup(kmsg.ConsumerGroupHeartbeat, 1):      {"READ:GROUP:g", "DESCRIBE:TOPIC:a", "DESCRIBE:TOPIC:b"},
		singleGroup(kmsg.OffsetCommit, 9):                {"READ:GROUP:g", "READ:TOPIC:a"},
		singleGroup(kmsg.OffsetDelete, 0):                {"DELETE:GROUP:g", "READ:TOPIC:a"},
		singleGroup(kmsg.OffsetFetch, 7):                 {"DESCRIBE:GROUP:g", "DESCRIBE:TOPIC:a"},
		fetches:                                          {"DESCRIBE:GROUP:g", "DESCRIBE:GROUP:h", "DESCRIBE:TOPIC:a", "DESCRIBE:TOPIC:b"},
		names(6, kmsg.DescribeGroups, false, "g", "h"):   {"DESCRIBE:GROUP:g", "DESCRIBE:GROUP:h"},
		names(1, kmsg.ConsumerGroupDescribe, false, "g"): {"DESCRIBE:GROUP:g"},
		names(2, kmsg.DeleteGroups, false, "g"):          {"DELETE:GROUP:g"},

		&kmsg.EndTxnRequest{TransactionalID: "t"}: {"WRITE:TRANSACTIONAL_ID:t"},
		&kmsg.AddPartitionsToTxnRequest{TransactionalID: "t", Topics: []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a"}}}: {
			"WRITE:TOPIC:a", "WRITE:TRANSACTIONAL_ID:t"},
		&kmsg.AddPartitionsToTxnRequest{Version: 4}:                             {"CLUSTER_ACTION" + cluster},
		&kmsg.AddOffsetsToTxnRequest{TransactionalID: "t", Group: "g"}:          {"READ:GROUP:g", "WRITE:TRANSACTIONAL_ID:t"},
		&kmsg.WriteTxnMarkersRequest{Version: 1}:                                {"CLUSTER_ACTION" + cluster},
		&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"t", "u"}}: {"DESCRIBE:TRANSACTIONAL_ID:t", "DESCRIBE:TRANSACTIONAL_ID:u"},
		&kmsg.ListTransactionsRequest{}:                                         {"DESCRIBE" + cluster},
		&kmsg.TxnOffsetCommitRequest{TransactionalID: "t", Group: "g", Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a"}}}: {
			"READ:GROUP:g", "WRITE:TRANSACTIONAL_ID:t", "READ:TOPIC:a"},

		&kmsg.VoteRequest{}:                   {"CLUSTER_ACTION" + cluster},
		&kmsg.BeginQuorumEpochRequest{}:       {"CLUSTER_ACTION" + cluster},
		&kmsg.EndQuorumEpochRequest{}:         {"CLUSTER_ACTION" + cluster},
		&kmsg.FetchSnapshotRequest{}:          {"CLUSTER_ACTION" + cluster},
		&kmsg.AddRaftVoterRequest{}:           {"ALTER" + cluster},
		&kmsg.RemoveRaftVoterRequest{}:        {"ALTER" + cluster},
		&kmsg.UpdateRaftVoterRequest{}:        {"CLUSTER_ACTION" + cluster},
		&kmsg.AlterPartitionRequest{}:         {"CLUSTER_ACTION" + cluster},
		&kmsg.EnvelopeRequest{}:               {"CLUSTER_ACTION" + cluster},
		&kmsg.BrokerRegistrationRequest{}:     {"CLUSTER_ACTION" + cluster},
		&kmsg.BrokerHeartbeatRequest{}:        {"CLUSTER_ACTION" + cluster},
		&kmsg.AllocateProducerIDsRequest{}:    {"CLUSTER_ACTION" + cluster},
		&kmsg.ControllerRegistrationRequest{}: {"CLUSTER_ACTION" + cluster},
		&kmsg.AssignReplicasToDirsRequest{}:   {"CLUSTER_ACTION" + cluster},
	}
}

func TestAccess(t *testing.T) {
	f := newFixture(t)
	covered := map[int16]bool{}
	for req, want := range accessExamples() {
		covered[req.Key()] = true
		row := f.row(req.Key())
		if got := checkTexts(row.Authorize(f.call(req), req)); !slices.Equal(got, want) {
			t.Errorf("%s version %d asks for %q, want %q", apiName(req.Key()), req.GetVersion(), got, want)
		}
	}
	for _, r := range f.Rows() {
		if !covered[r.Key] {
			t.Errorf("%s has no example", apiName(r.Key))
		}
	}
}

// allowing is an Authorizer that grants one operation.
type allowing kmsg.ACLOperation

func (a allowing) Authorize(_ *server.Call, checks []server.AccessCheck) []bool {
	out := make([]bool, len(checks))
	for i, c := range checks {
		out[i] = c.Operation == kmsg.ACLOperation(a)
	}
	return out
}

// TestDeniedRequestsNeverReachAHandler: while handlers do not look at single answers, one refusal ends the connection.
func TestDeniedRequestsNeverReachAHandler(t *testing.T) {
	f, _ := newAdmin(t)
	f.create("a", 1)
	table, err := server.NewTable(server.VersionInfo{}, f.Rows()...)
	if err != nil {
		t.Fatal(err)
	}
	for op, answered := range map[kmsg.ACLOperation]bool{kmsg.ACLOperationDescribe: true, kmsg.ACLOperationRead: false} {
		s, err := server.New(server.Options{Table: table, Log: f.Log, Authorizer: allowing(op)})
		if err != nil {
			t.Fatal(err)
		}
		memory := server.NewMemoryListener("test")
		l, err := s.Listen(server.ListenerOptions{Name: "PLAINTEXT", Net: memory})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := memory.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, metadataRequest(9, "a"), 7)
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		var head [8]byte
		_, err = io.ReadFull(conn, head[:])
		if (err == nil) != answered || answered && binary.BigEndian.Uint32(head[4:]) != 7 {
			t.Errorf("with %v: %v, %x", op, err, head)
		}
		_ = conn.Close()
		s.Close()
	}
}
