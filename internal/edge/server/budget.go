package server

import (
	"slices"
	"sync"
)

// BudgetOptions sizes a Budget. The zero value of a field takes the default that its comment names.
type BudgetOptions struct {
	// RequestBytes bounds the memory of requests that are being read, decoded or handled
	// (queued.max.request.bytes). Default 256 MiB.
	RequestBytes int64
	// SmallBytes is set aside for frames of at most SmallFrameBytes other than Produce. Default 32 MiB.
	SmallBytes int64
	// InternalBytes is set aside for internal listeners and for APIs that only nodes send. Default 32 MiB.
	InternalBytes int64
	// SmallFrameBytes is the longest frame that counts as small. Default 64 KiB.
	SmallFrameBytes int
}

// Budget bounds the memory that requests hold, over all connections of a process. A connection that asks for
// more than is left waits, and only its own reading stops.
//
// There are three pools, so that bulk work cannot starve what it waits for: an acks=all produce is answered
// only after other nodes' Fetch requests were read. A request draws on its own class's pool and then on the
// lower ones'.
//
// A frame is paid for in steps as it arrives, which could leave many half-read frames waiting for each other.
// So growing goes before new frames, and if all that holds bulk memory waits for more, the oldest of them may
// overdraw: the memory held is at most the pools plus one longest frame and what it decodes to.
type Budget struct {
	smallFrame int
	limit      [numClasses]int64

	mu      sync.Mutex
	used    [numClasses]int64
	waiting [numClasses][]*waiter // new frames, oldest first
	growing []*waiter             // frames already begun, oldest first
	holders int                   // leases that hold bulk memory
	overrun bool                  // some lease has overdrawn
}

// class is a pool and at the same time the kind of request that draws on it first.
type class uint8

const (
	classBulk class = iota
	classSmall
	classInternal
	numClasses
)

// waiter is one request for memory. ready is closed when it is granted.
type waiter struct {
	lease *Lease
	class class
	n     int64
	ready chan struct{}
}

// NewBudget makes a budget.
func NewBudget(o BudgetOptions) *Budget {
	orDefault(&o.RequestBytes, 256<<20)
	orDefault(&o.SmallBytes, 32<<20)
	orDefault(&o.InternalBytes, 32<<20)
	orDefault(&o.SmallFrameBytes, 64<<10)
	return &Budget{
		smallFrame: o.SmallFrameBytes,
		limit:      [numClasses]int64{o.RequestBytes, o.SmallBytes, o.InternalBytes},
	}
}

// BudgetUse is a snapshot of a Budget for metrics.
type BudgetUse struct {
	// Bulk, Small and Internal are the bytes drawn from each pool.
	Bulk, Small, Internal int64
	// Waiting is the number of connections that wait for memory.
	Waiting int
}

// Use tells what is held and how many wait.
func (b *Budget) Use() BudgetUse {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetUse{
		Bulk: b.used[classBulk], Small: b.used[classSmall], Internal: b.used[classInternal],
		Waiting: b.waitersLocked(),
	}
}

// pressed says whether connections wait for memory: slow senders are judged more strictly then.
func (b *Budget) pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waitersLocked() > 0
}

// roomy says whether less than half of the bulk pool is taken, so that frames may be paid for whole before
// they arrive.
func (b *Budget) roomy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[classBulk] < b.limit[classBulk]/2
}

func (b *Budget) waitersLocked() int {
	n := len(b.growing)
	for _, w := range b.waiting {
		n += len(w)
	}
	return n
}

// start charges n bytes for a new frame of class c, waiting until they are there. It reports false if stop or
// done was closed first; then nothing is charged.
func (b *Budget) start(l *Lease, c class, n int64, stop, done <-chan struct{}) bool {
	b.mu.Lock()
	l.budget, l.class = b, c
	if len(b.waiting[c]) == 0 && (c != classBulk || len(b.growing) == 0) && b.takeLocked(l, c, n) {
		b.mu.Unlock()
		return true
	}
	w := &waiter{lease: l, class: c, n: n, ready: make(chan struct{})}
	b.waiting[c] = append(b.waiting[c], w)
	b.mu.Unlock()
	return b.await(w, &b.waiting[c], stop, done)
}

