package controller

import (
	"iter"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// brokerChange is what happens to one broker and makes partitions look for other leaders. The image does not
// show it yet. Fields that do not apply are kafka.NoNode.
type brokerChange struct {
	leaves kafka.NodeID // out of every ISR, not to be elected
	joins  kafka.NodeID // may be elected although the image shows it fenced
	lost   kafka.NodeID // stopped uncleanly: out of ISR and ELR
}

func leaving(id kafka.NodeID) brokerChange {
	return brokerChange{leaves: id, joins: kafka.NoNode, lost: kafka.NoNode}
}

func losing(id kafka.NodeID) brokerChange {
	return brokerChange{leaves: kafka.NoNode, joins: kafka.NoNode, lost: id}
}

// repartition gives the records by which partitions adapt to what happens to a broker.
func (t *turn) repartition(refs iter.Seq[metadata.PartitionRef], b brokerChange) []metadata.Record {
	alive := func(id kafka.NodeID) bool {
		return id != b.leaves && id != b.lost && (id == b.joins || t.active(id))
	}
	var out []metadata.Record
	for ref := range refs {
		c := t.changeOf(ref, alive)
		c.isr = without(ref.Partition.ISR, b.leaves, b.lost)
		if b.lost != kafka.NoNode {
			c.lost = []kafka.NodeID{b.lost}
		}
		if r := c.record(); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// fence takes a broker out of service.
func (t *turn) fence(b *metadata.Broker) []metadata.Record {
	out := t.repartition(t.Image.InISR(b.ID), leaving(b.ID))
	return append(out, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
		Fenced: metadata.Fence})
}

// unfence takes a broker into service: partitions that wait for a leader may elect it.
func (t *turn) unfence(b *metadata.Broker) []metadata.Record {
	out := []metadata.Record{&metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
		Fenced: metadata.Unfence}}
	return append(out, t.repartition(t.Image.Leaderless(),
		brokerChange{leaves: kafka.NoNode, joins: b.ID, lost: kafka.NoNode})...)
}

// shutDown takes the leaderships and in-sync memberships of a broker that wants to leave in good order.
func (t *turn) shutDown(b *metadata.Broker) []metadata.Record {
	var out []metadata.Record
	if !b.InControlledShutdown {
		out = append(out, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
			InControlledShutdown: true})
	}
	return append(out, t.repartition(t.Image.InISR(b.ID),
		leaving(b.ID))...)
}

// replaced gives what happens to the partitions of an incarnation that a new one takes the place of. After an
// unclean stop, with eligible leader replicas on, the broker may have lost what it had acknowledged: it is
// not eligible any more.
func (t *turn) replaced(id kafka.NodeID, clean bool) []metadata.Record {
	if clean || !t.elr {
		return t.repartition(t.Image.InISR(id), leaving(id))
	}
	gone := losing(id)
	out := t.repartition(t.Image.InISR(id), gone)
	return append(out, t.repartition(t.Image.InELR(id), gone)...)
}

// leadsAny says whether a broker leads a partition.
func (t *turn) leadsAny(id kafka.NodeID) bool {
	for range t.Image.LedBy(id) {
		return true
	}
	return false
}

// forgetLost clears the last known leader of partitions whose replica was in a directory that the broker
// registers without: what comes back there is empty and must not win an election. records are those of the
// same registration.
func (t *turn) forgetLost(id kafka.NodeID, dirs []kafka.UUID, records []metadata.Record) []metadata.Record {
	type key struct {
		topic kafka.UUID
		index int32
	}
	changes := map[key]*metadata.PartitionChangeRecord{}
	for _, r := range records {
		if c, ok := r.(*metadata.PartitionChangeRecord); ok {
			changes[key{c.TopicID, c.PartitionID}] = c
		}
	}
	for ref := range t.Image.ReplicasOn(id) {
		dir := ref.Partition.Directory(id)
		if dir.IsReserved() || slices.Contains(dirs, dir) {
			continue
		}
		r := changes[key{ref.Topic.ID, ref.Index}]
		last := ref.Partition.LastKnownELR
		if r != nil && r.LastKnownELR != nil {
			last = r.LastKnownELR
		}
		if !slices.Contains(last, id) {
			continue
		}
		if r == nil {
			r = &metadata.PartitionChangeRecord{PartitionID: ref.Index, TopicID: ref.Topic.ID}
			records = append(records, r)
		}
		r.LastKnownELR = []kafka.NodeID{}
	}
	return records
}
