package server

import (
	"sync/atomic"
	"time"
)

// phase is what a connection's reader is doing, as far as the sweeper must know.
type phase uint32

const (
	phaseIdle   phase = iota // between frames, nothing buffered
	phaseFrame               // a frame has begun and the peer owes the rest
	phaseBulk                // the same, and the frame holds bulk memory
	phasePaused              // not reading, by the server's own choice
)

// meter is how the goroutines of a connection tell the sweeper what they do, with plain atomic stores, and
// what the sweeper remembers of the last time it looked. That costs less than a deadline per read and write.
type meter struct {
	phase     atomic.Uint32
	frames    atomic.Uint64 // begun or ended so far
	rx, tx    atomic.Int64  // bytes moved so far
	sending   atomic.Bool   // the writer is inside a write
	active    atomic.Int64  // last whole request or reply, Unix nanoseconds
	rxAt, tx0 mark          // the sweeper's own
}

// mark is the beginning of a window of observation.
type mark struct {
	at      time.Time
	bytes   int64
	frame   uint64
	pressed bool
	open    bool
}

func (m *meter) setPhase(p phase) { m.phase.Store(uint32(p)) }

// receiving notes that the peer owes the rest of a frame of class cl.
func (m *meter) receiving(cl class) {
	if cl == classBulk {
		m.setPhase(phaseBulk)
	} else {
		m.setPhase(phaseFrame)
	}
}

func (m *meter) received(n int) { m.rx.Add(int64(n)) }

// touch notes that a request was completely read, or a reply sent.
func (m *meter) touch(now time.Time) { m.active.Store(now.UnixNano()) }

// sweep is the goroutine that closes connections that are slow or idle.
func (s *Server) sweep() {
	for {
		if !s.pause(s.sweepEvery()) {
			break
		}
		s.sweepOnce(s.opt.Now())
	}
	// While draining, peers that do not read their last replies must still be found.
	for len(s.connections()) > 0 {
		s.mu.Lock()
		left := s.left
		s.mu.Unlock()
		t := time.NewTimer(s.sweepEvery())
		select {
		case <-t.C:
			s.sweepOnce(s.opt.Now())
		case <-left:
		}
		t.Stop()
	}
}

// sweepEvery is a quarter of the shortest limit, at most a second.
func (s *Server) sweepEvery() time.Duration {
	l := s.limits.Load()
	d := min(4*time.Second, l.ReadWindow, l.PressedReadWindow, l.WriteStall)
	if l.MaxIdle > 0 {
		d = min(d, l.MaxIdle)
	}
	return max(d/4, time.Millisecond)
}

func (s *Server) sweepOnce(now time.Time) {
	l, pressed := s.limits.Load(), s.opt.Budget.pressed()
	for _, c := range s.connections() {
		if why, ok := c.judge(now, l, pressed); ok {
			c.close(why)
		}
	}
}

// judge says whether the connection has to end, and why. Only the sweeper calls it.
func (c *conn) judge(now time.Time, l *Limits, pressed bool) (CloseReason, bool) {
	m := &c.meter
	switch {
	case m.slowSender(now, l, pressed):
		return ClosedSlowSender, true
	case m.slowReceiver(now, l):
		return ClosedSlowReceiver, true
	}
	idle := now.Sub(time.Unix(0, m.active.Load()))
	quiet := phase(m.phase.Load()) == phaseIdle && !m.sending.Load() && c.queue.len() == 0
	if l.MaxIdle > 0 && idle > l.MaxIdle && quiet {
		return ClosedIdle, true
	}
	return 0, false
}

// slowSender watches a frame that has begun: at the end of each window enough of it must have come. A new
// frame, a pause of our own or a change of the rules opens a new window.
func (m *meter) slowSender(now time.Time, l *Limits, pressed bool) bool {
	p := phase(m.phase.Load())
	if p != phaseFrame && p != phaseBulk {
		m.rxAt.open = false
		return false
	}
	pressed = pressed && p == phaseBulk
	frame, bytes := m.frames.Load(), m.rx.Load()
	w := &m.rxAt
	if !w.open || w.frame != frame || w.pressed != pressed {
		*w = mark{at: now, bytes: bytes, frame: frame, pressed: pressed, open: true}
		return false
	}
	window, rate := l.ReadWindow, l.MinReadRate
	if pressed {
		window, rate = l.PressedReadWindow, l.PressedReadRate
	}
	elapsed := now.Sub(w.at)
	if elapsed < window {
		return false
	}
	if float64(bytes-w.bytes) < float64(rate)*elapsed.Seconds() {
		return true
	}
	w.at, w.bytes = now, bytes
	return false
}

// slowReceiver watches a write that the peer's kernel does not take.
func (m *meter) slowReceiver(now time.Time, l *Limits) bool {
	w := &m.tx0
	if !m.sending.Load() {
		w.open = false
		return false
	}
	if bytes := m.tx.Load(); !w.open || w.bytes != bytes {
		*w = mark{at: now, bytes: bytes, open: true}
		return false
	}
	return now.Sub(w.at) >= l.WriteStall
}
