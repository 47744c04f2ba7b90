package metadata

import "fmt"

// RecordType is the api key of a metadata record: the first number after the frame version in a record's value.
type RecordType int16

// The record types of the metadata log. 6, 13 and 16 were never used by a release.
const (
	TypeRegisterBroker            RecordType = 0
	TypeUnregisterBroker          RecordType = 1
	TypeTopic                     RecordType = 2
	TypePartition                 RecordType = 3
	TypeConfig                    RecordType = 4
	TypePartitionChange           RecordType = 5
	TypeFenceBroker               RecordType = 7
	TypeUnfenceBroker             RecordType = 8
	TypeRemoveTopic               RecordType = 9
	TypeDelegationToken           RecordType = 10
	TypeUserScramCredential       RecordType = 11
	TypeFeatureLevel              RecordType = 12
	TypeClientQuota               RecordType = 14
	TypeProducerIDs               RecordType = 15
	TypeBrokerRegistrationChange  RecordType = 17
	TypeAccessControlEntry        RecordType = 18
	TypeRemoveAccessControlEntry  RecordType = 19
	TypeNoOp                      RecordType = 20
	TypeZkMigrationState          RecordType = 21
	TypeRemoveUserScramCredential RecordType = 22
	TypeBeginTransaction          RecordType = 23
	TypeEndTransaction            RecordType = 24
	TypeAbortTransaction          RecordType = 25
	TypeRemoveDelegationToken     RecordType = 26
	TypeRegisterController        RecordType = 27
	TypeClearElr                  RecordType = 28
	TypeUnregisterController      RecordType = 29
)

// Record is one metadata record. The set of implementations is closed: they are the *...Record types of this package,
// always used as pointers.
type Record interface {
	// Type names the record's schema.
	Type() RecordType
	// fields passes every field the given version has, in wire order, to v. Encoding, decoding and dumping are the
	// three visitors, so that a record's layout is written down once.
	fields(v visitor, version int16)
}

// recordRow is what is known about a record type. The lowest version is 0 for all of them.
type recordRow struct {
	typ        RecordType
	name       string // as Kafka's dump tool prints it
	maxVersion int16
	create     func() Record
}

// recordTable lists every record type in the order of its key.
var recordTable = []recordRow{
	{TypeRegisterBroker, "REGISTER_BROKER_RECORD", 4, func() Record { return new(RegisterBrokerRecord) }},
	{TypeUnregisterBroker, "UNREGISTER_BROKER_RECORD", 0, func() Record { return new(UnregisterBrokerRecord) }},
	{TypeTopic, "TOPIC_RECORD", 0, func() Record { return new(TopicRecord) }},
	{TypePartition, "PARTITION_RECORD", 2, func() Record { return new(PartitionRecord) }},
	{TypeConfig, "CONFIG_RECORD", 0, func() Record { return new(ConfigRecord) }},
	{TypePartitionChange, "PARTITION_CHANGE_RECORD", 2, func() Record { return new(PartitionChangeRecord) }},
	{TypeFenceBroker, "FENCE_BROKER_RECORD", 0, func() Record { return new(FenceBrokerRecord) }},
	{TypeUnfenceBroker, "UNFENCE_BROKER_RECORD", 0, func() Record { return new(UnfenceBrokerRecord) }},
	{TypeRemoveTopic, "REMOVE_TOPIC_RECORD", 0, func() Record { return new(RemoveTopicRecord) }},
	{TypeDelegationToken, "DELEGATION_TOKEN_RECORD", 0, func() Record { return new(DelegationTokenRecord) }},
	{TypeUserScramCredential, "USER_SCRAM_CREDENTIAL_RECORD", 0,
		func() Record { return new(UserScramCredentialRecord) }},
	{TypeFeatureLevel, "FEATURE_LEVEL_RECORD", 0, func() Record { return new(FeatureLevelRecord) }},
	{TypeClientQuota, "CLIENT_QUOTA_RECORD", 0, func() Record { return new(ClientQuotaRecord) }},
	{TypeProducerIDs, "PRODUCER_IDS_RECORD", 0, func() Record { return new(ProducerIDsRecord) }},
	{TypeBrokerRegistrationChange, "BROKER_REGISTRATION_CHANGE_RECORD", 3,
		func() Record { return new(BrokerRegistrationChangeRecord) }},
	{TypeAccessControlEntry, "ACCESS_CONTROL_ENTRY_RECORD", 0,
		func() Record { return new(AccessControlEntryRecord) }},
	{TypeRemoveAccessControlEntry, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", 0,
		func() Record { return new(RemoveAccessControlEntryRecord) }},
	{TypeNoOp, "NO_OP_RECORD", 0, func() Record { return new(NoOpRecord) }},
	{TypeZkMigrationState, "ZK_MIGRATION_STATE_RECORD", 0, func() Record { return new(ZkMigrationStateRecord) }},
	{TypeRemoveUserScramCredential, "REMOVE_USER_SCRAM_CREDENTIAL_RECORD", 0,
		func() Record { return new(RemoveUserScramCredentialRecord) }},
	{TypeBeginTransaction, "BEGIN_TRANSACTION_RECORD", 0, func() Record { return new(BeginTransactionRecord) }},
	{TypeEndTransaction, "END_TRANSACTION_RECORD", 0, func() Record { return new(EndTransactionRecord) }},
	{TypeAbortTransaction, "ABORT_TRANSACTION_RECORD", 0, func() Record { return new(AbortTransactionRecord) }},
	{TypeRemoveDelegationToken, "REMOVE_DELEGATION_TOKEN_RECORD", 0,
		func() Record { return new(RemoveDelegationTokenRecord) }},
	{TypeRegisterController, "REGISTER_CONTROLLER_RECORD", 0,
		func() Record { return new(RegisterControllerRecord) }},
	{TypeClearElr, "CLEAR_ELR_RECORD", 0, func() Record { return new(ClearElrRecord) }},
	{TypeUnregisterController, "UNREGISTER_CONTROLLER_RECORD", 0,
		func() Record { return new(UnregisterControllerRecord) }},
}

// row finds a type in the table.
func (t RecordType) row() (recordRow, bool) {
	for _, r := range recordTable {
		if r.typ == t {
			return r, true
		}
	}
	return recordRow{}, false
}

// String gives the name that Kafka's dump tool prints, such as TOPIC_RECORD.
func (t RecordType) String() string {
	if r, ok := t.row(); ok {
		return r.name
	}
	return fmt.Sprintf("UNKNOWN_RECORD_%d", int16(t))
}

// MaxVersion is the newest version of the type that is known here; the oldest is 0. It is -1 for an unknown type.
func (t RecordType) MaxVersion() int16 {
	if r, ok := t.row(); ok {
		return r.maxVersion
	}
	return -1
}
