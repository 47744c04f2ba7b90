package server

import "sync/atomic"

// leaseOverhead is charged for each request beside its buffer: the structs of the request and its reply.
const leaseOverhead = 1024

// Lease is one request's hold on its bytes and on their charge to the Budget. It ends once, by the handler's
// Release or by the server when the reply has been encoded, whichever comes first; then the buffer is used
// for other requests, so nothing may alias it any more: not the kmsg request, not the reply, not a waiter
// (invariant.Poison scribbles over it in test builds).
//
// Methods accept a nil lease, so that handlers can be tested without a server.
type Lease struct {
	budget   *Budget
	pool     *buffers
	buf      *buffer
	class    class
	overrun  bool              // under Budget.mu
	held     [numClasses]int64 // under Budget.mu
	released atomic.Bool
}

// Release gives the request's bytes and their charge back. Calls after the first do nothing.
func (l *Lease) Release() {
	if l == nil || l.released.Swap(true) {
		return
	}
	if l.buf != nil {
		l.pool.put(l.buf)
		l.buf = nil
	}
	if l.budget != nil {
		l.budget.end(l)
	}
}

// abandon gives the charge back and leaves the buffer to the garbage collector: somebody may still alias it.
func (l *Lease) abandon() {
	if l.released.Swap(true) {
		return
	}
	l.buf = nil
	l.budget.end(l)
}
