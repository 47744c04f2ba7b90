package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// dispatch decodes a received frame and hands it to its row's handler.
func (c *conn) dispatch(p *pending, r *row) *verdict {
	supported := p.call.Version >= r.Min && p.call.Version <= r.Max
	h, ok := parseHeader(p.call.frame, p.call.Version >= r.flexible, c.s.opt.MaxTags)
	if !ok {
		p.lease.Release()
		return end(ClosedMalformed)
	}
	p.call.CorrelationID = h.correlationID
	p.call.ClientID = c.info.setClientID(h.clientID)
	if !supported { // ApiVersions only: the others were refused before their body was read
		p.call.Version = 0
		if !c.queue.push(p) {
			p.lease.Release()
			return end(ClosedByPeer)
		}
		body := unsupportedVersions()
		p.handled = p.call.Now
		p.complete(Reply{Body: body, Code: kafka.Code(body.ErrorCode)})
		return nil
	}
	req, v := c.decode(p, r, p.call.frame[h.length:])
	if v != nil {
		p.lease.Release()
		return v
	}
	return c.handle(p, r, req)
}

// decode checks the body's layout, pays for what its decoding allocates, and decodes it. The request aliases
// the frame.
func (c *conn) decode(p *pending, r *row, body []byte) (kmsg.Request, *verdict) {
	heap, ok := r.schema.scan(body, p.call.Version, scanLimits{c.s.opt.MaxArrayElements, c.s.opt.MaxTags})
	switch {
	case !ok:
		return nil, end(ClosedMalformed)
	case heap > c.s.opt.MaxDecodedBytes:
		return nil, end(ClosedTooLarge)
	case heap > leaseOverhead:
		if v := c.pay(p, func() bool {
			return c.s.opt.Budget.grow(&p.lease, heap, c.stop, c.info.Done())
		}); v != nil {
			return nil, v
		}
	}
	req := newRequest(&r.API)
	req.SetVersion(p.call.Version)
	var err error
	if u, ok := req.(kmsg.UnsafeReadFrom); ok {
		err = u.UnsafeReadFrom(body)
	} else {
		err = req.ReadFrom(body)
	}
	if err != nil {
		return nil, end(ClosedMalformed)
	}
	return req, nil
}

// handle queues the request, calls its handler and connects the promise with the queue. From push on the
// request belongs to the queue.
func (c *conn) handle(p *pending, r *row, req kmsg.Request) *verdict {
	if !c.queue.push(p) {
		p.lease.Release()
		return end(ClosedByPeer)
	}
	pr := c.call(p, r, req)
	if c.s.opt.Observer != nil {
		p.handled = c.s.opt.Now()
	}
	if pr == nil { // it panicked: those before it are answered, then the connection ends
		p.lease.abandon()
		p.complete(Reply{None: true, Code: kafka.UnknownServerError})
		return end(ClosedPanic)
	}
	if reply, ok := pr.Get(); ok {
		p.complete(reply)
		return nil
	}
	pr.OnDone(p.complete)
	return nil
}

// call authorizes and calls the handler; nil: it panicked, or broke its contract by returning nil.
func (c *conn) call(p *pending, r *row, req kmsg.Request) (pr *promise.Promise[Reply]) {
	defer func() {
		if e := recover(); e != nil {
			c.panicked("handler", r.Key, e)
			pr = nil
		}
	}()
	if a := c.s.opt.Authorizer; a != nil && r.Authorize != nil {
		if checks := r.Authorize(&p.call, req); len(checks) > 0 {
			p.call.access = a.Authorize(&p.call, checks)
		}
	}
	return r.Handle(&p.call, req)
}
