package replica

import (
	"slices"
	"sync"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// progress is what a leader knows of one follower. Its lock is taken last and never held during I/O, so that a follower's
// fetch never waits for an append.
type progress struct {
	mu           sync.Mutex
	end          kafka.Offset // what the follower has, and, as it syncs before it fetches again, has on its disk
	start        kafka.Offset
	epoch        kafka.BrokerEpoch // of the fetching incarnation, -1 unknown
	caughtUp     time.Time         // last moment at which it was known to have everything
	lastFetch    time.Time
	endAtFetch   kafka.Offset // the leader's end at its last fetch
	lagAccounted bool
}

// ISRProposal is a change of the in-sync set that the leader asks the controller for (AlterPartition).
type ISRProposal struct {
	Partition      kafka.TopicPartition
	TopicID        kafka.UUID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []ISRMember
	// Before is how many members the set has now.
	Before int
}

// ISRMember is a broker with the epoch of the incarnation that fetched (KIP-903), -1 when unknown.
type ISRMember struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch
}

// trackRemotes keeps progress for exactly the other replicas. The caller holds p.mu.
func (p *Partition) trackRemotes(now time.Time) {
	next := make(map[kafka.NodeID]*progress, len(p.replicas))
	for _, id := range p.replicas {
		if id == p.self {
			continue
		}
		if r := p.remotes[id]; r != nil {
			next[id] = r
			continue
		}
		// A new leader gives the in-sync a full lag time before it judges them, and waits for nobody else.
		r := &progress{end: kafka.NoOffset, start: kafka.NoOffset, epoch: -1}
		if slices.Contains(p.isr, id) {
			r.caughtUp = now
		}
		next[id] = r
	}
	if len(next) == 0 {
		next = nil
	}
	p.remotes = next
}

// raiseHighWatermark moves the high watermark to the least position over the maximal in-sync set: what the image says
// and what is proposed. It never falls during a term and stands still while the set is below min.insync.replicas, since
// what only few have could still be lost (KIP-966). A follower that keeps up and may join counts as well, or it would
// chase a watermark that moves on with every answer of the others and never get in.
func (p *Partition) raiseHighWatermark(now time.Time) {
	if len(p.isr) < p.minISR() {
		return
	}
	least := p.ackable()
	for _, id := range p.replicas {
		r := p.remotes[id]
		if r == nil {
			continue
		}
		member := slices.Contains(p.isr, id) || slices.Contains(p.proposed, id) && !flaw.In(flaw.MinimalISR)
		r.mu.Lock()
		if r.end < least && (member || !flaw.In(flaw.MinimalISR) && p.joining(now, id, r)) {
			least = r.end
		}
		r.mu.Unlock()
	}
	p.highWatermark = max(p.highWatermark, least)
}

// joining says whether a follower outside of the in-sync set is about to enter it. The caller holds r.mu.
func (p *Partition) joining(now time.Time, id kafka.NodeID, r *progress) bool {
	if p.limits.eligible == nil || p.isLost(id) || now.Sub(r.caughtUp) > p.limits.ReplicaLag {
		return false
	}
	epoch, ok := p.limits.eligible(id)
	return ok && (r.epoch == -1 || r.epoch == epoch)
}

// FollowerFetch is a follower's fetch, which says what it has.
type FollowerFetch struct {
	Replica kafka.NodeID
	Epoch   kafka.BrokerEpoch
	// LeaderEpoch is the term in which the position was found valid: it says nothing about the log of another one.
	LeaderEpoch kafka.LeaderEpoch
	Offset      kafka.Offset
	Start       kafka.Offset
}

// Fetched records a follower's position after its fetch was found valid: it may raise the high watermark and let the
// follower into the in-sync set. An earlier incarnation of the follower, or of the leadership, is not heard. eligible is
// as in Assignment.
func (p *Partition) Fetched(now time.Time, f FollowerFetch, eligible func(kafka.NodeID) (kafka.BrokerEpoch, bool)) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.role != Leader || f.LeaderEpoch != p.leaderEpoch {
		return e
	}
	r := p.remotes[f.Replica]
	if r == nil {
		return e
	}
	end := p.log.View().End
	r.mu.Lock()
	if f.Epoch != -1 && f.Epoch < r.epoch {
		r.mu.Unlock()
		return e
	}
	switch {
	case f.Offset >= end:
		r.caughtUp = now
	case f.Offset >= r.endAtFetch && r.lagAccounted:
		r.caughtUp = r.lastFetch
	}
	r.end, r.start, r.epoch = f.Offset, f.Start, f.Epoch
	r.lastFetch, r.endAtFetch, r.lagAccounted = now, end, true
	r.mu.Unlock()
	e.isr = p.expand(f.Replica, r, eligible)
	p.settle(now, &e)
	return e
}

