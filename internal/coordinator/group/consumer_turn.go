package group

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
)

// consumerTurn is what one event does to a consumer group: what is to be written, and what the group will be when it has been.
// The group itself changes only when the records are applied, so a turn whose append fails leaves no trace.
type consumerTurn struct {
	m    *Machine
	now  time.Time
	g    *consumerGroup // as it is; for one that is being made, as its first records will make it
	conf ConsumerSettings

	epoch           int32 // the group's, when this is written
	hash            uint64
	assignmentEpoch int32

	records []coordinator.Record
	// timers: a session begins anew whether or not the records can be written, as the member has shown that it is alive. All
	// else waits until they are: the member that a timer watches is there as long as the log has it.
	timers   []coordinator.Timer
	again    coordinator.Timer // set if nothing could be written
	rejoined []string          // members of the classic protocol that need not join again
	notes    []Rebalance
	next     []coordinator.Event
	rehash   bool // the hash was compared with the present topics

	assigned map[string]partitions // the new target assignment, if one was computed

	history []Rebalance                        // of the group before; its kind may change with its history lost
	after   func(time.Time) coordinator.Result // what follows once the records are written
}

func (m *Machine) newConsumerTurn(now time.Time, g *consumerGroup) *consumerTurn {
	return &consumerTurn{m: m, now: now, g: g, conf: m.o.Consumer(m.image, g.id), epoch: g.epoch, hash: g.hash,
		assignmentEpoch: g.assignmentEpoch}
}

func (t *consumerTurn) write(r ...coordinator.Record) { t.records = append(t.records, r...) }

// result ends the turn. Without a request (nil) nobody is answered.
func (t *consumerTurn) result(p *coordinator.Pending, a coordinator.Answer) coordinator.Result {
	r := coordinator.Result{Scope: t.g.id, Records: t.records, Next: t.next}
	if p != nil {
		r.Replies = []coordinator.Reply{{To: p, Answer: a}}
	}
	var later []coordinator.Timer
	for _, x := range t.timers {
		if len(t.records) > 0 && (x.Key.Kind != timerSession || x.At.IsZero()) {
			later = append(later, x)
		} else {
			r.Timers = append(r.Timers, x)
		}
	}
	if len(t.notes) == 0 && t.after == nil && !t.rehash && len(later) == 0 && len(t.rejoined) == 0 {
		return r
	}
	if g := t.m.groups[t.g.id]; g != nil {
		t.history = g.history
	}
	r.Then = func(now time.Time, err error) coordinator.Result {
		if err != nil && !t.again.At.IsZero() {
			return coordinator.Result{Scope: t.g.id, Timers: []coordinator.Timer{t.again}}
		}
		if err != nil {
			return coordinator.Result{}
		}
		t.written()
		after := coordinator.Result{Scope: t.g.id}
		if t.after != nil {
			after = t.after(now)
		}
		after.Timers = append(later, after.Timers...)
		return after
	}
	return r
}

// written takes over the soft state after the records have been applied.
func (t *consumerTurn) written() {
	g := t.m.groups[t.g.id]
	if g == nil {
		return
	}
	if g.history == nil { // it was deleted and made anew as one of another kind
		g.history = t.history
	}
	for _, n := range t.notes {
		g.note(n)
	}
	if c, ok := g.kind.(*consumerGroup); ok {
		c.fresh = c.fresh || t.rehash
		for _, id := range t.rejoined {
			delete(c.rejoining, id)
		}
	}
}

// bump moves the group to its next epoch.
func (t *consumerTurn) bump(member, reason string) {
	t.epoch++
	t.write(epochRecord(t.g.id, t.epoch, t.hash))
	t.notes = append(t.notes, Rebalance{At: t.now, Generation: t.epoch, Member: member, Reason: reason})
}

// rehashed computes the hash of the topics that the group subscribes to and says whether it is another one.
func (t *consumerTurn) rehashed(topics []string) bool {
	hash := t.m.metadataHash(topics)
	changed := hash != t.hash
	t.hash, t.rehash = hash, true
	return changed
}

// topicsAfter lists the topics, sorted, that the group subscribes to when some members are gone and one has come (nil:
// none).
func (g *consumerGroup) topicsAfter(gone []*consumerMember, come *consumerMember) []string {
	named, pattern := changedCounts(g, gone, come)
	all := make([]string, 0, len(named))
	for t := range named {
		all = append(all, t)
	}
	for p := range pattern {
		if r := g.regexes[p]; r != nil {
			all = append(all, r.topics...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func changedCounts(g *consumerGroup, gone []*consumerMember, come *consumerMember) (named, pattern map[string]int) {
	c := &consumerGroup{named: maps.Clone(g.named), pattern: maps.Clone(g.pattern)}
	for _, m := range gone {
		c.uncount(m)
	}
	if come != nil {
		c.count(come)
	}
	return c.named, c.pattern
}

// topicSet gives those topics of a member's subscription that exist. A pattern that was not evaluated yet matches nothing.
func (g *consumerGroup) topicSet(image *metadata.Image, m *consumerMember) topicSet {
	set := make(topicSet, len(m.topics))
	set.addNames(image, m.topics)
	if r := g.regexes[m.regex]; m.regex != "" && r != nil {
		set.addNames(image, r.topics)
	}
	return set
}
