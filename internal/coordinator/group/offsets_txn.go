package group

import (
	"cmp"
	"slices"
	"strings"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// pend keeps an offset that counts once the producer's transaction commits.
func (m *Machine) pend(g *group, producer kafka.ProducerID, topic string, c committed) {
	o := g.pending[producer]
	if o == nil {
		o = &offsets{}
		if g.pending == nil {
			g.pending = map[kafka.ProducerID]*offsets{}
		}
		g.pending[producer] = o
		m.open[producer] = append(m.open[producer], g)
	}
	o.put(topic, c)
}

// Ended takes over, or drops, what a producer's transaction committed. A plain commit that came after the transactional
// one stays, wherever the marker lies: the order of the records decides, so that a compacted log says the same.
func (m *Machine) Ended(p coordinator.Stamp, commit bool, _ coordinator.Origin) {
	groups := m.open[p.ID]
	delete(m.open, p.ID)
	for _, g := range groups {
		o := g.pending[p.ID]
		delete(g.pending, p.ID)
		if o == nil || !commit {
			continue
		}
		for topic, c := range o.all() {
			if old, ok := g.offsets.get(topic, c.partition); !ok || c.record > old.record {
				g.offsets.put(topic, *c)
			}
		}
	}
}

// unstable says whether an open transaction may change an offset. What it would commit to a topic that is gone does not
// count.
func (m *Machine) unstable(g *group, topic string, partition int32) bool {
	for _, o := range g.pending { // any of them; the order cannot show
		if c, ok := o.get(topic, partition); ok && !m.stale(topic, c) {
			return true
		}
	}
	return false
}

// has says whether the group has an offset, committed or pending.
func (g *group) has(topic string, partition int32) bool {
	_, ok := g.offsets.get(topic, partition)
	for _, o := range g.pending {
		if !ok {
			_, ok = o.get(topic, partition)
		}
	}
	return ok
}

// forget removes an offset and what open transactions hold for its partition.
func (g *group) forget(topic string, partition int32) {
	g.offsets.remove(topic, partition)
	for _, o := range g.pending {
		o.remove(topic, partition)
	}
}

// open says whether a transaction may still commit offsets to the group.
func (g *group) open() bool {
	for _, o := range g.pending {
		if !o.empty() {
			return true
		}
	}
	return false
}

// partitionKey is a topic's partition in the list of what a group has.
type partitionKey struct {
	topic     string
	partition int32
}

// partitions adds every partition that the group has an offset of, committed or pending, to an empty list, sorted.
func (g *group) partitions(list []partitionKey) []partitionKey {
	for topic, c := range g.offsets.all() {
		list = append(list, partitionKey{topic, c.partition})
	}
	if len(g.pending) == 0 {
		return list
	}
	for _, o := range g.pending { // sorted below
		for topic, c := range o.all() {
			list = append(list, partitionKey{topic, c.partition})
		}
	}
	slices.SortFunc(list, comparePartitions)
	return slices.Compact(list)
}

func comparePartitions(a, b partitionKey) int {
	if c := strings.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return cmp.Compare(a.partition, b.partition)
}
