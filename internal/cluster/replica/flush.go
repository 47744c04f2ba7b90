package replica

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// wantsFlush says whether what was appended asks for a sync: always under moldau.flush=ack, else when flush.messages or
// flush.ms say so.
func (p *Partition) wantsFlush(now time.Time) bool {
	v, c := p.log.View(), p.log.Config()
	if v.End <= v.Durable {
		return false
	}
	if !c.FlushAsync || int64(v.End-v.Durable) >= c.FlushMessages {
		return true
	}
	return !p.flushFrom.IsZero() && now.Sub(p.flushFrom).Milliseconds() >= c.FlushMs
}

// BeginFlush takes what is to be synced. The caller syncs the token without holding any lock and then calls Flushed.
func (p *Partition) BeginFlush() log.FlushToken {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.role == Offline || p.role == Gone {
		return log.FlushToken{}
	}
	if p.flushesHeld {
		p.flushAsked = true
		return log.FlushToken{}
	}
	return p.log.Dirty()
}

// Flushed tells that t was synced (err nil) or could not be. A failed sync is final for the whole log directory: the host
// hears of it, and this replica goes offline with it. A sync that was not tried for want of descriptors is asked for
// again.
func (p *Partition) Flushed(now time.Time, t log.FlushToken, err error) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.log == nil || p.role == Gone {
		return e
	}
	if vfs.IsOutOfFiles(err) && !vfs.IsDiskFailure(err) {
		e.flush = p.role != Offline // nothing was synced and nothing failed: once more
		return e
	}
	if err != nil {
		e.failure = err // also when this replica went offline for a reason of its own meanwhile
		return e
	}
	if p.role == Offline {
		return e
	}
	p.log.MarkDurable(t)
	if v := p.log.View(); v.Durable >= v.End {
		p.flushFrom = time.Time{}
	}
	p.settle(now, &e)
	return e
}

// PrepareClose completes indexes and producer state for an orderly stop. A flush must follow, then Close.
func (p *Partition) PrepareClose(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.role == Offline || p.role == Gone {
		return nil
	}
	return p.log.PrepareClose(now)
}

// Close closes the log's files; whoever still waits is told NotLeaderOrFollower, and nothing is served any more. clean
// says that all of the log was on the disk by then: PrepareClose and a flush went before and nothing came after them.
func (p *Partition) Close(now time.Time) (clean bool, e Effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e = Effects{p: p}
	if p.log == nil || p.role == Gone {
		return p.log != nil, e
	}
	if p.role != Offline {
		owed := p.log.Dirty()
		clean = owed.Empty()
		owed.Drop()
	}
	p.role = Gone
	e.fail(&p.byDisk, kafka.NotLeaderOrFollower)
	e.fail(&p.byReplicas, kafka.NotLeaderOrFollower)
	e.moved |= p.publish() | movedRole
	_ = p.log.Close(false, now) // closes files only: what mattered was synced
	return clean, e
}

// CloseIdle closes files that were not used since the last call. It reports whether a flush must come first.
func (p *Partition) CloseIdle() (pending bool, e Effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e = Effects{p: p}
	if p.log == nil || p.role == Offline || p.role == Gone {
		return false, e
	}
	pending, err := p.log.Idle()
	if err != nil {
		p.judge(err, &e)
		return false, e
	}
	e.flush = pending
	e.moved |= p.publish()
	return pending, e
}
