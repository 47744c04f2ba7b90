package controller

import (
	"math/rand/v2"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// maxElections bounds the elections of one round of periodic work.
const maxElections = 1000

// Tick does the periodic work that is due: it fences a broker whose session has ended, elects preferred and
// unclean leaders, gives the topics of coordinators more replicas when brokers have joined, and writes the NoOp record that shows the log to be alive. It may be called at any time.
func Tick(now time.Time, s State, rnd *rand.Rand) Result {
	if s.Image.MetadataVersion() == 0 {
		return Result{}
	}
	t := newTurn(now, s, rnd)
	l := s.Liveness
	var out []metadata.Record
	if due(now, &l.nextFence, s.Settings.fenceInterval()) {
		out = append(out, t.fenceStale()...)
	}
	if len(out) == 0 && due(now, &l.nextPreferred, s.Settings.PreferredElection) {
		out = append(out, t.electAllPreferred()...)
	}
	if len(out) == 0 && due(now, &l.nextUnclean, s.Settings.UncleanElection) {
		out = append(out, t.electAllUnclean()...)
	}
	if len(out) == 0 && due(now, &l.nextRaise, raiseEvery(s)) {
		out = append(out, t.raiseInternal()...)
	}
	if len(out) == 0 && due(now, &l.nextNoOp, s.Settings.MaxIdle) {
		out = append(out, &metadata.NoOpRecord{})
	}
	return Result{Records: out}
}

// due says whether it is time and sets the next time. An interval of zero means never.
func due(now time.Time, next *time.Time, interval time.Duration) bool {
	if interval <= 0 || now.Before(*next) {
		return false
	}
	*next = now.Add(interval)
	return true
}

// NextTick is when Tick is due next; the zero time for never.
func (l *Liveness) NextTick(now time.Time, s State) time.Time {
	var first time.Time
	if s.Image.MetadataVersion() == 0 {
		return first // not founded yet
	}
	for _, x := range [...]struct {
		next     time.Time
		interval time.Duration
	}{
		{l.nextFence, s.Settings.fenceInterval()}, {l.nextNoOp, s.Settings.MaxIdle},
		{l.nextPreferred, s.Settings.PreferredElection}, {l.nextUnclean, s.Settings.UncleanElection},
		{l.nextRaise, raiseEvery(s)},
	} {
		if x.interval > 0 && (first.IsZero() || x.next.Before(first)) {
			first = x.next
		}
	}
	return first
}

// fenceStale fences the broker that has been silent the longest, if its session has ended.
func (t *turn) fenceStale() []metadata.Record {
	var stale *metadata.Broker
	var since time.Time
	for b := range t.Image.Brokers() {
		if b.Fenced || t.hasSession(b.ID, b.Epoch) {
			continue
		}
		if contact := t.Liveness.of(b.ID, b.Epoch).lastContact; stale == nil || contact.Before(since) {
			stale, since = b, contact
		}
	}
	t.Liveness.forget(func(id kafka.NodeID) bool { _, ok := t.Image.Broker(id); return ok })
	if stale == nil {
		return nil
	}
	t.Liveness.of(stale.ID, stale.Epoch).shutdownOffset = kafka.NoOffset
	return t.fence(stale)
}

// electAllPreferred moves leaderships back to the preferred replicas.
func (t *turn) electAllPreferred() []metadata.Record {
	var out []metadata.Record
	for topic := range t.Image.TopicsByID() {
		for index, p := range topic.Partitions() {
			if len(out) >= maxElections {
				return out
			}
			if p.Leader == p.Preferred() || !p.HasLeader() {
				continue
			}
			c := t.changeOf(metadata.PartitionRef{Topic: topic, Index: index, Partition: p}, t.active)
			if !c.valid(p.Preferred()) {
				continue
			}
			c.election = electPreferred
			if r := c.record(); r != nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// electAllUnclean elects leaders of partitions without one where the topic allows it at the price of data.
func (t *turn) electAllUnclean() []metadata.Record {
	var out []metadata.Record
	for ref := range t.Image.Leaderless() {
		if len(out) >= maxElections {
			break
		}
		if c := t.changeOf(ref, t.active); c.election == electUnclean {
			if r := c.record(); r != nil {
				out = append(out, r)
			}
		}
	}
	return out
}
