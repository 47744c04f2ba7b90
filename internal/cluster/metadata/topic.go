package metadata

import (
	"iter"
	"slices"

	"moldau/internal/kafka"
)

// Topic is a topic and its partitions.
type Topic struct {
	Name string
	ID   kafka.UUID

	partitions tree[int32, *Partition]
}

// Partition finds a partition by its index.
func (t *Topic) Partition(index int32) (*Partition, bool) { return t.partitions.get(index) }

// NumPartitions is the number of partitions. Their indexes are 0 to NumPartitions()-1, unless the log holds a topic
// only in part (its creation is cut into several batches below metadata.version 13).
func (t *Topic) NumPartitions() int { return t.partitions.len() }

// Partitions goes through the partitions by index.
func (t *Topic) Partitions() iter.Seq2[int32, *Partition] { return t.partitions.all() }

// Partition is the state of one partition. Lists that are empty are nil, except that Directories always has one entry
// per replica.
type Partition struct {
	Replicas       []kafka.NodeID // in order of preference, those being added and removed included
	ISR            []kafka.NodeID
	Adding         []kafka.NodeID
	Removing       []kafka.NodeID
	Directories    []kafka.UUID // the log directory of each replica, in the order of Replicas
	ELR            []kafka.NodeID
	LastKnownELR   []kafka.NodeID
	Leader         kafka.NodeID // kafka.NoNode for none
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	Recovering     bool // the leader was elected uncleanly and has not recovered yet
}

// Directory gives the log directory that the replica on a broker is in. A broker without a replica has
// kafka.DirectoryMigrating.
func (p *Partition) Directory(broker kafka.NodeID) kafka.UUID {
	if i := slices.Index(p.Replicas, broker); i >= 0 {
		return p.Directories[i]
	}
	return kafka.DirectoryMigrating
}

// HasLeader says whether the partition has a leader.
func (p *Partition) HasLeader() bool { return p.Leader != kafka.NoNode }

// Preferred is the replica that leads when everything is well, kafka.NoNode without replicas.
func (p *Partition) Preferred() kafka.NodeID {
	if len(p.Replicas) == 0 {
		return kafka.NoNode
	}
	return p.Replicas[0]
}

// Reassigning says whether a reassignment is under way.
func (p *Partition) Reassigning() bool { return len(p.Adding) > 0 || len(p.Removing) > 0 }

// members lists every broker the partition names, once each, appended to dst. The ELR can name brokers that are not
// replicas any more; about the others nothing is taken for granted.
func (p *Partition) members(dst []kafka.NodeID) []kafka.NodeID {
	leader := []kafka.NodeID{p.Leader}
	if !p.HasLeader() {
		leader = nil
	}
	for _, ids := range [...][]kafka.NodeID{p.Replicas, p.ISR, p.ELR, p.LastKnownELR, leader} {
		for _, id := range ids {
			if !slices.Contains(dst, id) {
				dst = append(dst, id)
			}
		}
	}
	return dst
}

// Topic finds a topic by name.
func (i *Image) Topic(name string) (*Topic, bool) {
	id, ok := i.orEmpty().names.get(name)
	if !ok {
		return nil, false
	}
	return i.topics.get(string(id[:]))
}

// TopicByID finds a topic by id.
func (i *Image) TopicByID(id kafka.UUID) (*Topic, bool) { return i.orEmpty().topics.get(string(id[:])) }

// Topics goes through the topics by name.
func (i *Image) Topics() iter.Seq[*Topic] {
	i = i.orEmpty()
	return func(yield func(*Topic) bool) {
		for _, id := range i.names.all() {
			if t, _ := i.topics.get(string(id[:])); !yield(t) {
				return
			}
		}
	}
}

// TopicsByID goes through the topics by id.
func (i *Image) TopicsByID() iter.Seq[*Topic] { return i.orEmpty().topics.values() }

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.orEmpty().topics.len() }

// Partition finds a partition by topic name and index.
func (i *Image) Partition(tp kafka.TopicPartition) (*Partition, bool) {
	t, ok := i.Topic(tp.Topic)
	if !ok {
		return nil, false
	}
	return t.Partition(tp.Partition)
}

// PartitionCount is the number of partitions of all topics.
func (i *Image) PartitionCount() int { return i.orEmpty().partitions }
