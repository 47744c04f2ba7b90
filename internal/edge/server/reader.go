package server

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// inputSize is the buffer that every connection keeps: enough for most requests that are not Produce,
	// little enough for ten thousand idle connections.
	inputSize = 1024
	// prefix is what is read of a frame before it is paid for: its length, API key, version and correlation
	// id.
	prefix = 12
	// eagerFrame and firstStep bound what is allocated for a frame before its bytes arrive: all of it up to
	// eagerFrame while memory is plentiful, else firstStep, then four times as much whenever that is full. A
	// peer that announces much and sends little holds little.
	eagerFrame = maxPooled
	firstStep  = 64 << 10
)

// input is the reader's small buffer.
type input struct {
	b    [inputSize]byte
	r, w int
}

func (in *input) buffered() []byte { return in.b[in.r:in.w] }

// verdict is the end of a connection, as an error of the reader's steps; nil goes on.
type verdict struct{ why CloseReason }

func end(why CloseReason) *verdict { return &verdict{why} }

// readLoop reads and dispatches requests until the connection ends, and says why. Anything but ClosedByPeer
// leaves the connection able to write.
func (c *conn) readLoop() CloseReason {
	for {
		if v := c.next(); v != nil {
			return v.why
		}
	}
}

// next serves one request: length, prefix, memory, body, dispatch.
func (c *conn) next() *verdict {
	if c.in.r == c.in.w {
		c.meter.setPhase(phaseIdle)
	}
	if v := c.fill(4); v != nil {
		return v
	}
	p := &pending{conn: c}
	p.call.Conn, p.call.Principal, p.call.Lease = c.info, c.info.Principal, &p.lease
	if c.s.opt.Observer != nil {
		p.began = c.s.opt.Now()
	}
	size := int(int32(binary.BigEndian.Uint32(c.in.buffered())))
	switch {
	case size <= 0:
		return end(ClosedMalformed)
	case size > c.s.opt.MaxFrameBytes:
		return end(ClosedTooLarge)
	case size < prefix-4:
		return end(ClosedMalformed)
	}
	p.size = int64(size) + 4
	if v := c.fill(prefix); v != nil {
		return v
	}
	b := c.in.buffered()
	p.call.Key, p.call.Version = int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	r := c.s.opt.Table.byKey[p.call.Key]
	if r == nil || r.Listener&c.info.Kind == 0 {
		return end(ClosedUnsupported)
	}
	if (p.call.Version < r.Min || p.call.Version > r.Max) && r.Key != apiVersionsKey {
		return end(ClosedUnsupported)
	}
	if v := c.waitTurn(); v != nil {
		return v
	}
	c.in.r += 4
	if v := c.receive(p, r, size); v != nil {
		p.lease.Release()
		return v
	}
	return c.dispatch(p, r)
}

// waitTurn holds the reader back while the connection is muted (KIP-219) or has too many unanswered requests.
func (c *conn) waitTurn() *verdict {
	c.meter.setPhase(phasePaused)
	for c.queue.full(c.s.opt.MaxQueuedRequests) {
		select {
		case <-c.queue.space:
		case <-c.stop:
			return end(ClosedByServer)
		case <-c.info.Done():
			return end(ClosedByPeer)
		}
	}
	for {
		until := c.muted.Load()
		if until == 0 {
			return nil
		}
		d := time.Unix(0, until).Sub(c.s.opt.Now())
		if d <= 0 {
			c.muted.CompareAndSwap(until, 0)
			return nil
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-c.stop:
			t.Stop()
			return end(ClosedByServer)
		case <-c.info.Done():
			t.Stop()
			return end(ClosedByPeer)
		}
	}
}

// fill reads until n bytes are buffered.
func (c *conn) fill(n int) *verdict {
	in := &c.in
	select {
	case <-c.stop:
		return end(ClosedByServer)
	default:
	}
	if in.w-in.r >= n {
		return nil
	}
	if in.r > 0 {
		in.w = copy(in.b[:], in.b[in.r:in.w])
		in.r = 0
	}
	for in.w < n {
		if in.w > 0 {
			c.meter.setPhase(phaseFrame)
		}
		k, err := c.nc.Read(in.b[in.w:])
		in.w += k
		c.meter.received(k)
		if err != nil && in.w < n {
			return c.readFailed()
		}
	}
	return nil
}

// readFailed tells the server's wish to stop from the peer's end.
func (c *conn) readFailed() *verdict {
	select {
	case <-c.stop:
		return end(ClosedByServer)
	default:
		return end(ClosedByPeer)
	}
}

// classOf says which pool a frame of r and size draws on. Produce is bulk at any size: it may wait for other
// nodes' requests, so it must not take the memory they need.
func (c *conn) classOf(r *row, size int) class {
	switch {
	case c.listener.opt.Internal || r.Internal:
		return classInternal
	case r.Key != int16(kmsg.Produce) && size <= c.s.opt.Budget.smallFrame:
		return classSmall
	}
	return classBulk
}

// receive pays for the frame and reads it whole into the lease's buffer.
func (c *conn) receive(p *pending, r *row, size int) *verdict {
	cl := c.classOf(r, size)
	first := size
	if size > firstStep && (size > eagerFrame || !c.s.opt.Budget.roomy()) {
		first = firstStep
	}
	_, n := sizeClass(first)
	if v := c.pay(p, func() bool {
		return c.s.opt.Budget.start(&p.lease, cl, int64(n)+leaseOverhead, c.stop, c.info.Done())
	}); v != nil {
		return v
	}
	l := &p.lease
	l.pool, l.buf = c.s.buffers, c.s.buffers.get(first)
	got := copy(l.buf.b[:min(size, len(l.buf.b))], c.in.buffered())
	c.in.r += got
	c.meter.receiving(l.class)
	for got < size {
		if got == len(l.buf.b) {
			if v := c.enlarge(p, size); v != nil {
				return v
			}
		}
		k, err := c.nc.Read(l.buf.b[got:min(size, len(l.buf.b))])
		got += k
		c.meter.received(k)
		if err != nil && got < size {
			return c.readFailed()
		}
	}
	p.call.frame = l.buf.b[:size]
	p.call.Now = c.s.opt.Now()
	c.meter.touch(p.call.Now)
	c.meter.frames.Add(1)
	c.meter.setPhase(phasePaused)
	return nil
}

// enlarge replaces the lease's full buffer by one of four times its length, or what the frame needs.
func (c *conn) enlarge(p *pending, size int) *verdict {
	l := &p.lease
	old := l.buf
	_, n := sizeClass(min(4*len(old.b), size))
	c.meter.setPhase(phasePaused)
	if v := c.pay(p, func() bool {
		return c.s.opt.Budget.grow(l, int64(n), c.stop, c.info.Done())
	}); v != nil {
		return v
	}
	c.meter.receiving(l.class)
	l.buf = c.s.buffers.get(n)
	copy(l.buf.b, old.b)
	oldSize := int64(len(old.b))
	c.s.buffers.put(old)
	c.s.opt.Budget.refund(l, oldSize)
	return nil
}

// pay runs a charge, which may wait, and keeps account of the time.
func (c *conn) pay(p *pending, charge func() bool) *verdict {
	if c.s.opt.Observer == nil {
		if charge() {
			return nil
		}
		return c.readFailed()
	}
	start := c.s.opt.Now()
	ok := charge()
	p.memory += c.s.opt.Now().Sub(start)
	if !ok {
		return c.readFailed()
	}
	return nil
}
