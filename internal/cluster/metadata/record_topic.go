package metadata

import "moldau/internal/kafka"

// LeaderRecoveryState says whether a partition's leader was elected cleanly (KIP-704).
type LeaderRecoveryState int8

// The states of a leader. Recovering follows an unclean election and ends when the leader says so by AlterPartition.
const (
	LeaderRecovered  LeaderRecoveryState = 0
	LeaderRecovering LeaderRecoveryState = 1
)

// Sentinels of PartitionChangeRecord on the wire: a field that is not to change.
const (
	leaderUnchanged   kafka.NodeID        = -2
	recoveryUnchanged LeaderRecoveryState = -1
)

// TopicRecord creates a topic without partitions.
type TopicRecord struct {
	Name    string
	TopicID kafka.UUID
}

// Type is TypeTopic.
func (*TopicRecord) Type() RecordType { return TypeTopic }

func (r *TopicRecord) fields(v visitor, _ int16) {
	text(v, "name", &r.Name)
	uuid(v, "topicId", &r.TopicID)
}

// RemoveTopicRecord deletes a topic, its partitions and its configs.
type RemoveTopicRecord struct {
	TopicID kafka.UUID
}

// Type is TypeRemoveTopic.
func (*RemoveTopicRecord) Type() RecordType { return TypeRemoveTopic }

func (r *RemoveTopicRecord) fields(v visitor, _ int16) {
	uuid(v, "topicId", &r.TopicID)
}

// PartitionRecord gives the whole state of one partition. Directories has one id per replica, or none at all (every
// replica is then kafka.DirectoryMigrating); it exists from version 1 on (KIP-858), the two ELR lists from version 2
// (KIP-966), where nil means absent.
type PartitionRecord struct {
	PartitionID            int32
	TopicID                kafka.UUID
	Replicas               []kafka.NodeID
	ISR                    []kafka.NodeID
	RemovingReplicas       []kafka.NodeID
	AddingReplicas         []kafka.NodeID
	Leader                 kafka.NodeID
	LeaderRecoveryState    LeaderRecoveryState
	LeaderEpoch            kafka.LeaderEpoch
	PartitionEpoch         kafka.PartitionEpoch
	Directories            []kafka.UUID
	EligibleLeaderReplicas []kafka.NodeID
	LastKnownELR           []kafka.NodeID
}

// Type is TypePartition.
func (*PartitionRecord) Type() RecordType { return TypePartition }

func (r *PartitionRecord) fields(v visitor, version int16) {
	number(v, "partitionId", &r.PartitionID)
	uuid(v, "topicId", &r.TopicID)
	nodes(v, "replicas", &r.Replicas)
	nodes(v, "isr", &r.ISR)
	nodes(v, "removingReplicas", &r.RemovingReplicas)
	nodes(v, "addingReplicas", &r.AddingReplicas)
	number(v, "leader", &r.Leader)
	v.tagged(0, 0, r.LeaderRecoveryState != LeaderRecovered, func() {
		number(v, "leaderRecoveryState", &r.LeaderRecoveryState)
	})
	number(v, "leaderEpoch", &r.LeaderEpoch)
	number(v, "partitionEpoch", &r.PartitionEpoch)
	if version >= 1 {
		uuids(v, "directories", &r.Directories)
	}
	v.tagged(1, 2, r.EligibleLeaderReplicas != nil, func() {
		nullableNodes(v, "eligibleLeaderReplicas", &r.EligibleLeaderReplicas)
	})
	v.tagged(2, 2, r.LastKnownELR != nil, func() { nullableNodes(v, "lastKnownElr", &r.LastKnownELR) })
}

// PartitionChangeRecord changes some fields of a partition: nil means unchanged, an empty list means empty. Every such
// record adds one to the partition epoch; a set Leader, even the same one, adds one to the leader epoch.
// Directories exists from version 1 on, the ELR lists from version 2.
type PartitionChangeRecord struct {
	PartitionID            int32
	TopicID                kafka.UUID
	ISR                    []kafka.NodeID
	Leader                 *kafka.NodeID // kafka.NoNode: the partition has no leader now
	Replicas               []kafka.NodeID
	RemovingReplicas       []kafka.NodeID
	AddingReplicas         []kafka.NodeID
	LeaderRecoveryState    *LeaderRecoveryState
	Directories            []kafka.UUID
	EligibleLeaderReplicas []kafka.NodeID
	LastKnownELR           []kafka.NodeID
}

// Type is TypePartitionChange.
func (*PartitionChangeRecord) Type() RecordType { return TypePartitionChange }

func (r *PartitionChangeRecord) fields(v visitor, _ int16) {
	number(v, "partitionId", &r.PartitionID)
	uuid(v, "topicId", &r.TopicID)
	v.tagged(0, 0, r.ISR != nil, func() { nullableNodes(v, "isr", &r.ISR) })
	v.tagged(1, 0, r.Leader != nil, func() { optional(v, "leader", &r.Leader, leaderUnchanged) })
	v.tagged(2, 0, r.Replicas != nil, func() { nullableNodes(v, "replicas", &r.Replicas) })
	v.tagged(3, 0, r.RemovingReplicas != nil, func() { nullableNodes(v, "removingReplicas", &r.RemovingReplicas) })
	v.tagged(4, 0, r.AddingReplicas != nil, func() { nullableNodes(v, "addingReplicas", &r.AddingReplicas) })
	v.tagged(5, 0, r.LeaderRecoveryState != nil, func() {
		optional(v, "leaderRecoveryState", &r.LeaderRecoveryState, recoveryUnchanged)
	})
	// Tag 8 is older than 6 and 7: numbers were taken when fields were proposed, not when they were released.
	v.tagged(8, 1, r.Directories != nil, func() { nullableUUIDs(v, "directories", &r.Directories) })
	v.tagged(6, 2, r.EligibleLeaderReplicas != nil, func() {
		nullableNodes(v, "eligibleLeaderReplicas", &r.EligibleLeaderReplicas)
	})
	v.tagged(7, 2, r.LastKnownELR != nil, func() { nullableNodes(v, "lastKnownElr", &r.LastKnownELR) })
}

// ClearElrRecord empties both ELR lists of every partition of a topic, or of all topics when the name is empty
// (KIP-966: min.insync.replicas was changed).
type ClearElrRecord struct {
	TopicName string
}

// Type is TypeClearElr.
func (*ClearElrRecord) Type() RecordType { return TypeClearElr }

func (r *ClearElrRecord) fields(v visitor, _ int16) {
	text(v, "topicName", &r.TopicName)
}
