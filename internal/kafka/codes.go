package kafka

// The error codes of the Kafka protocol. Names are the protocol's own in Go spelling.
const (
	UnknownServerError                     Code = -1
	None                                   Code = 0
	OffsetOutOfRange                       Code = 1
	CorruptMessage                         Code = 2
	UnknownTopicOrPartition                Code = 3
	InvalidFetchSize                       Code = 4
	LeaderNotAvailable                     Code = 5
	NotLeaderOrFollower                    Code = 6
	RequestTimedOut                        Code = 7
	BrokerNotAvailable                     Code = 8
	ReplicaNotAvailable                    Code = 9
	MessageTooLarge                        Code = 10
	StaleControllerEpoch                   Code = 11
	OffsetMetadataTooLarge                 Code = 12
	NetworkException                       Code = 13
	CoordinatorLoadInProgress              Code = 14
	CoordinatorNotAvailable                Code = 15
	NotCoordinator                         Code = 16
	InvalidTopicException                  Code = 17
	RecordListTooLarge                     Code = 18
	NotEnoughReplicas                      Code = 19
	NotEnoughReplicasAfterAppend           Code = 20
	InvalidRequiredAcks                    Code = 21
	IllegalGeneration                      Code = 22
	InconsistentGroupProtocol              Code = 23
	InvalidGroupID                         Code = 24
	UnknownMemberID                        Code = 25
	InvalidSessionTimeout                  Code = 26
	RebalanceInProgress                    Code = 27
	InvalidCommitOffsetSize                Code = 28
	TopicAuthorizationFailed               Code = 29
	GroupAuthorizationFailed               Code = 30
	ClusterAuthorizationFailed             Code = 31
	InvalidTimestamp                       Code = 32
	UnsupportedSASLMechanism               Code = 33
	IllegalSASLState                       Code = 34
	UnsupportedVersion                     Code = 35
	TopicAlreadyExists                     Code = 36
	InvalidPartitions                      Code = 37
	InvalidReplicationFactor               Code = 38
	InvalidReplicaAssignment               Code = 39
	InvalidConfig                          Code = 40
	NotController                          Code = 41
	InvalidRequest                         Code = 42
	UnsupportedForMessageFormat            Code = 43
	PolicyViolation                        Code = 44
	OutOfOrderSequenceNumber               Code = 45
	DuplicateSequenceNumber                Code = 46
	InvalidProducerEpoch                   Code = 47
	InvalidTxnState                        Code = 48
	InvalidProducerIDMapping               Code = 49
	InvalidTransactionTimeout              Code = 50
	ConcurrentTransactions                 Code = 51
	TransactionCoordinatorFenced           Code = 52
	TransactionalIDAuthorizationFailed     Code = 53
	SecurityDisabled                       Code = 54
	OperationNotAttempted                  Code = 55
	KafkaStorageError                      Code = 56
	LogDirNotFound                         Code = 57
	SASLAuthenticationFailed               Code = 58
	UnknownProducerID                      Code = 59
	ReassignmentInProgress                 Code = 60
	DelegationTokenAuthDisabled            Code = 61
	DelegationTokenNotFound                Code = 62
	DelegationTokenOwnerMismatch           Code = 63
	DelegationTokenRequestNotAllowed       Code = 64
	DelegationTokenAuthorizationFailed     Code = 65
	DelegationTokenExpired                 Code = 66
	InvalidPrincipalType                   Code = 67
	NonEmptyGroup                          Code = 68
	GroupIDNotFound                        Code = 69
	FetchSessionIDNotFound                 Code = 70
	InvalidFetchSessionEpoch               Code = 71
	ListenerNotFound                       Code = 72
	TopicDeletionDisabled                  Code = 73
	FencedLeaderEpoch                      Code = 74
	UnknownLeaderEpoch                     Code = 75
	UnsupportedCompressionType             Code = 76
	StaleBrokerEpoch                       Code = 77
	OffsetNotAvailable                     Code = 78
	MemberIDRequired                       Code = 79
	PreferredLeaderNotAvailable            Code = 80
	GroupMaxSizeReached                    Code = 81
	FencedInstanceID                       Code = 82
	EligibleLeadersNotAvailable            Code = 83
	ElectionNotNeeded                      Code = 84
	NoReassignmentInProgress               Code = 85
	GroupSubscribedToTopic                 Code = 86
	InvalidRecord                          Code = 87
	UnstableOffsetCommit                   Code = 88
	ThrottlingQuotaExceeded                Code = 89
	ProducerFenced                         Code = 90
	ResourceNotFound                       Code = 91
	DuplicateResource                      Code = 92
	UnacceptableCredential                 Code = 93
	InconsistentVoterSet                   Code = 94
	InvalidUpdateVersion                   Code = 95
	FeatureUpdateFailed                    Code = 96
	PrincipalDeserializationFailure        Code = 97
	SnapshotNotFound                       Code = 98
	PositionOutOfRange                     Code = 99
	UnknownTopicID                         Code = 100
	DuplicateBrokerRegistration            Code = 101
	BrokerIDNotRegistered                  Code = 102
	InconsistentTopicID                    Code = 103
	InconsistentClusterID                  Code = 104
	TransactionalIDNotFound                Code = 105
	FetchSessionTopicIDError               Code = 106
	IneligibleReplica                      Code = 107
	NewLeaderElected                       Code = 108
	OffsetMovedToTieredStorage             Code = 109
	FencedMemberEpoch                      Code = 110
	UnreleasedInstanceID                   Code = 111
	UnsupportedAssignor                    Code = 112
	StaleMemberEpoch                       Code = 113
	MismatchedEndpointType                 Code = 114
	UnsupportedEndpointType                Code = 115
	UnknownControllerID                    Code = 116
	UnknownSubscriptionID                  Code = 117
	TelemetryTooLarge                      Code = 118
	InvalidRegistration                    Code = 119
	TransactionAbortable                   Code = 120
	InvalidRecordState                     Code = 121
	ShareSessionNotFound                   Code = 122
	InvalidShareSessionEpoch               Code = 123
	FencedStateEpoch                       Code = 124
	InvalidVoterKey                        Code = 125
	DuplicateVoter                         Code = 126
	VoterNotFound                          Code = 127
	InvalidRegularExpression               Code = 128
	RebootstrapRequired                    Code = 129
	StreamsInvalidTopology                 Code = 130
	StreamsInvalidTopologyEpoch            Code = 131
	StreamsTopologyFenced                  Code = 132
	ShareSessionLimitReached               Code = 133
	GroupDeletionFailed                    Code = 134
	StreamsTopologyDescriptionUpdateFailed Code = 135
	ControllerIDNotRegistered              Code = 136
)

