package coordinator

import (
	"container/heap"
	"time"
)

// timers are the timers of a shard. Those that are set again to a later time, as every heartbeat does, keep their place
// and are put right when they come up.
type timers struct {
	byKey map[TimerKey]*timer
	heap  timerHeap
}

type timer struct {
	key TimerKey
	at  time.Time // when it is due
	due time.Time // its place in the heap, not after at
	seq uint64    // among equals the one that was set first comes first
	pos int
}

// set sets, moves or cancels a timer.
func (t *timers) set(x Timer) {
	old := t.byKey[x.Key]
	switch {
	case x.At.IsZero():
		if old != nil {
			t.remove(old)
		}
	case old == nil:
		if t.byKey == nil {
			t.byKey = map[TimerKey]*timer{}
		}
		t.heap.seq++
		fresh := &timer{key: x.Key, at: x.At, due: x.At, seq: t.heap.seq}
		t.byKey[x.Key] = fresh
		heap.Push(&t.heap, fresh)
	case x.At.Before(old.due):
		old.at, old.due = x.At, x.At
		heap.Fix(&t.heap, old.pos)
	default:
		old.at = x.At
	}
}

func (t *timers) remove(x *timer) {
	delete(t.byKey, x.key)
	heap.Remove(&t.heap, x.pos)
}

// next gives a time before which no timer is due; the zero time when there is none.
func (t *timers) next() time.Time {
	if len(t.heap.all) == 0 {
		return time.Time{}
	}
	return t.heap.all[0].due
}

// pop takes one timer that is due.
func (t *timers) pop(now time.Time) (TimerKey, bool) {
	for len(t.heap.all) > 0 {
		x := t.heap.all[0]
		switch {
		case x.due.After(now):
			return TimerKey{}, false
		case x.at.After(x.due):
			x.due = x.at
			heap.Fix(&t.heap, 0)
		default:
			t.remove(x)
			return x.key, true
		}
	}
	return TimerKey{}, false
}

type timerHeap struct {
	all []*timer
	seq uint64
}

func (h *timerHeap) Len() int { return len(h.all) }

func (h *timerHeap) Less(i, j int) bool {
	a, b := h.all[i], h.all[j]
	if a.due.Equal(b.due) {
		return a.seq < b.seq
	}
	return a.due.Before(b.due)
}

func (h *timerHeap) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].pos, h.all[j].pos = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.pos = len(h.all)
	h.all = append(h.all, t)
}

func (h *timerHeap) Pop() any {
	n := len(h.all) - 1
	x := h.all[n]
	h.all[n] = nil
	h.all = h.all[:n]
	return x
}

// arm makes the shard's one timer fire when something is due. A timer that fires too early is left alone: most timers are
// moved away before they are due. The caller holds s.mu.
func (s *shard) arm(now time.Time) {
	next := s.timers.next()
	if p := s.writes.waiting.first; p != nil && (next.IsZero() || p.stay.deadline.Before(next)) {
		next = p.stay.deadline
	}
	if next.IsZero() || (!s.armed.IsZero() && !next.Before(s.armed)) {
		return
	}
	s.disarm()
	s.armed = next
	s.cancel = s.r.o.After(max(next.Sub(now), 0), s.fire)
}

func (s *shard) disarm() {
	if s.cancel != nil {
		s.cancel()
	}
	s.armed, s.cancel = time.Time{}, nil
}

// fire handles what is due, one timer after the other, letting others in between. One that comes although it was moved or
// cancelled finds nothing to do.
func (s *shard) fire() {
	for again := true; again; {
		now := s.r.o.Now()
		var out outbox
		s.mu.Lock()
		if s.phase != active {
			s.mu.Unlock()
			return
		}
		s.r.o.Metrics.CommitTimeouts.Add(s.writes.expire(now, &out))
		var key TimerKey
		if key, again = s.timers.pop(now); again {
			s.handle(now, TimerFired{Key: key}, &out)
		} else {
			s.armed, s.cancel = time.Time{}, nil
			s.arm(now)
		}
		s.mu.Unlock()
		out.run(s.r.o.Host)
	}
}
