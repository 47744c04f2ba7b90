package replica

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// Host is what partitions ask of whoever runs them. Its methods may be called from many goroutines, with no lock of this
// package held, and must not block.
type Host interface {
	// RequestFlush asks that the partition's log be synced soon (BeginFlush, sync, Flushed).
	RequestFlush(p *Partition)
	// ProposeISR carries a change of the in-sync set to the controller; ISRAccepted or ISRRefused follows, or an image.
	ProposeISR(p *Partition, proposal ISRProposal)
	// DirFailed reports an I/O error of a log directory: it is offline from now on.
	DirFailed(d *log.Dir, err error)
	// DirFull reports that a write found no space.
	DirFull(d *log.Dir)
	// Verify asks a transaction coordinator; Partition.Verified must follow, in bounded time.
	Verify(p *Partition, c TxnCheck)
	// LogBroken reports that a partition's log is damaged and the replica offline; its directory is not.
	LogBroken(p *Partition, err error)
}

// Effects is what a change of a partition entails. The caller runs it once, after the method that returned it, holding
// no lock that a waiter, a watcher or the host could want.
type Effects struct {
	p       *Partition
	moved   moved
	flush   bool
	head    *AppendWaiter // completed, linked
	tail    *AppendWaiter
	resumed []*AppendWaiter // were held and are not any more
	held    bool
	verify  *TxnCheck
	isr     *ISRProposal
	failure error // of the log directory
	broken  error // of the partition's log alone
	full    bool
}

// Run carries the effects out: completes waiters, wakes watchers, and tells the host.
func (e *Effects) Run(h Host) {
	if e.p == nil {
		return
	}
	if e.flush {
		h.RequestFlush(e.p)
	}
	for _, w := range e.resumed {
		w.Resumed(w, w.refusal)
	}
	for w := e.head; w != nil; {
		next := w.next
		w.next = nil
		w.Done(w)
		w = next
	}
	if e.moved != 0 {
		e.p.watchers.wake(e.p, e.moved)
	}
	if e.verify != nil {
		h.Verify(e.p, *e.verify)
	}
	if e.isr != nil {
		h.ProposeISR(e.p, *e.isr)
	}
	if e.full {
		h.DirFull(e.p.Log().Dir())
	}
	if e.broken != nil {
		h.LogBroken(e.p, e.broken)
	}
	if e.failure != nil {
		h.DirFailed(e.p.Log().Dir(), e.failure)
	}
}

// Flush says whether the partition asks to be synced.
func (e *Effects) Flush() bool { return e.flush }

// Held says whether the append is held until a transaction coordinator has spoken.
func (e *Effects) Held() bool { return e.held }

// resume ends the wait of a held append: with err it was refused, without it was appended.
func (e *Effects) resume(w *AppendWaiter, err error) {
	w.holder, w.refusal = nil, err
	e.resumed = append(e.resumed, w)
}

// done completes w with err, keeping the place it was appended at.
func (e *Effects) done(w *AppendWaiter, err error) {
	w.Result.Err = err
	w.waits = false
	w.next = nil
	if e.tail == nil {
		e.head = w
	} else {
		e.tail.next = w
	}
	e.tail = w
}

// fail completes everybody in q with a code.
func (e *Effects) fail(q *waitQueue, code kafka.Code) {
	for w := q.head; w != nil; w = q.head {
		q.pop()
		e.done(w, code)
	}
}
