package server

import (
	"sync"
	"time"
)

// pending is one request between its decoding and the end of its reply: everything about it in one
// allocation.
type pending struct {
	call  Call
	lease Lease
	conn  *conn
	size  int64 // of the frame, with its length field

	// Set under queue.mu.
	reply   Reply
	ready   bool
	dropped bool // left the queue before it was ready

	began, paid, handled, set, taken time.Time
	memory                           time.Duration
}

// queue is the FIFO between a connection's reader and its writer. It keeps replies in the order of the
// requests and is bounded by the reader, which calls full before it reads on.
type queue struct {
	mu    sync.Mutex
	items []*pending // from head on
	head  int
	ended bool // no more will be pushed
	dead  bool // the connection is gone: nothing will be taken
	tight bool // the reader waits for space

	wake  chan struct{} // the head is ready, or the queue has ended
	space chan struct{}
}

func newQueue() queue {
	return queue{wake: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// signal leaves a token in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// full says whether limit requests are queued; then a token will come through space when one has left.
func (q *queue) full(limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tight = len(q.items)-q.head >= limit
	return q.tight
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head
}

// push appends a request that is about to be handled; false: the connection is gone.
func (q *queue) push(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return false
	}
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, p)
	return true
}

// complete stores the reply of p, on any goroutine. False: the connection is gone and the caller disposes of
// p.
func (q *queue) complete(p *pending, r Reply) bool {
	q.mu.Lock()
	p.reply, p.ready = r, true
	dropped := p.dropped
	first := !dropped && q.head < len(q.items) && q.items[q.head] == p
	q.mu.Unlock()
	if first {
		signal(q.wake)
	}
	return !dropped
}

// take removes the oldest request if its reply is ready; nil if not. ended says that there will be no more.
func (q *queue) take() (p *pending, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.items) {
		return nil, q.ended
	}
	if p = q.items[q.head]; !p.ready {
		return nil, false
	}
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	if q.tight {
		q.tight = false
		signal(q.space)
	}
	return p, false
}

// end says that no more will be pushed and gives the requests that are not answered yet.
func (q *queue) end() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	signal(q.wake)
	var out []*pending
	for _, p := range q.items[q.head:] {
		if !p.ready {
			out = append(out, p)
		}
	}
	return out
}

// abandon empties the queue for good: it gives the answered and the unanswered requests that will never be
// sent.
func (q *queue) abandon() (answered, unanswered []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.items[q.head:] {
		if p.ready {
			answered = append(answered, p)
		} else {
			p.dropped = true
			unanswered = append(unanswered, p)
		}
	}
	q.items, q.head, q.ended, q.dead = nil, 0, true, true
	return answered, unanswered
}
