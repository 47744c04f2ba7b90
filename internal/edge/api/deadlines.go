package api

import (
	"sync"
	"sync/atomic"
	"time"
)

// parking counts the requests that wait for data or acknowledgements, and ends their waits in time.
type parking struct {
	once      sync.Once
	deadlines deadlines
	count     atomic.Int64
	limit     int64 // moldau.request.wait.max
}

// waits gives what parks requests. It is made at the first use, because Broker is filled in from outside.
func (b *Broker) waits() *parking {
	b.parked.once.Do(func() {
		b.parked.deadlines.now, b.parked.deadlines.after = b.Now, b.After
		b.parked.limit = b.Config.Int64("moldau.request.wait.max")
	})
	return &b.parked
}

// deadlines fires what parked requests wait for when their time is up. All of a node share one timer, armed
// for the earliest: most requests are answered long before, and then cost no timer of their own.
type deadlines struct {
	now   func() time.Time
	after func(d time.Duration, f func()) (cancel func())

	mu     sync.Mutex
	heap   []*deadline
	armed  time.Time // when the timer fires; zero: there is none
	cancel func()
}

// deadline is one entry. The owner embeds it, sets fire and may use it again after remove reported true.
type deadline struct {
	at   time.Time
	fire func() // runs without the lock, and must not block
	pos  int    // place in the heap, counted from 1; 0: not in it
	used bool   // taken out by the timer
}

// add arms e for a time.
func (d *deadlines) add(e *deadline, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.at, e.used = at, false
	d.heap = append(d.heap, e)
	e.pos = len(d.heap)
	d.up(e.pos)
	d.arm()
}

// remove takes e out. It reports false when the timer has taken it: fire ran, runs or is about to.
func (d *deadlines) remove(e *deadline) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.pos > 0 {
		d.cut(e.pos) // the timer stays as it is: if it finds nothing due it arms itself anew
	}
	return !e.used
}

// arm sees to it that the timer fires no later than the earliest entry. The caller holds d.mu.
func (d *deadlines) arm() {
	if len(d.heap) == 0 {
		return
	}
	at := d.heap[0].at
	if !d.armed.IsZero() && !at.Before(d.armed) {
		return
	}
	if d.cancel != nil {
		d.cancel()
	}
	d.armed = at
	d.cancel = d.after(max(at.Sub(d.now()), 0), d.tick)
}

// tick fires what is due.
func (d *deadlines) tick() {
	now := d.now()
	var due []*deadline
	d.mu.Lock()
	d.armed, d.cancel = time.Time{}, nil
	for len(d.heap) > 0 && !d.heap[0].at.After(now) {
		e := d.heap[0]
		d.cut(1)
		e.used = true
		due = append(due, e)
	}
	d.arm()
	d.mu.Unlock()
	for _, e := range due {
		e.fire()
	}
}

// cut removes the entry at pos. The caller holds d.mu.
func (d *deadlines) cut(pos int) {
	last := len(d.heap)
	d.heap[pos-1].pos = 0
	e := d.heap[last-1]
	d.heap[last-1] = nil
	d.heap = d.heap[:last-1]
	if pos == last {
		return
	}
	d.heap[pos-1], e.pos = e, pos
	d.up(pos)
	d.down(e.pos)
}

func (d *deadlines) up(pos int) {
	for pos > 1 && d.heap[pos-1].at.Before(d.heap[pos/2-1].at) {
		d.swap(pos, pos/2)
		pos /= 2
	}
}

func (d *deadlines) down(pos int) {
	for {
		least := pos
		for child := 2 * pos; child <= min(2*pos+1, len(d.heap)); child++ {
			if d.heap[child-1].at.Before(d.heap[least-1].at) {
				least = child
			}
		}
		if least == pos {
			return
		}
		d.swap(pos, least)
		pos = least
	}
}

func (d *deadlines) swap(a, b int) {
	x, y := d.heap[a-1], d.heap[b-1]
	d.heap[a-1], d.heap[b-1] = y, x
	x.pos, y.pos = b, a
}
