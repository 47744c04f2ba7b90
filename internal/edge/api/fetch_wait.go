package api

import (
	"sync/atomic"
	"time"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

// fetchWait is what a parked fetch adds to an op.
type fetchWait struct {
	later *promise.Promise[server.Reply]
	due   deadline
	// pokes counts the wakings since somebody began to look; whoever makes it 1 looks, the others just
	// leave. An op that was answered keeps a count, so that nobody looks again.
	pokes atomic.Int32
	final atomic.Bool // the wait is over, with whatever there is
}

// park leaves the op to whoever moves one of its partitions, to its deadline and to the end of its
// connection.
func (op *fetchOp) park(wait time.Duration) *promise.Promise[server.Reply] {
	w, waits := &op.wait, op.h.b.waits()
	later := &promise.Promise[server.Reply]{}
	w.later = later
	w.due.fire = op.expire
	op.h.b.Metrics.Fetches.Now.Add(1)
	w.pokes.Store(1) // this goroutine looks first
	if waits.count.Add(1) > waits.limit {
		w.final.Store(true)
	}
	op.set.join(op)
	waits.deadlines.add(&w.due, op.call.Now.Add(wait))
	op.call.OnCancel(op.finish)
	op.run()
	return later
}

// join makes the set wake op. Entries that are not watched yet, those of a set without a session, are from
// now on, and all of them are looked at once more: a change before that would have woken nobody.
func (s *fetchSet) join(op *fetchOp) {
	s.session.Lock()
	defer s.session.Unlock()
	s.mu.Lock()
	s.parked = op
	if s.closed { // its session ended just now, and nobody would wake it
		op.wait.final.Store(true)
	}
	for _, e := range s.entries {
		s.push(e)
	}
	s.mu.Unlock()
}

// expire ends the wait because its time is up.
func (op *fetchOp) expire() {
	op.h.b.Metrics.Fetches.Expired.Inc()
	op.finish()
}

// finish ends the wait.
func (op *fetchOp) finish() {
	op.wait.final.Store(true)
	op.poke()
}

// poke has somebody look whether the op can be answered. It does not block and may be called from anywhere
// without a lock.
func (op *fetchOp) poke() {
	if op.wait.pokes.Add(1) == 1 {
		op.run()
	}
}

// run looks until nobody has poked since.
func (op *fetchOp) run() {
	for {
		seen := op.wait.pokes.Load()
		if op.step() {
			return
		}
		if op.wait.pokes.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// step answers the op if its time has come, and reports whether it did.
func (op *fetchOp) step() bool {
	s := op.set
	s.session.Lock()
	if !op.wait.final.Load() && !op.enough() {
		s.session.Unlock()
		return false
	}
	reply, _ := op.collect(true)
	s.mu.Lock()
	if s.parked == op {
		s.parked = nil
	}
	s.mu.Unlock()
	s.session.Unlock()
	s.runEffects(op.h.b.Host)
	waits := op.h.b.waits()
	waits.count.Add(-1)
	op.h.b.Metrics.Fetches.Now.Add(-1)
	waits.deadlines.remove(&op.wait.due)
	op.detach()
	op.wait.later.Set(reply)
	return true
}

// detach lets go of the registrations of a set without a session.
func (op *fetchOp) detach() {
	s := op.set
	s.session.Lock()
	defer s.session.Unlock()
	if !s.kept() {
		s.close()
	}
}
