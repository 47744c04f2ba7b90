package replica

import (
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// LeaderView is what a fetch response says about the leader, and which fetch it answers.
type LeaderView struct {
	// Epoch and Offset are those the fetch was sent with: an answer of another term, or to a position that this replica
	// has left since, changes nothing.
	Epoch         kafka.LeaderEpoch
	Offset        kafka.Offset
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
// position must not be sent before what lies below it is synced: synced says so.
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
	return at, p.ackable() >= v.End || flaw.In(flaw.FollowerUnsynced), true
}

// answers says whether a response is about the log as it is now. The caller holds p.mu.
func (p *Partition) answers(l LeaderView) bool {
	return p.role == Follower && l.Epoch == p.leaderEpoch && l.Offset == p.log.View().End
}

// Replicate appends what a leader answered, batch for batch as it came, and takes over its high watermark and log start.
// The bytes are whole batches that have passed their CRC. regained says that a replica which had lost records has all that
// is committed again.
//
// Errors are those of log.Append.
func (p *Partition) Replicate(now time.Time, fetched []byte, l LeaderView) (regained bool, e Effects, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e = Effects{p: p}
	if !p.answers(l) {
		return false, e, nil
	}
	wasDurable := p.log.View().Durable == p.log.View().End
	rolled, err := appendCopy(p.log, now, fetched)
	if err != nil {
		p.judge(err, &e)
		p.highWatermark = min(p.highWatermark, p.log.View().End)
		e.moved |= p.publish()
		return false, e, err
	}
	if wasDurable {
		p.flushFrom = now
	}
	v := p.log.View()
	p.highWatermark = max(p.highWatermark, min(l.HighWatermark, v.End))
	p.behind.Store(int64(max(l.HighWatermark-v.End, 0)))
	if start := min(l.LogStart, v.End); start > v.Start {
		if err := p.log.AdvanceStart(start); err != nil {
			p.judge(err, &e)
			return false, e, err
		}
	}
	if p.lost && p.rotten == kafka.NoOffset && !p.log.Dir().Full() && l.HighWatermark >= 0 && v.End >= l.HighWatermark {
		p.lost, regained = false, true
	}
	e.flush = p.wantsFlush(now) || rolled
	e.moved |= p.publish()
	return regained, e, nil
}

// appendCopy appends batches of another copy of the log. An empty log that begins in the middle of the first batch, where
// records were deleted, begins with that batch; its start stays where it is.
func appendCopy(l *log.Log, now time.Time, fetched []byte) (rolled bool, err error) {
	v := l.View()
	if first, _, err := record.Split(fetched); err == nil && first.BaseOffset() < v.End && first.LastOffset() >= v.End &&
		v.Start == v.End {
		if err := l.TruncateFullyAndStartAt(first.BaseOffset()); err != nil {
			return false, err
		}
		defer func() {
			if err == nil {
				err = l.AdvanceStart(v.Start)
			}
		}()
	}
	done, err := l.Append(fetched, log.Stamp{}, now)
	return done.Rolled, err
}

// Behind is by how many records this follower was behind its leader's high watermark when it last heard of it.
func (p *Partition) Behind() int64 {
	if p.Role() != Follower {
		return 0
	}
	return p.behind.Load()
}

// Diverged cuts the log after a leader said that it parts from this one at the end of an epoch (KIP-279, KIP-595): to
// the smaller of both ends when both have that epoch, else to this log's own end of its floor epoch, and the next fetch
// asks again. It never cuts to the high watermark (KIP-101).
func (p *Partition) Diverged(l LeaderView, epoch kafka.LeaderEpoch, end kafka.Offset) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if !p.answers(l) {
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
	err := p.cut(&e, cut)
	return e, err
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
// election) cuts this log to its end; one that starts later makes it begin anew there. A position that lies within the
// leader's log by now is left as it is: the next fetch tells.
func (p *Partition) OutOfRange(l LeaderView, leaderStart, leaderEnd kafka.Offset) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if !p.answers(l) {
		return e, nil
	}
	switch end := p.log.View().End; {
	case leaderEnd < end:
		err := p.cut(&e, leaderEnd)
		return e, err
	case leaderStart <= end:
		return e, nil
	}
	if err := p.log.TruncateFullyAndStartAt(leaderStart); err != nil {
		p.judge(err, &e)
		return e, err
	}
	p.highWatermark = leaderStart
	e.moved |= p.publish()
	return e, nil
}