// grow charges n more bytes for a lease that already holds some.
func (b *Budget) grow(l *Lease, n int64, stop, done <-chan struct{}) bool {
	b.mu.Lock()
	if l.overrun || len(b.growing) == 0 && b.takeLocked(l, l.class, n) {
		if l.overrun {
			b.chargeLocked(l, classBulk, n)
		}
		b.mu.Unlock()
		return true
	}
	w := &waiter{lease: l, class: l.class, n: n, ready: make(chan struct{})}
	b.growing = append(b.growing, w)
	b.dispatchLocked()
	b.mu.Unlock()
	return b.await(w, &b.growing, stop, done)
}

func (b *Budget) await(w *waiter, list *[]*waiter, stop, done <-chan struct{}) bool {
	select {
	case <-w.ready:
		return true
	case <-stop:
	case <-done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(*list, w); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
		b.dispatchLocked()
		return false
	}
	return true // granted at the last moment: the caller holds it and gives it back like any lease
}

// takeLocked charges n from the first pool with room, from the class's own downwards. A pool that is empty
// lets even a larger request in, so that none can wait for ever.
func (b *Budget) takeLocked(l *Lease, c class, n int64) bool {
	for p := int(c); p >= 0; p-- {
		if b.used[p]+n <= b.limit[p] || b.used[p] == 0 && p == int(classBulk) {
			b.chargeLocked(l, class(p), n)
			return true
		}
	}
	return false
}

func (b *Budget) chargeLocked(l *Lease, p class, n int64) {
	if p == classBulk && l.held[p] == 0 {
		b.holders++
	}
	b.used[p] += n
	l.held[p] += n
}

func (b *Budget) returnLocked(l *Lease, p class, n int64) {
	b.used[p] -= n
	l.held[p] -= n
	if p == classBulk && n > 0 && l.held[p] == 0 {
		b.holders--
	}
}

// stuckLocked says whether every holder of bulk memory waits for more, so that none will come back.
func (b *Budget) stuckLocked() bool {
	n := 0
	for _, w := range b.growing {
		if w.lease.held[classBulk] > 0 {
			n++
		}
	}
	return n == b.holders
}

// refund gives back n bytes of what the lease holds, from whichever pools it holds them.
func (b *Budget) refund(l *Lease, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range l.held {
		k := min(n, l.held[p])
		b.returnLocked(l, class(p), k)
		n -= k
	}
	b.dispatchLocked()
}

// end gives back all that the lease holds.
func (b *Budget) end(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range l.held {
		b.returnLocked(l, class(p), l.held[p])
	}
	if l.overrun {
		b.overrun, l.overrun = false, false
	}
	b.dispatchLocked()
}

// dispatchLocked grants what can be granted: frames begun first, and while one of them waits no new bulk
// frame.
func (b *Budget) dispatchLocked() {
	for len(b.growing) > 0 {
		w := b.growing[0]
		if !b.takeLocked(w.lease, w.class, w.n) {
			if b.overrun || !b.stuckLocked() {
				break
			}
			b.overrun, w.lease.overrun = true, true
			b.chargeLocked(w.lease, classBulk, w.n)
		}
		b.growing = slices.Delete(b.growing, 0, 1)
		close(w.ready)
	}
	for c := numClasses; c > 0; c-- {
		list := &b.waiting[c-1]
		for len(*list) > 0 && (c-1 != classBulk || len(b.growing) == 0) {
			w := (*list)[0]
			if !b.takeLocked(w.lease, w.class, w.n) {
				break
			}
			*list = slices.Delete(*list, 0, 1)
			close(w.ready)
		}
	}
}
