package server

import (
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
)

// lingerTime is how long a connection that the server ends waits for the peer to see it: closing with unread
// bytes would reset the connection and could take replies with it that are still on their way.
const lingerTime = 200 * time.Millisecond

// conn is one connection. Its reader goroutine runs it from accept to the end; the writer goroutine is its
// child.
type conn struct {
	s        *Server
	listener *Listener
	info     *ConnInfo
	nc       net.Conn
	queue    queue
	meter    meter
	in       input  // the reader's
	out      output // the writer's
	// muted is until when no request is read (KIP-219), in Unix nanoseconds.
	muted atomic.Int64

	stop     chan struct{} // closed: read no further request
	stopOnce sync.Once
	ending   sync.Once
	why      CloseReason // set once, inside ending
}

func newConn(l *Listener, nc net.Conn) *conn {
	now := l.s.opt.Now()
	info := NewConnInfo(l.opt.Name, l.opt.Kind, nc.LocalAddr(), nc.RemoteAddr())
	info.ID, info.Principal, info.Connected = l.s.nextID.Add(1), kafka.Anonymous, now
	c := &conn{s: l.s, listener: l, info: info, nc: nc, queue: newQueue(), stop: make(chan struct{})}
	c.out.init(c)
	c.meter.touch(now)
	return c
}

// run serves the connection; it is the reader goroutine.
func (c *conn) run() {
	defer c.s.remove(c)
	if o := c.s.opt.Observer; o != nil {
		o.ConnectionOpened(c.info)
		defer func() { o.ConnectionClosed(c.info, c.why) }()
	}
	written := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(written)
		c.writeLoop()
	})
	why := c.readLoop()
	if why != ClosedByPeer {
		c.finish(written)
	}
	c.close(why)
	writer.Wait()
	c.s.opt.Log.Debug("connection closed", "connection", c.info, "reason", c.why.String())
}

// finish lets the writer send what earlier requests are still owed, then ends the stream and gives the peer a
// moment to read it.
func (c *conn) finish(written <-chan struct{}) {
	c.meter.setPhase(phasePaused)
	for _, p := range c.queue.end() {
		p.call.Cancel()
	}
	select {
	case <-written:
	case <-c.info.Done():
		return
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, onlyReader{c.nc})
}

// onlyReader hides the connection's other methods from io.Copy.
type onlyReader struct{ io.Reader }

// stopReading makes the reader end in good order, at the latest before the next request.
func (c *conn) stopReading() {
	c.stopOnce.Do(func() {
		close(c.stop)
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	})
}

// close ends the connection at once, on any goroutine: requests not answered yet are canceled, replies not
// sent are dropped. The first reason counts.
func (c *conn) close(why CloseReason) {
	c.ending.Do(func() {
		c.why = why
		_ = c.nc.Close()
		answered, unanswered := c.queue.abandon()
		for _, p := range answered {
			p.finish(true, 0)
		}
		c.info.End()
		for _, p := range unanswered {
			p.call.Cancel()
		}
	})
}

// mute stops the handling of further requests for a while from now.
func (c *conn) mute(ms int32) {
	until := c.s.opt.Now().Add(time.Duration(ms) * time.Millisecond).UnixNano()
	for {
		old := c.muted.Load()
		if old >= until || c.muted.CompareAndSwap(old, until) {
			return
		}
	}
}

// complete takes the reply of p, on whatever goroutine sets the promise.
func (p *pending) complete(r Reply) {
	c := p.conn
	if r.ThrottleMs > 0 {
		c.mute(r.ThrottleMs)
	}
	p.set = c.s.opt.Now()
	c.meter.touch(p.set) // before it leaves the queue, or the connection could seem idle for a moment
	if !c.queue.complete(p, r) {
		p.finish(true, 0)
	}
}

// finish disposes of a request whose reply has left or never will.
func (p *pending) finish(dropped bool, replyBytes int64) {
	p.lease.Release()
	if p.reply.Release != nil {
		p.reply.Release()
		p.reply.Release = nil
	}
	o := p.conn.s.opt.Observer
	if o == nil {
		return
	}
	now := p.conn.s.opt.Now()
	if p.taken.IsZero() {
		p.taken = now
	}
	o.RequestDone(Stats{
		Conn: p.conn.info, Key: p.call.Key, Version: p.call.Version, Code: p.reply.Code, Dropped: dropped,
		RequestBytes: p.size, ReplyBytes: replyBytes,
		Memory: p.memory, Receive: p.call.Now.Sub(p.began) - p.memory, Handle: p.handled.Sub(p.call.Now),
		Pending: max(p.set.Sub(p.handled), 0), Queue: p.taken.Sub(p.set), Send: now.Sub(p.taken),
	})
}

// panicked logs a panic of a handler, with the stack of the caller's deferred function.
func (c *conn) panicked(what string, key int16, v any) {
	c.s.opt.Log.Error("panic, closing the connection", "in", what, "key", key, "connection", c.info, "panic", v,
		"stack", string(debug.Stack()))
}
