package group

import (
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// A pass over the groups is cut into steps, between which requests are served: a step ends after so many groups, or
// after so many of them had something to write.
const (
	sweepGroups = 500
	sweepWrites = 50
)

// sweepStep is the Member of the timer that continues a pass; the one that starts a pass has none.
const sweepStep = "step"

// sweep is a pass over all groups that drops offsets of topics that are gone and, if asked to, what has expired. It is
// soft state: a pass that is lost is done by the next one.
type sweep struct {
	left   []string // the groups still to visit; nil: no pass is under way
	expire bool
	again  bool // another topic went meanwhile: go through all groups once more
	// removed holds names of topics that were deleted, with the newest record of that moment. Records without a topic id
	// are told by it whether they were meant for a topic that went or for a later one of the same name.
	removed map[string]kafka.Offset
	scratch []partitionKey
}

// expire reacts to the expiry timer: a new pass is due, or the one under way goes on.
func (m *Machine) expire(now time.Time, k coordinator.TimerKey) coordinator.Result {
	if k.Member == sweepStep {
		return m.sweepOn(now)
	}
	m.sweep.left, m.sweep.expire = m.ids(), true
	r := m.sweepOn(now)
	r.Timers = append(r.Timers, m.nextSweep(now))
	return r
}

func (m *Machine) nextSweep(now time.Time) coordinator.Timer {
	return coordinator.Timer{Key: coordinator.TimerKey{Kind: timerExpiry}, At: now.Add(m.o.Settings().OffsetsCheckInterval)}
}

// removed remembers that a topic went, with everything that was committed to it.
func (m *Machine) removed(topic string) {
	if m.sweep.removed == nil {
		m.sweep.removed = map[string]kafka.Offset{}
	}
	m.sweep.removed[topic] = m.last
}

// sweepSoon starts a pass for topics that are gone, or has the one under way followed by another.
func (m *Machine) sweepSoon(now time.Time) coordinator.Timer {
	if m.sweep.left != nil {
		m.sweep.again = true
	} else {
		m.sweep.left = m.ids()
	}
	return sweepTimer(now)
}

func sweepTimer(now time.Time) coordinator.Timer {
	return coordinator.Timer{Key: coordinator.TimerKey{Kind: timerExpiry, Member: sweepStep}, At: now}
}

// sweepOn does one step of a pass.
func (m *Machine) sweepOn(now time.Time) coordinator.Result {
	return m.sweepFrom(now, sweepGroups, sweepWrites)
}

// sweepFrom visits groups up to the first that has something to write, which Then continues from: each group's records
// are a write of that group, so that its readers wait for it.
func (m *Machine) sweepFrom(now time.Time, groups, writes int) coordinator.Result {
	for ; len(m.sweep.left) > 0; groups-- {
		if groups <= 0 || writes <= 0 {
			return coordinator.Result{Timers: []coordinator.Timer{sweepTimer(now)}}
		}
		id := m.sweep.left[0]
		m.sweep.left = m.sweep.left[1:]
		g := m.groups[id]
		if g == nil {
			continue
		}
		if records := m.expired(now, g); len(records) > 0 {
			return coordinator.Result{
				Scope: id, Records: records, Split: true,
				Then: func(now time.Time, err error) coordinator.Result {
					if err != nil { // the next pass tries again; more appends would fail alike
						return m.sweepEnd(now, err)
					}
					return m.sweepFrom(now, groups-1, writes-1)
				},
			}
		}
	}
	return m.sweepEnd(now, nil)
}

func (m *Machine) sweepEnd(now time.Time, err error) coordinator.Result {
	m.sweep.left, m.sweep.expire = nil, false
	if err != nil {
		return coordinator.Result{}
	}
	if m.sweep.again {
		m.sweep.again = false
		return coordinator.Result{Timers: []coordinator.Timer{m.sweepSoon(now)}}
	}
	m.sweep.removed = nil
	return coordinator.Result{}
}

// expired lists the tombstones of what a group has to lose: offsets of topics that are gone, expired offsets (KIP-211),
// and the group itself when it is empty and nothing is left of it. An offset that an open transaction may change stays.
func (m *Machine) expired(now time.Time, g *group) []coordinator.Record {
	var out []coordinator.Record
	e := expiry{}
	if m.sweep.expire {
		e = g.kind.expires()
	}
	kept := false
	m.sweep.scratch = g.partitions(m.sweep.scratch[:0])
	for _, k := range m.sweep.scratch {
		c, committed := g.offsets.get(k.topic, k.partition)
		switch unstable := m.unstable(g, k.topic, k.partition); {
		case m.gone(k.topic, c, g, k.partition):
			out = append(out, offsetTombstone(g.id, k.topic, k.partition))
		case committed && !unstable && !g.kind.subscribed(k.topic) && m.due(now, e, c):
			out = append(out, offsetTombstone(g.id, k.topic, k.partition))
		default:
			kept = true
		}
	}
	if m.sweep.expire && !kept && g.kind.checkDelete() == nil {
		out = append(out, g.kind.tombstones()...)
	}
	return out
}

// due says whether an offset has expired by age.
func (m *Machine) due(now time.Time, e expiry, c *committed) bool {
	since := c.commitMs
	switch e.mode {
	case expireNever:
		return false
	case expireSince:
		since = e.since.UnixMilli()
	case expireByCommit:
	}
	if c.expireMs != noExpiry {
		return now.UnixMilli() >= c.expireMs
	}
	return now.UnixMilli()-since >= m.o.Settings().OffsetsRetention.Milliseconds()
}

// gone says whether every offset that a group holds for a partition, committed or pending, is one of a deleted topic.
func (m *Machine) gone(topic string, c *committed, g *group, partition int32) bool {
	if c != nil && !m.orphan(topic, c) {
		return false
	}
	for _, o := range g.pending { // all of them; the order cannot show
		if c, ok := o.get(topic, partition); ok && !m.orphan(topic, c) {
			return false
		}
	}
	return true
}

// orphan says whether an offset was meant for a topic that does not exist any more.
func (m *Machine) orphan(topic string, c *committed) bool {
	if !c.topicID.IsZero() {
		return m.stale(topic, c)
	}
	if _, ok := m.image.Topic(topic); !ok {
		return true
	}
	at, ok := m.sweep.removed[topic]
	return ok && c.record <= at
}
