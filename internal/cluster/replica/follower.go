package replica

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// LeaderView is what a fetch response says about the leader.
type LeaderView struct {
	// Epoch is the leader epoch the fetch was sent in: an answer of another term is dropped.
	Epoch         kafka.LeaderEpoch
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
}

// Position is where a follower's next fetch starts, and the epoch of the record before it, by which the leader finds
// divergence.
type Position struct {
	Offset      kafka.Offset
	LastEpoch   kafka.LeaderEpoch
	LogStart    kafka.Offset
	LeaderEpoch kafka.LeaderEpoch
	Leader      kafka.NodeID
}

// FetchPosition gives the follower's next fetch; false when this replica does not follow. With moldau.flush=ack the
// position must not be sent before what lies below it is synced: Synced says so.
func (p *Partition) FetchPosition() (at Position, synced, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != Follower {
		return Position{}, false, false
	}
	v := p.log.View()
	at = Position{Offset: v.End, LastEpoch: kafka.NoEpoch, LogStart: v.Start, LeaderEpoch: p.leaderEpoch, Leader: p.leader}
	if latest, ok := v.Epochs().Latest(); ok {
		at.LastEpoch = latest.Epoch
	}
	return at, p.ackable() >= v.End, true
}

// Replicate appends what a leader answered, batch for batch as it came, and takes over its high watermark and log start.
// The bytes must have passed their CRC. An answer of another term changes nothing.
func (p *Partition) Replicate(now time.Time, fetched []byte, l LeaderView) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.role != Follower || l.Epoch != p.leaderEpoch {
		return e, nil
	}
	if _, err := p.log.Append(fetched, log.Stamp{}, now); err != nil {
		p.judge(err, &e)
		e.moved |= p.publish()
		return e, err
	}
	v := p.log.View()
	p.highWatermark = max(p.highWatermark, min(l.HighWatermark, v.End))
	if start := min(l.LogStart, v.End); start > v.Start {
		if err := p.log.AdvanceStart(start); err != nil {
			p.judge(err, &e)
			return e, err
		}
	}
	e.flush = p.wantsFlush(now)
	e.moved |= p.publish()
	return e, nil
}

// Diverged cuts the log after a leader said that it parts from this one at the end of an epoch (KIP-279, KIP-595): to
// the smaller of both ends when both have that epoch, else to this log's own end of its floor epoch, and the next fetch
// asks again. It never cuts to the high watermark (KIP-101).
func (p *Partition) Diverged(now time.Time, l LeaderView, epoch kafka.LeaderEpoch, end kafka.Offset) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.role != Follower || l.Epoch != p.leaderEpoch {
		return e, nil
	}
	own, ownEnd := p.log.EndOffsetFor(epoch)
	cut := ownEnd
	switch {
	case own == kafka.NoEpoch:
		cut = end
	case own == epoch:
		cut = min(ownEnd, end)
	}
	cut = min(cut, p.log.View().End)
	return e, p.cut(&e, cut)
}

func (p *Partition) cut(e *Effects, to kafka.Offset) error {
	if err := p.log.TruncateTo(to); err != nil {
		p.judge(err, e)
		return err
	}
	p.highWatermark = min(p.highWatermark, p.log.View().End)
	e.moved |= p.publish()
	return nil
}

// OutOfRange handles a leader that does not have the follower's position: a leader that ends earlier (after an unclean
// election) cuts this log to its end; one that starts later makes it begin anew there.
func (p *Partition) OutOfRange(now time.Time, l LeaderView, leaderStart, leaderEnd kafka.Offset) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.role != Follower || l.Epoch != p.leaderEpoch {
		return e, nil
	}
	if leaderEnd < p.log.View().End {
		return e, p.cut(&e, leaderEnd)
	}
	if err := p.log.TruncateFullyAndStartAt(leaderStart); err != nil {
		p.judge(err, &e)
		return e, err
	}
	p.highWatermark = leaderStart
	e.moved |= p.publish()
	return e, nil
}
