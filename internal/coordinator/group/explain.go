package group

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Explain tells why a group is as it is.
func (m *Machine) Explain(now time.Time, id string) (Explanation, bool) {
	g := m.groups[id]
	if g == nil {
		return Explanation{}, false
	}
	members := g.kind.waits(now)
	if c, ok := g.kind.(*consumerGroup); ok {
		c.nameAssigned(members, m.image)
	}
	return Explanation{
		Group: id, Type: g.kind.groupType(), State: g.kind.state(), Generation: g.kind.generation(),
		Members: members, History: slices.Clone(g.history),
	}, true
}

// EachOffset goes through every committed offset by group, topic and partition: for lag. Offsets of topics that are gone
// are left out.
func (m *Machine) EachOffset(
	f func(group, topic string, topicID kafka.UUID, partition int32, offset kafka.Offset, commitTimestampMs int64)) {
	for _, id := range m.ids() {
		for topic, c := range m.groups[id].offsets.all() {
			if t, ok := m.image.Topic(topic); ok && !m.stale(topic, c) {
				f(id, topic, t.ID, c.partition, c.offset, c.commitMs)
			}
		}
	}
}
