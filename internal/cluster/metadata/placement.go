package metadata

import (
	"encoding/binary"
	"iter"
	"slices"

	"moldau/internal/kafka"
)

// placement is the set of partitions that name one broker: as replica, as leader, or in ISR, ELR or last
// known ELR. It changes only when a broker enters or leaves a partition for good: the common records do not touch it.
type placement struct {
	partitions tree[string, struct{}] // by partition key
}

// PartitionRef is a partition and where it is.
type PartitionRef struct {
	Topic     *Topic
	Index     int32
	Partition *Partition
}

// partitionKey packs topic id and index so that keys sort by both.
func partitionKey(topic kafka.UUID, index int32) string {
	var b [20]byte
	copy(b[:], topic[:])
	binary.BigEndian.PutUint32(b[16:], uint32(index))
	return string(b[:])
}

// refs resolves partition keys. Keys of one topic are neighbours, so that a topic is looked up once.
func (i *Image) refs(set tree[string, struct{}], want func(*Partition) bool) iter.Seq[PartitionRef] {
	return func(yield func(PartitionRef) bool) {
		var topic *Topic
		for key := range set.all() {
			if topic == nil || string(topic.ID[:]) != key[:16] {
				topic, _ = i.topics.get(key[:16])
			}
			index := int32(binary.BigEndian.Uint32([]byte(key[16:])))
			p, ok := topic.Partition(index)
			if ok && want(p) && !yield(PartitionRef{topic, index, p}) {
				return
			}
		}
	}
}

func (i *Image) placedOn(broker kafka.NodeID, want func(*Partition) bool) iter.Seq[PartitionRef] {
	i = i.orEmpty()
	on, ok := i.placements.get(broker)
	if !ok {
		return func(func(PartitionRef) bool) {}
	}
	return i.refs(on.partitions, want)
}

// PartitionsOn goes through the partitions that name a broker as replica or leader, or in ISR, ELR or last known ELR, by
// topic id and index. As in the other queries by broker the cost goes with the partitions of that broker, not of the cluster,
// and the broker need not be registered.
func (i *Image) PartitionsOn(broker kafka.NodeID) iter.Seq[PartitionRef] {
	return i.placedOn(broker, func(*Partition) bool { return true })
}

// ReplicasOn goes through the partitions that have a replica on a broker, by topic id and index.
func (i *Image) ReplicasOn(broker kafka.NodeID) iter.Seq[PartitionRef] {
	return i.placedOn(broker, func(p *Partition) bool { return slices.Contains(p.Replicas, broker) })
}

// InISR goes through the partitions whose ISR has a broker, by topic id and index.
func (i *Image) InISR(broker kafka.NodeID) iter.Seq[PartitionRef] {
	return i.placedOn(broker, func(p *Partition) bool { return slices.Contains(p.ISR, broker) })
}

// InELR goes through the partitions whose ELR has a broker, by topic id and index.
func (i *Image) InELR(broker kafka.NodeID) iter.Seq[PartitionRef] {
	return i.placedOn(broker, func(p *Partition) bool { return slices.Contains(p.ELR, broker) })
}

// LedBy goes through the partitions that a broker leads, by topic id and index. kafka.NoNode gives the leaderless ones.
func (i *Image) LedBy(broker kafka.NodeID) iter.Seq[PartitionRef] {
	if broker == kafka.NoNode {
		return i.Leaderless()
	}
	return i.placedOn(broker, func(p *Partition) bool { return p.Leader == broker })
}

// Leaderless goes through the partitions without a leader, by topic id and index.
func (i *Image) Leaderless() iter.Seq[PartitionRef] {
	i = i.orEmpty()
	return i.refs(i.leaderless, func(*Partition) bool { return true })
}

// LeaderlessCount is the number of partitions without a leader.
func (i *Image) LeaderlessCount() int { return i.orEmpty().leaderless.len() }

// PlacedCount is the number of partitions that PartitionsOn gives for a broker.
func (i *Image) PlacedCount(broker kafka.NodeID) int {
	if on, ok := i.orEmpty().placements.get(broker); ok {
		return on.partitions.len()
	}
	return 0
}
