package replica

import (
	"errors"
	"math"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// The reasons why a Move is of no more use. After ErrMoveOffline the copy is kept for the next start.
var (
	ErrMoveEnded   = errors.New("the replica that was being moved is not what it was any more")
	ErrMoveOffline = errors.New("the replica that was being moved is offline")
)

// MoveError is what a log directory did to a move: it says which of the two.
type MoveError struct {
	Dir *log.Dir
	Err error
}

// Error names the directory's trouble.
func (e *MoveError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *MoveError) Unwrap() error { return e.Err }

// Move copies a replica into another log directory of this node while it goes on, and then has the copy take its place
// (KIP-113). It belongs to one goroutine, which steps it; until it is done the copy is that goroutine's own.
//
// At no moment is anything acknowledged that a start would not find: the copy is durable as a whole before it gets its live
// name, and has all that was acknowledged before the replica it came from is put aside. Between the two a start finds
// both, and picks the one that was written last.
type Move struct {
	m        *Manager
	p        *Partition
	from, to *log.Log
	cuts     int  // truncations of from that the copy has followed
	aligned  bool // the copy is known to be a beginning of from
	promoted bool
	attempts int // reads in a row that brought nothing
}

// Partition is what is moved.
func (x *Move) Partition() *Partition { return x.p }

// Target is the log directory that it moves to.
func (x *Move) Target() *log.Dir { return x.to.Dir() }

// Size is how many bytes the copy has. Lag is how many records it has still to get. Both are for anybody to ask.
func (x *Move) Size() int64 { return x.to.View().Size() }

// At is where the copy ends. It is for the owner of the move to ask.
func (x *Move) At() kafka.Offset { return x.to.View().End }

// Lag is by how many offsets the copy is behind the replica.
func (x *Move) Lag() int64 { return max(int64(x.from.View().End-x.to.View().End), 0) }

// Move gives the move of the replica that is under way; nil: none is.
func (p *Partition) Move() *Move { return p.move.Load() }

// heldCopy is how many bytes may be copied while the partition is locked.
const heldCopy = 1 << 20

// MoveStep is what a step of a move did.
type MoveStep struct {
	Copied int
	// Waits: nothing can be done before something else has happened; step again a little later.
	Waits bool
	// Done: the copy is the replica now.
	Done bool
}

// Step does the next part of the work: it copies up to about budget bytes or, when all is there, has the copy take the
// replica's place. It blocks on the disks of both directories. After an error it may be called again, but for ErrMoveEnded
// and ErrMoveOffline; then, and to give up, End is to be called.
func (x *Move) Step(now time.Time, budget int) (s MoveStep, e Effects, err error) {
	v, waits, err := x.follow()
	if err != nil || waits {
		return MoveStep{Waits: waits}, e, err
	}
	if x.to.View().End < v.End {
		s.Copied, err = x.copy(now, v, budget)
		if err != nil || x.to.View().End < v.End {
			return s, e, err
		}
	}
	n := s.Copied
	s, e, err = x.finish(now) // at once: a replica that is written to all the time is never quite copied
	s.Copied += n
	return s, e, err
}

// stands says whether the move still makes sense. The caller holds p.mu.
func (x *Move) stands() error {
	switch p := x.p; {
	case p.role == Gone || p.move.Load() != x || p.log != x.from:
		return ErrMoveEnded
	case p.role == Offline:
		return ErrMoveOffline
	}
	return nil
}

// follow has the copy do what happened to the replica other than appends: truncations, and a start that moved. It gives
// the view to copy from.
func (x *Move) follow() (v *log.View, waits bool, err error) {
	x.p.mu.Lock()
	if err = x.stands(); err != nil || x.from.BeingCleaned() {
		// What compaction takes away must not be copied in part; while the move lasts, none begins.
		x.p.mu.Unlock()
		return nil, err == nil, err
	}
	v = x.from.View()
	kept := x.from.KeptSince(x.cuts, x.to.View().End)
	x.cuts = x.from.Cuts()
	x.p.mu.Unlock()
	copied := x.to.View()
	if !x.aligned {
		kept = min(kept, commonEnd(v, copied))
		x.aligned = true
	}
	if kept < copied.End {
		err = x.to.TruncateTo(kept)
	}
	if copied = x.to.View(); err == nil && (copied.End < v.Start || copied.Start > v.Start) {
		err = x.to.TruncateFullyAndStartAt(v.Start)
	} else if err == nil && copied.Start < v.Start {
		err = x.to.AdvanceStart(v.Start)
	}
	return v, false, x.blame(x.to, err)
}

// blame says whose directory an error is of.
func (x *Move) blame(l *log.Log, err error) error {
	if err == nil {
		return nil
	}
	return &MoveError{Dir: l.Dir(), Err: err}
}

// commonEnd gives where copy stops to be a beginning of l, by the epochs of both (KIP-279).
func commonEnd(l, copied *log.View) kafka.Offset {
	end := min(l.End, copied.End)
	latest, ok := copied.Epochs().Latest()
	if !ok {
		return copied.Start // of records without epochs nothing can be told
	}
	for epoch := latest.Epoch; ; {
		theirs, theirEnd := l.EndOffsetFor(epoch)
		if theirs == kafka.NoEpoch {
			last, known := l.Epochs().Latest()
			if !known {
				return min(end, copied.Start)
			}
			theirs, theirEnd = last.Epoch, l.End
		}
		own, ownEnd := copied.EndOffsetFor(theirs)
		if own == kafka.NoEpoch {
			return min(end, copied.Start)
		}
		if end = min(end, theirEnd, ownEnd); own == theirs {
			return end
		}
		epoch = own
	}
}

// mostAttempts is how often a read may find that the log has changed under it before that is called an error.
const mostAttempts = 16

// copy appends the next batches to the copy.
func (x *Move) copy(now time.Time, v *log.View, budget int) (int, error) {
	batches, err := x.read(v, budget)
	if err != nil || len(batches) == 0 {
		if x.attempts++; x.attempts < mostAttempts {
			return 0, nil // it may have been cut, or have lost its beginning, in this moment
		}
		x.attempts = 0
		return 0, x.blame(x.from, errors.Join(kafka.Errorf(kafka.KafkaStorageError, "%s cannot be read at %d", x.p.tp, x.to.View().End), err))
	}
	x.attempts = 0
	rolled, err := appendCopy(x.to, now, batches)
	if err != nil {
		return 0, x.blame(x.to, err)
	}
	if rolled {
		err = x.sync() // segment by segment, or a power cut could leave a later one without an earlier one
	}
	return len(batches), err
}

// read gives whole batches that have passed their checksums.
func (x *Move) read(v *log.View, budget int) ([]byte, error) {
	part, err := v.Read(x.to.View().End, v.End, budget, true)
	if err != nil {
		return nil, err
	}
	defer part.Release()
	b, err := part.ReadAll()
	if err != nil {
		return nil, err
	}
	return intact(b, math.MaxInt32)
}

// sync makes the copy durable as a whole.
func (x *Move) sync() error {
	t := x.to.Dirty()
	if err := t.Sync(); err != nil {
		return x.blame(x.to, err)
	}
	x.to.MarkDurable(t)
	return nil
}

// finish has a copy that is complete take the replica's place. So that the copy can have all that was acknowledged, the
// replica is not synced, and acknowledges nothing, while the rest of it is copied and synced.
func (x *Move) finish(now time.Time) (s MoveStep, e Effects, err error) {
	if err = x.sync(); err != nil {
		return s, e, err
	}
	if !x.promoted {
		if err = x.to.Dir().Promote(x.to, min(x.p.HighWatermark(), x.to.View().End)); err != nil {
			return s, e, x.blame(x.to, err)
		}
		x.promoted = true
	}
	x.p.holdFlushes()
	defer func() { e.flush = x.p.resumeFlushes() || e.flush }()
	for range 4 {
		v, waits, err := x.follow()
		if err != nil || waits {
			return MoveStep{Copied: s.Copied, Waits: waits}, Effects{p: x.p}, err
		}
		if x.to.View().End >= v.End {
			break
		}
		n, err := x.copy(now, v, heldCopy)
		if s.Copied += n; err != nil {
			return s, Effects{p: x.p}, err
		}
	}
	if err = x.sync(); err != nil {
		return s, Effects{p: x.p}, err
	}
	s.Done, e, err = x.take(now)
	if s.Done {
		err = errors.Join(err, x.settle())
	}
	return s, e, err
}

// take replaces the log under the partition's lock, if the copy has all that the replica has and, on the disk, all that
// may have been acknowledged.
func (x *Move) take(now time.Time) (done bool, e Effects, err error) {
	p := x.p
	p.mu.Lock()
	defer p.mu.Unlock()
	e = Effects{p: p}
	if err := x.stands(); err != nil {
		return false, e, err
	}
	v := x.from.View()
	if x.from.Cuts() != x.cuts || v.Durable > x.to.View().Durable {
		return false, e, nil
	}
	if x.to.View().End < v.End {
		if _, err := x.copy(now, v, heldCopy); err != nil || x.to.View().End < v.End {
			return false, e, err
		}
	}
	if err := x.to.AdvanceStart(v.Start); err != nil {
		return false, e, x.blame(x.to, err)
	}
	if p.role == Leader {
		x.to.AssignEpoch(p.leaderEpoch)
	}
	x.to.SetConfig(x.from.Config())
	p.log = x.to
	p.move.Store(nil)
	e.moved |= p.publish() // before the old log goes, so that who finds it gone looks again
	e.flush = true
	return true, e, x.blame(x.from, x.from.Dir().Delete(x.from, x.m.o.NewUUID(), now))
}

// settle makes the end of the old log durable.
func (x *Move) settle() error {
	x.m.mu.Lock()
	x.m.counts[x.from.Dir()]--
	x.m.counts[x.to.Dir()]++
	x.m.mu.Unlock()
	return x.blame(x.from, x.from.Dir().SyncNames())
}

// End gives the move up. With keep the copy stays for the next start to go on with, else it is deleted.
func (x *Move) End(now time.Time, keep bool) error {
	x.p.move.CompareAndSwap(x, nil)
	d := x.to.Dir()
	if !keep {
		return x.blame(x.to, d.Delete(x.to, x.m.o.NewUUID(), now))
	}
	var err error
	if x.promoted {
		err = d.Demote(x.to, x.m.o.NewUUID())
	}
	return x.blame(x.to, errors.Join(err, x.to.Close(err == nil, now)))
}

// holdFlushes keeps the replica from being synced until resumeFlushes, which says whether somebody asked meanwhile.
func (p *Partition) holdFlushes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushesHeld = true
}

func (p *Partition) resumeFlushes() (asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked = p.flushAsked
	p.flushesHeld, p.flushAsked = false, false
	return asked && p.role != Gone
}
