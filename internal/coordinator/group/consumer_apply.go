package group

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerRecord is a key of one of the consumer group's records, taken apart.
type consumerRecord struct {
	kind   int
	group  string
	member string // or the pattern
}

func parseConsumerKey(kind int, key []byte) (consumerRecord, error) {
	r := kbin.Reader{Src: key[2:]}
	k := consumerRecord{kind: kind, group: r.String()}
	switch kind {
	case keyConsumerMember, keyTargetMember, keyCurrentMember, keyConsumerRegex:
		k.member = r.String()
	}
	if !r.Ok() {
		return k, kafka.Errorf(kafka.CorruptMessage, "a key of type %d that ends too early", kind)
	}
	return k, nil
}

// applyConsumer takes over a record of a consumer group. Compaction may have removed what came before it, so a record
// makes what it needs, and a tombstone of what is not there is nothing.
func (m *Machine) applyConsumer(kind int, r coordinator.Record, _ coordinator.Origin) error {
	k, err := parseConsumerKey(kind, r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		if g := m.consumerGroup(k.group); g != nil {
			m.applyConsumerTombstone(g, k)
		}
		return nil
	}
	value, err := newValueReader(r.Value)
	if err != nil {
		return err
	}
	return m.applyConsumerValue(k, value)
}

func (m *Machine) applyConsumerTombstone(g *group, k consumerRecord) {
	c := g.kind.(*consumerGroup)
	switch k.kind {
	case keyConsumerGroup:
		m.vacate(g)
	case keyConsumerPartition:
		c.oldMetadata = false
	case keyConsumerMember:
		c.remove(k.member)
	case keyTargetMetadata:
		c.assignmentEpoch, c.assignedAtMs = -1, 0
	case keyTargetMember:
		delete(c.targets, k.member)
	case keyCurrentMember:
		if old := c.roster[k.member]; old != nil {
			next := *old
			next.epoch, next.previous, next.state = epochLeave, epochLeave, memberStable
			next.assigned, next.revoking = nil, nil
			c.put(&next)
		}
	case keyConsumerRegex:
		delete(c.regexes, k.member)
	}
}

func (m *Machine) applyConsumerValue(k consumerRecord, value *valueReader) error {
	switch k.kind {
	case keyConsumerGroup:
		epoch, hash := value.Int32(), uint64(0)
		value.tags(func(f *valueReader) { hash = uint64(f.Int64()) })
		return m.changeConsumer(k, value, func(c *consumerGroup) { c.epoch, c.hash = epoch, hash })
	case keyConsumerPartition:
		return m.changeConsumer(k, value, func(c *consumerGroup) { c.oldMetadata = true })
	case keyTargetMetadata:
		epoch, at := value.Int32(), int64(0)
		value.tags(func(f *valueReader) { at = f.Int64() })
		return m.changeConsumer(k, value, func(c *consumerGroup) { c.assignmentEpoch, c.assignedAtMs = epoch, at })
	case keyTargetMember:
		target := value.target()
		return m.changeConsumer(k, value, func(c *consumerGroup) { c.targets[k.member] = target })
	case keyConsumerRegex:
		r := &resolvedRegex{topics: value.strings(), version: value.Int64(), timestampMs: value.Int64()}
		return m.changeConsumer(k, value, func(c *consumerGroup) { c.regexes[k.member] = r })
	case keyConsumerMember:
		var told consumerMember
		value.readMember(&told)
		return m.changeConsumer(k, value, func(c *consumerGroup) {
			next := c.memberOrNew(k.member)
			told.id, told.epoch, told.previous, told.state = next.id, next.epoch, next.previous, next.state
			told.assigned, told.revoking = next.assigned, next.revoking
			c.put(&told)
		})
	case keyCurrentMember:
		epoch, previous, state := value.Int32(), value.Int32(), memberState(value.Int8())
		if state > memberUnreleased {
			state = memberUnknown
		}
		assigned, revoking := value.held(epoch), value.held(epoch)
		return m.changeConsumer(k, value, func(c *consumerGroup) {
			next := *c.memberOrNew(k.member)
			next.epoch, next.previous, next.state = epoch, previous, state
			next.assigned, next.revoking = assigned, revoking
			c.put(&next)
		})
	}
	return nil
}

// changeConsumer changes the group of a record whose value has been read, unless reading has failed. A group that does
// not exist, or holds offsets only, becomes a consumer group.
func (m *Machine) changeConsumer(k consumerRecord, value *valueReader, change func(*consumerGroup)) error {
	if err := value.done(); err != nil {
		return err
	}
	g := m.groups[k.group]
	if g == nil {
		g = m.create(k.group)
	}
	c, ok := g.kind.(*consumerGroup)
	if !ok {
		if g.kind.members() > 0 {
			return kafka.Errorf(kafka.CorruptMessage, "a record of type %d for the classic group %s", k.kind, k.group)
		}
		c = newConsumerGroup(k.group)
		g.kind = c
	}
	change(c)
	return nil
}

func (g *consumerGroup) memberOrNew(id string) *consumerMember {
	if m := g.roster[id]; m != nil {
		return m
	}
	return newConsumerMember(id)
}

// put adds or replaces a member and keeps what is derived from the members.
func (g *consumerGroup) put(m *consumerMember) {
	old := g.roster[m.id]
	if old != nil {
		g.forget(old)
		if old.instance != nil && !equalStrings(old.instance, m.instance) && g.statics[*old.instance] == m.id {
			delete(g.statics, *old.instance)
		}
	}
	g.roster[m.id] = m
	if m.instance != nil {
		g.statics[*m.instance] = m.id
	}
	g.count(m)
	g.hold(m.id, m.assigned)
	g.hold(m.id, m.revoking)
}

func (g *consumerGroup) remove(id string) {
	m := g.roster[id]
	if m == nil {
		return
	}
	g.forget(m)
	delete(g.roster, id)
	if m.instance != nil && g.statics[*m.instance] == id {
		delete(g.statics, *m.instance)
	}
}

// forget takes what is derived from a member back.
func (g *consumerGroup) forget(m *consumerMember) {
	g.uncount(m)
	g.release(m.id, m.assigned)
	g.release(m.id, m.revoking)
}

// count counts what a member subscribes to, and takes.
func (g *consumerGroup) count(m *consumerMember) {
	g.bytes += m.bytes()
	for _, t := range m.topics {
		g.named[t]++
	}
	if m.regex != "" {
		g.pattern[m.regex]++
	}
}

func (g *consumerGroup) uncount(m *consumerMember) {
	g.bytes -= m.bytes()
	for _, t := range m.topics {
		lower(g.named, t)
	}
	if m.regex != "" {
		lower(g.pattern, m.regex)
	}
}

// lower takes one from a count and drops it at nothing.
func lower(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

func (g *consumerGroup) hold(member string, h held) {
	for topic, numbers := range h {
		of := g.holders[topic]
		if of == nil {
			of = make(map[int32]string, len(numbers))
			g.holders[topic] = of
		}
		for n := range numbers {
			of[n] = member
		}
	}
}

// release gives up what is still the member's: in a compacted log the record that took a partition away from it can be
// gone, and the one of the next holder come first.
func (g *consumerGroup) release(member string, h held) {
	for topic, numbers := range h {
		of := g.holders[topic]
		for n := range numbers {
			if of[n] == member {
				delete(of, n)
			}
		}
		if len(of) == 0 {
			delete(g.holders, topic)
		}
	}
}

// holder is who has a partition or has not given it up, "" for nobody.
func (g *consumerGroup) holder(topic kafka.UUID, number int32) string {
	return g.holders[topic][number]
}
