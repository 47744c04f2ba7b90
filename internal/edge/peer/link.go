package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// link is the way to one address on one lane: what waits to be sent there and, while there is one, its connection.
type link struct {
	p        *Pool
	to       Address
	lane     string
	clientID string
	wake     chan struct{} // something waits, or the connection broke

	mu      sync.Mutex
	closed  bool
	running bool        // a goroutine serves the link
	waiting []*exchange // not written yet
	conn    *conn       // nil: not connected
	// failures counts the attempts since something was answered last; redialAt is when the next may begin.
	failures int
	redialAt time.Time
}

// exchange is one request and its answer.
type exchange struct {
	request kmsg.Request
	timeout *time.Timer
	answer  promise.Promise[Answer]
}

func (x *exchange) settle(a Answer) {
	x.timeout.Stop()
	x.answer.Set(a)
}

// send queues a request. The pool is not closed.
func (l *link) send(r kmsg.Request, timeout time.Duration) *promise.Promise[Answer] {
	x := &exchange{request: r}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return promise.Done(Answer{Err: l.errorf(false, kafka.NetworkException, "%d requests are waiting", maxWaiting)})
	}
	x.timeout = time.AfterFunc(timeout, func() { l.expire(x, timeout) })
	l.waiting = append(l.waiting, x)
	if !l.running {
		l.running = true
		l.p.loops.Go(l.run)
	}
	l.poke()
	return &x.answer
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// expire ends a request that was not answered in time.
func (l *link) expire(x *exchange, timeout time.Duration) {
	l.mu.Lock()
	at := slices.Index(l.waiting, x)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	c := l.conn
	l.mu.Unlock()
	err := l.errorf(at < 0, kafka.RequestTimedOut, "no answer within %v", timeout)
	x.answer.Set(Answer{Err: err})
	if at < 0 && c != nil && c.holds(x) {
		c.fail(err.Err)
	}
}

// run serves the link until nothing waits and no connection is left.
func (l *link) run() {
	for l.rest() {
		c, err := l.dial()
		if err != nil {
			l.unreachable(err)
			continue
		}
		answered, err := l.serve(c)
		l.lost(answered, err)
	}
}

// rest waits until the next dial may begin and says whether one is needed. It is false when the goroutine ends.
func (l *link) rest() bool {
	for {
		l.mu.Lock()
		if l.closed || len(l.waiting) == 0 {
			l.running = false
			l.mu.Unlock()
			return false
		}
		wait := time.Until(l.redialAt)
		l.mu.Unlock()
		if wait <= 0 {
			return true
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-l.p.ctx.Done():
			t.Stop()
		}
	}
}

func (l *link) dial() (*conn, error) {
	l.mu.Lock()
	failures := l.failures
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.p.ctx, min(l.p.o.DialTimeout<<min(failures, 10), l.p.o.MaxDialTimeout))
	defer cancel()
	c, err := connect(ctx, l.p.o, &l.p.frames, l.to, l.clientID)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.fail(errClosed)
		return nil, errClosed
	}
	c.broken = l.poke
	l.conn = c
	return c, nil
}

// unreachable ends everything that waits: whoever asked may know another way.
func (l *link) unreachable(err error) {
	l.mu.Lock()
	failed := l.waiting
	l.waiting = nil
	l.backOff()
	l.mu.Unlock()
	if !errors.Is(err, errClosed) {
		l.p.o.Log.Debug("peer cannot be reached", "address", l.to.String(), "lane", l.lane, "error", err)
	}
	for _, x := range failed {
		x.settle(Answer{Err: l.errorf(false, kafka.NetworkException, "%w", err)})
	}
}

// backOff puts off the next dial, the longer the more attempts failed. Needs mu.
func (l *link) backOff() {
	l.redialAt = time.Now().Add(min(firstRedial<<min(l.failures, 10), lastRedial))
	l.failures++
}

// serve sends what waits over a connection until that breaks, and says whether anything was answered.
func (l *link) serve(c *conn) (answered bool, cause error) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		answered = c.read()
	}()
	for c.err() == nil {
		if batch := l.take(c); len(batch) > 0 {
			c.write(batch)
			continue
		}
		<-l.wake
	}
	<-read
	return answered, c.err()
}

// take gives the requests that are next. Those that the peer does not understand end here.
func (l *link) take(c *conn) []*exchange {
	l.mu.Lock()
	batch := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	return slices.DeleteFunc(batch, func(x *exchange) bool {
		err := c.versions.settle(x.request)
		if err != nil {
			x.settle(Answer{Err: &Error{To: l.to, Lane: l.lane, Code: kafka.UnsupportedVersion, Err: err}})
		}
		return err != nil
	})
}

// lost ends what was outstanding on a connection. What still waits goes over the next one.
func (l *link) lost(answered bool, cause error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	closed := l.closed
	var unsent []*exchange
	if closed {
		unsent, l.waiting = l.waiting, nil
	}
	if answered {
		l.failures, l.redialAt = 0, time.Time{}
	} else {
		l.backOff()
	}
	l.mu.Unlock()
	if !closed {
		l.p.o.Log.Debug("connection to a peer ended", "address", l.to.String(), "lane", l.lane, "error", cause)
	}
	for _, x := range c.abandon() {
		x.settle(Answer{Err: l.errorf(true, kafka.NetworkException, "%w", cause)})
	}
	for _, x := range unsent {
		x.settle(Answer{Err: l.errorf(false, kafka.NetworkException, "%w", cause)})
	}
}

// close ends the link. What waits is ended here unless a goroutine still serves the link and does it.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	unsent, c := l.waiting, l.conn
	l.waiting = nil
	l.mu.Unlock()
	if c != nil {
		c.fail(errClosed)
	}
	for _, x := range unsent {
		x.settle(Answer{Err: l.errorf(false, kafka.NetworkException, "%w", errClosed)})
	}
}

// dormant says whether nothing uses the link.
func (l *link) dormant() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.running
}

func (l *link) errorf(sent bool, code kafka.Code, format string, args ...any) *Error {
	return &Error{To: l.to, Lane: l.lane, Sent: sent, Code: code, Err: fmt.Errorf(format, args...)}
}