// expand proposes a follower for the in-sync set once it has everything up to the high watermark and the start of this
// leader's epoch, and the controller would take this incarnation of it.
func (p *Partition) expand(id kafka.NodeID, r *progress, eligible func(kafka.NodeID) (kafka.BrokerEpoch, bool)) *ISRProposal {
	if p.proposed != nil || slices.Contains(p.isr, id) {
		return nil
	}
	if (r.end < p.highWatermark || r.end < p.epochStart) && !flaw.In(flaw.EarlyISR) {
		return nil
	}
	if eligible == nil || p.isLost(id) {
		return nil
	}
	epoch, ok := eligible(id)
	if !ok || (r.epoch != -1 && r.epoch != epoch) {
		return nil
	}
	return p.propose(append(slices.Clone(p.isr), id))
}

// isLost says whether a replica has given itself up: the controller would not take it. The caller holds p.mu.
func (p *Partition) isLost(id kafka.NodeID) bool {
	at := slices.Index(p.replicas, id)
	return at >= 0 && at < len(p.directories) && p.directories[at] == kafka.DirectoryLost
}

// propose marks a set as in flight. Until it is decided its additions hold back the high watermark, and its removals
// still count.
func (p *Partition) propose(isr []kafka.NodeID) *ISRProposal {
	p.proposed = isr
	out := &ISRProposal{Partition: p.tp, TopicID: p.topicID, LeaderEpoch: p.leaderEpoch, PartitionEpoch: p.partitionEpoch,
		Before: len(p.isr)}
	for _, id := range isr {
		m := ISRMember{Broker: id, Epoch: -1}
		if r := p.remotes[id]; r != nil {
			m.Epoch = r.epoch
		}
		out.ISR = append(out.ISR, m)
	}
	return out
}

// Proposes says whether a proposal still stands: nothing has overtaken it.
func (p *Partition) Proposes(r ISRProposal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role == Leader && p.proposed != nil && p.leaderEpoch == r.LeaderEpoch && p.partitionEpoch == r.PartitionEpoch
}

// ISRAccepted tells that the controller took a proposal, with the partition epoch that follows. The set counts when the
// image says so: until then the proposal holds the high watermark back.
func (p *Partition) ISRAccepted(now time.Time, r ISRProposal, epoch kafka.PartitionEpoch) Effects {
	if epoch > r.PartitionEpoch {
		return Effects{}
	}
	return p.ISRRefused(now, r) // nothing changed, so no image will tell
}

// ISRRefused ends a proposal that the controller refused: the set is as it was and another can be proposed.
func (p *Partition) ISRRefused(now time.Time, r ISRProposal) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.role != Leader || p.leaderEpoch != r.LeaderEpoch || p.partitionEpoch != r.PartitionEpoch {
		return e
	}
	p.proposed = nil
	p.settle(now, &e)
	return e
}

// Tick is called now and then: it proposes to remove followers that were behind for longer than lag
// (replica.lag.time.max.ms) and asks for a flush when flush.ms has passed.
func (p *Partition) Tick(now time.Time, lag time.Duration) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.log == nil || p.role == Offline || p.role == Gone {
		return e
	}
	e.flush = p.wantsFlush(now)
	if p.role != Leader || p.proposed != nil || len(p.isr) <= 1 {
		return e
	}
	end := p.log.View().End
	keep := slices.DeleteFunc(slices.Clone(p.isr), func(id kafka.NodeID) bool {
		r := p.remotes[id]
		if r == nil {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.end != end && now.Sub(r.caughtUp) > lag
	})
	if len(keep) < len(p.isr) {
		e.isr = p.propose(keep)
	}
	return e
}