// codes is the table that names, documents and the wire derive from.
var codes = map[Code]codeRow{
	None:                                   {"NONE", false},
	UnknownServerError:                     {"UNKNOWN_SERVER_ERROR", false},
	OffsetOutOfRange:                       {"OFFSET_OUT_OF_RANGE", false},
	CorruptMessage:                         {"CORRUPT_MESSAGE", true},
	UnknownTopicOrPartition:                {"UNKNOWN_TOPIC_OR_PARTITION", true},
	InvalidFetchSize:                       {"INVALID_FETCH_SIZE", false},
	LeaderNotAvailable:                     {"LEADER_NOT_AVAILABLE", true},
	NotLeaderOrFollower:                    {"NOT_LEADER_OR_FOLLOWER", true},
	RequestTimedOut:                        {"REQUEST_TIMED_OUT", true},
	BrokerNotAvailable:                     {"BROKER_NOT_AVAILABLE", true},
	ReplicaNotAvailable:                    {"REPLICA_NOT_AVAILABLE", true},
	MessageTooLarge:                        {"MESSAGE_TOO_LARGE", false},
	StaleControllerEpoch:                   {"STALE_CONTROLLER_EPOCH", false},
	OffsetMetadataTooLarge:                 {"OFFSET_METADATA_TOO_LARGE", false},
	NetworkException:                       {"NETWORK_EXCEPTION", true},
	CoordinatorLoadInProgress:              {"COORDINATOR_LOAD_IN_PROGRESS", true},
	CoordinatorNotAvailable:                {"COORDINATOR_NOT_AVAILABLE", true},
	NotCoordinator:                         {"NOT_COORDINATOR", true},
	InvalidTopicException:                  {"INVALID_TOPIC_EXCEPTION", false},
	RecordListTooLarge:                     {"RECORD_LIST_TOO_LARGE", false},
	NotEnoughReplicas:                      {"NOT_ENOUGH_REPLICAS", true},
	NotEnoughReplicasAfterAppend:           {"NOT_ENOUGH_REPLICAS_AFTER_APPEND", true},
	InvalidRequiredAcks:                    {"INVALID_REQUIRED_ACKS", false},
	IllegalGeneration:                      {"ILLEGAL_GENERATION", false},
	InconsistentGroupProtocol:              {"INCONSISTENT_GROUP_PROTOCOL", false},
	InvalidGroupID:                         {"INVALID_GROUP_ID", false},
	UnknownMemberID:                        {"UNKNOWN_MEMBER_ID", false},
	InvalidSessionTimeout:                  {"INVALID_SESSION_TIMEOUT", false},
	RebalanceInProgress:                    {"REBALANCE_IN_PROGRESS", false},
	InvalidCommitOffsetSize:                {"INVALID_COMMIT_OFFSET_SIZE", false},
	TopicAuthorizationFailed:               {"TOPIC_AUTHORIZATION_FAILED", false},
	GroupAuthorizationFailed:               {"GROUP_AUTHORIZATION_FAILED", false},
	ClusterAuthorizationFailed:             {"CLUSTER_AUTHORIZATION_FAILED", false},
	InvalidTimestamp:                       {"INVALID_TIMESTAMP", false},
	UnsupportedSASLMechanism:               {"UNSUPPORTED_SASL_MECHANISM", false},
	IllegalSASLState:                       {"ILLEGAL_SASL_STATE", false},
	UnsupportedVersion:                     {"UNSUPPORTED_VERSION", false},
	TopicAlreadyExists:                     {"TOPIC_ALREADY_EXISTS", false},
	InvalidPartitions:                      {"INVALID_PARTITIONS", false},
	InvalidReplicationFactor:               {"INVALID_REPLICATION_FACTOR", false},
	InvalidReplicaAssignment:               {"INVALID_REPLICA_ASSIGNMENT", false},
	InvalidConfig:                          {"INVALID_CONFIG", false},
	NotController:                          {"NOT_CONTROLLER", true},
	InvalidRequest:                         {"INVALID_REQUEST", false},
	UnsupportedForMessageFormat:            {"UNSUPPORTED_FOR_MESSAGE_FORMAT", false},
	PolicyViolation:                        {"POLICY_VIOLATION", false},
	OutOfOrderSequenceNumber:               {"OUT_OF_ORDER_SEQUENCE_NUMBER", false},
	DuplicateSequenceNumber:                {"DUPLICATE_SEQUENCE_NUMBER", false},
	InvalidProducerEpoch:                   {"INVALID_PRODUCER_EPOCH", false},
	InvalidTxnState:                        {"INVALID_TXN_STATE", false},
	InvalidProducerIDMapping:               {"INVALID_PRODUCER_ID_MAPPING", false},
	InvalidTransactionTimeout:              {"INVALID_TRANSACTION_TIMEOUT", false},
	ConcurrentTransactions:                 {"CONCURRENT_TRANSACTIONS", false},
	TransactionCoordinatorFenced:           {"TRANSACTION_COORDINATOR_FENCED", false},
	TransactionalIDAuthorizationFailed:     {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false},
	SecurityDisabled:                       {"SECURITY_DISABLED", false},
	OperationNotAttempted:                  {"OPERATION_NOT_ATTEMPTED", false},
	KafkaStorageError:                      {"KAFKA_STORAGE_ERROR", true},
	LogDirNotFound:                         {"LOG_DIR_NOT_FOUND", false},
	SASLAuthenticationFailed:               {"SASL_AUTHENTICATION_FAILED", false},
	UnknownProducerID:                      {"UNKNOWN_PRODUCER_ID", false},
	ReassignmentInProgress:                 {"REASSIGNMENT_IN_PROGRESS", false},
	DelegationTokenAuthDisabled:            {"DELEGATION_TOKEN_AUTH_DISABLED", false},
	DelegationTokenNotFound:                {"DELEGATION_TOKEN_NOT_FOUND", false},
	DelegationTokenOwnerMismatch:           {"DELEGATION_TOKEN_OWNER_MISMATCH", false},
	DelegationTokenRequestNotAllowed:       {"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", false},
	DelegationTokenAuthorizationFailed:     {"DELEGATION_TOKEN_AUTHORIZATION_FAILED", false},
	DelegationTokenExpired:                 {"DELEGATION_TOKEN_EXPIRED", false},
	InvalidPrincipalType:                   {"INVALID_PRINCIPAL_TYPE", false},
	NonEmptyGroup:                          {"NON_EMPTY_GROUP", false},
	GroupIDNotFound:                        {"GROUP_ID_NOT_FOUND", false},
	FetchSessionIDNotFound:                 {"FETCH_SESSION_ID_NOT_FOUND", true},
	InvalidFetchSessionEpoch:               {"INVALID_FETCH_SESSION_EPOCH", true},
	ListenerNotFound:                       {"LISTENER_NOT_FOUND", true},
	TopicDeletionDisabled:                  {"TOPIC_DELETION_DISABLED", false},
	FencedLeaderEpoch:                      {"FENCED_LEADER_EPOCH", true},
	UnknownLeaderEpoch:                     {"UNKNOWN_LEADER_EPOCH", true},
	UnsupportedCompressionType:             {"UNSUPPORTED_COMPRESSION_TYPE", false},
	StaleBrokerEpoch:                       {"STALE_BROKER_EPOCH", false},
	OffsetNotAvailable:                     {"OFFSET_NOT_AVAILABLE", true},
	MemberIDRequired:                       {"MEMBER_ID_REQUIRED", false},
	PreferredLeaderNotAvailable:            {"PREFERRED_LEADER_NOT_AVAILABLE", true},
	GroupMaxSizeReached:                    {"GROUP_MAX_SIZE_REACHED", false},
	FencedInstanceID:                       {"FENCED_INSTANCE_ID", false},
	EligibleLeadersNotAvailable:            {"ELIGIBLE_LEADERS_NOT_AVAILABLE", true},
	ElectionNotNeeded:                      {"ELECTION_NOT_NEEDED", true},
	NoReassignmentInProgress:               {"NO_REASSIGNMENT_IN_PROGRESS", false},
	GroupSubscribedToTopic:                 {"GROUP_SUBSCRIBED_TO_TOPIC", false},
	InvalidRecord:                          {"INVALID_RECORD", false},
	UnstableOffsetCommit:                   {"UNSTABLE_OFFSET_COMMIT", true},
	ThrottlingQuotaExceeded:                {"THROTTLING_QUOTA_EXCEEDED", true},
	ProducerFenced:                         {"PRODUCER_FENCED", false},
	ResourceNotFound:                       {"RESOURCE_NOT_FOUND", false},
	DuplicateResource:                      {"DUPLICATE_RESOURCE", false},
	UnacceptableCredential:                 {"UNACCEPTABLE_CREDENTIAL", false},
	InconsistentVoterSet:                   {"INCONSISTENT_VOTER_SET", false},
	InvalidUpdateVersion:                   {"INVALID_UPDATE_VERSION", false},
	FeatureUpdateFailed:                    {"FEATURE_UPDATE_FAILED", false},
	PrincipalDeserializationFailure:        {"PRINCIPAL_DESERIALIZATION_FAILURE", false},
	SnapshotNotFound:                       {"SNAPSHOT_NOT_FOUND", false},
	PositionOutOfRange:                     {"POSITION_OUT_OF_RANGE", false},
	UnknownTopicID:                         {"UNKNOWN_TOPIC_ID", true},
	DuplicateBrokerRegistration:            {"DUPLICATE_BROKER_REGISTRATION", false},
	BrokerIDNotRegistered:                  {"BROKER_ID_NOT_REGISTERED", false},
	InconsistentTopicID:                    {"INCONSISTENT_TOPIC_ID", true},
	InconsistentClusterID:                  {"INCONSISTENT_CLUSTER_ID", false},
	TransactionalIDNotFound:                {"TRANSACTIONAL_ID_NOT_FOUND", false},
	FetchSessionTopicIDError:               {"FETCH_SESSION_TOPIC_ID_ERROR", true},
	IneligibleReplica:                      {"INELIGIBLE_REPLICA", false},
	NewLeaderElected:                       {"NEW_LEADER_ELECTED", false},
	OffsetMovedToTieredStorage:             {"OFFSET_MOVED_TO_TIERED_STORAGE", false},
	FencedMemberEpoch:                      {"FENCED_MEMBER_EPOCH", false},
	UnreleasedInstanceID:                   {"UNRELEASED_INSTANCE_ID", false},
	UnsupportedAssignor:                    {"UNSUPPORTED_ASSIGNOR", false},
	StaleMemberEpoch:                       {"STALE_MEMBER_EPOCH", false},
	MismatchedEndpointType:                 {"MISMATCHED_ENDPOINT_TYPE", false},
	UnsupportedEndpointType:                {"UNSUPPORTED_ENDPOINT_TYPE", false},
	UnknownControllerID:                    {"UNKNOWN_CONTROLLER_ID", false},
	UnknownSubscriptionID:                  {"UNKNOWN_SUBSCRIPTION_ID", false},
	TelemetryTooLarge:                      {"TELEMETRY_TOO_LARGE", false},
	InvalidRegistration:                    {"INVALID_REGISTRATION", false},
	TransactionAbortable:                   {"TRANSACTION_ABORTABLE", false},
	InvalidRecordState:                     {"INVALID_RECORD_STATE", false},
	ShareSessionNotFound:                   {"SHARE_SESSION_NOT_FOUND", false},
	InvalidShareSessionEpoch:               {"INVALID_SHARE_SESSION_EPOCH", false},
	FencedStateEpoch:                       {"FENCED_STATE_EPOCH", false},
	InvalidVoterKey:                        {"INVALID_VOTER_KEY", false},
	DuplicateVoter:                         {"DUPLICATE_VOTER", false},
	VoterNotFound:                          {"VOTER_NOT_FOUND", false},
	InvalidRegularExpression:               {"INVALID_REGULAR_EXPRESSION", false},
	RebootstrapRequired:                    {"REBOOTSTRAP_REQUIRED", false},
	StreamsInvalidTopology:                 {"STREAMS_INVALID_TOPOLOGY", false},
	StreamsInvalidTopologyEpoch:            {"STREAMS_INVALID_TOPOLOGY_EPOCH", false},
	StreamsTopologyFenced:                  {"STREAMS_TOPOLOGY_FENCED", false},
	ShareSessionLimitReached:               {"SHARE_SESSION_LIMIT_REACHED", true},
	GroupDeletionFailed:                    {"GROUP_DELETION_FAILED", false},
	StreamsTopologyDescriptionUpdateFailed: {"STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", false},
	ControllerIDNotRegistered:              {"CONTROLLER_ID_NOT_REGISTERED", false},
}
