package metadata

import "moldau/internal/kafka"

// ResourceType is the kind of thing a config belongs to.
type ResourceType int8

// The resources that have configs in the metadata log. The broker resource with an empty name is the cluster default.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// ConfigRecord sets one config of one resource; a nil value deletes it.
type ConfigRecord struct {
	ResourceType ResourceType
	ResourceName string
	Name         string
	Value        *string
}

// Type is TypeConfig.
func (*ConfigRecord) Type() RecordType { return TypeConfig }

func (r *ConfigRecord) fields(v visitor, _ int16) {
	number(v, "resourceType", &r.ResourceType)
	text(v, "resourceName", &r.ResourceName)
	text(v, "name", &r.Name)
	nullableText(v, "value", &r.Value)
}

// FeatureLevelRecord finalizes a feature at a level; 0 removes it (never metadata.version).
type FeatureLevelRecord struct {
	Name  string
	Level int16
}

// Type is TypeFeatureLevel.
func (*FeatureLevelRecord) Type() RecordType { return TypeFeatureLevel }

func (r *FeatureLevelRecord) fields(v visitor, _ int16) {
	text(v, "name", &r.Name)
	number(v, "featureLevel", &r.Level)
}

// ProducerIDsRecord gives a block of producer ids to a broker. NextProducerID is the first id of the next block.
type ProducerIDsRecord struct {
	BrokerID       kafka.NodeID
	BrokerEpoch    kafka.BrokerEpoch
	NextProducerID kafka.ProducerID
}

// Type is TypeProducerIDs.
func (*ProducerIDsRecord) Type() RecordType { return TypeProducerIDs }

func (r *ProducerIDsRecord) fields(v visitor, _ int16) {
	number(v, "brokerId", &r.BrokerID)
	number(v, "brokerEpoch", &r.BrokerEpoch)
	number(v, "nextProducerId", &r.NextProducerID)
}

// NoOpRecord changes nothing: it moves the log on.
type NoOpRecord struct{}

// Type is TypeNoOp.
func (*NoOpRecord) Type() RecordType { return TypeNoOp }

func (*NoOpRecord) fields(visitor, int16) {}

// ZkMigrationStateRecord is left over from clusters that came from ZooKeeper. It is read and ignored.
type ZkMigrationStateRecord struct {
	State int8
}

// Type is TypeZkMigrationState.
func (*ZkMigrationStateRecord) Type() RecordType { return TypeZkMigrationState }

func (r *ZkMigrationStateRecord) fields(v visitor, _ int16) {
	number(v, "zkMigrationState", &r.State)
}

// BeginTransactionRecord opens a metadata transaction (KIP-866): what follows becomes visible at its end, at once.
type BeginTransactionRecord struct {
	Name *string
}

// Type is TypeBeginTransaction.
func (*BeginTransactionRecord) Type() RecordType { return TypeBeginTransaction }

func (r *BeginTransactionRecord) fields(v visitor, _ int16) {
	v.tagged(0, 0, r.Name != nil, func() { nullableText(v, "name", &r.Name) })
}

// EndTransactionRecord publishes the open metadata transaction.
type EndTransactionRecord struct{}

// Type is TypeEndTransaction.
func (*EndTransactionRecord) Type() RecordType { return TypeEndTransaction }

func (*EndTransactionRecord) fields(visitor, int16) {}

// AbortTransactionRecord takes the open metadata transaction back.
type AbortTransactionRecord struct {
	Reason *string
}

// Type is TypeAbortTransaction.
func (*AbortTransactionRecord) Type() RecordType { return TypeAbortTransaction }

func (r *AbortTransactionRecord) fields(v visitor, _ int16) {
	v.tagged(0, 0, r.Reason != nil, func() { nullableText(v, "reason", &r.Reason) })
}
