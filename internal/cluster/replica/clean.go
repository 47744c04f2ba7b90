package replica

import (
	"time"

	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// Dirt says how much of the log waits for compaction. Nothing does where this node has no log to work on, or while it is
// moved to another directory: the copy could keep a value and miss the tombstone that ended it.
func (p *Partition) Dirt(now time.Time) (log.Dirt, Effects, error) {
	s := p.published.Load()
	if s.view == nil || p.move.Load() != nil {
		return log.Dirt{}, Effects{}, nil
	}
	d, err := s.view.Log().Dirt(s.lastStable, now)
	return d, p.judgeCleaning(err), err
}

// judgeCleaning turns an error into what it means beyond this compaction: a broken disk, a full one, or a log that could
// not undo a change. Whatever else keeps a log from being compacted does not keep it from being written and read. The
// caller does not hold p.mu.
func (p *Partition) judgeCleaning(err error) Effects {
	e := Effects{p: p}
	if err == nil {
		return e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil && (vfs.IsDiskFailure(err) || vfs.IsNoSpace(err) || p.log.Failed() != nil) {
		p.judge(err, &e)
	}
	return e
}

// Cleaning is a compaction of a partition's log in work; see log.Cleaning. It belongs to one goroutine.
type Cleaning struct {
	p *Partition
	c *log.Cleaning
}

// Clean begins a compaction of what d, a recent answer of Dirt, says is dirty; log.ErrCleanAborted when that is not so any
// more.
func (p *Partition) Clean(now time.Time, d log.Dirt, o log.CleanOptions) (*Cleaning, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.role == Offline || p.role == Gone || p.move.Load() != nil {
		return nil, log.ErrCleanAborted
	}
	c, err := p.log.Clean(d, p.highWatermark, now, o)
	if err != nil {
		return nil, err
	}
	return &Cleaning{p: p, c: c}, nil
}

// Step does the next part of the work, about budget bytes of it, and says how many were read and written. Reading,
// writing and syncing happen without the partition's lock. After an error, and before the end only then or when Swapping
// is false, the compaction is given up with Abandon.
//
// Errors are those of log.Cleaning.Step.
func (x *Cleaning) Step(budget int64) (moved int64, done bool, e Effects, err error) {
	if x.c.Exclusive() {
		moved, done, e, err = x.stepLocked(budget)
	} else if role := x.p.Role(); role == Offline || role == Gone {
		err = log.ErrCleanAborted
	} else {
		moved, done, err = x.c.Step(budget)
	}
	if err != nil {
		e = x.p.judgeCleaning(err)
	}
	return moved, done, e, err
}

func (x *Cleaning) stepLocked(budget int64) (moved int64, done bool, e Effects, err error) {
	p := x.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role == Offline || p.role == Gone {
		return 0, false, Effects{}, log.ErrCleanAborted
	}
	e = Effects{p: p}
	moved, done, err = x.c.Step(budget)
	e.moved |= p.publish()
	return moved, done, e, err
}

// Swapping says that segments are just being replaced: better not stop here. See log.Cleaning.
func (x *Cleaning) Swapping() bool { return x.c.Swapping() }

// Progress is what was done so far.
func (x *Cleaning) Progress() log.Cleaned { return x.c.Progress() }

// Abandon gives back what the compaction holds.
func (x *Cleaning) Abandon() {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.c.Abandon()
}
