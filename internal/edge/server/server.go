package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by Listen and Start once Drain or Close has begun.
var ErrClosed = errors.New("server: closed")

// Server serves the Kafka protocol on any number of listeners. It is safe for concurrent use.
type Server struct {
	opt     Options
	limits  atomic.Pointer[Limits]
	buffers *buffers
	output  sync.Pool // *[]byte: the writers' buffers
	nextID  atomic.Uint64
	rate    rateLimiter
	closing chan struct{} // closed when accepting ends
	wg      sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []*Listener
	conns     map[*conn]struct{}
	perIP     map[netip.Addr]int
	left      chan struct{} // closed and replaced when a connection leaves
}

// New makes a server without listeners. It starts the goroutine that judges slow and idle connections, so
// Close must be called even if nothing was ever served.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opt: o, buffers: newBuffers(), closing: make(chan struct{}), left: make(chan struct{}),
		conns: make(map[*conn]struct{}), perIP: make(map[netip.Addr]int),
	}
	s.SetLimits(o.Limits)
	s.wg.Go(s.sweep)
	return s, nil
}

// SetLimits replaces the limits. Connections that exist already are kept even if there are too many now.
func (s *Server) SetLimits(l Limits) {
	l = l.withDefaults()
	s.limits.Store(&l)
}

// Budget gives the memory budget, for metrics.
func (s *Server) Budget() *Budget { return s.opt.Budget }

// Connections counts the open connections of a listener, or of all for "".
func (s *Server) Connections(listener string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if listener == "" {
		return len(s.conns)
	}
	n := 0
	for c := range s.conns {
		if c.info.Listener == listener {
			n++
		}
	}
	return n
}

// Drain stops the server in good order: it accepts nothing more, reads no further request, cancels parked
// reads, waits until every request already read has been answered, and closes. When ctx ends first the rest
// is cut off and its error returned. The server is closed in any case.
func (s *Server) Drain(ctx context.Context) error {
	for _, c := range s.stopAccepting() {
		c.stopReading()
	}
	idle := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		s.wg.Wait()
		close(idle)
	})
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Close()
	waiting.Wait()
	return err
}

// Close cuts every connection off and returns when all goroutines of the server have ended.
func (s *Server) Close() {
	for _, c := range s.stopAccepting() {
		c.close(ClosedByServer)
	}
	s.wg.Wait()
}

// stopAccepting closes the listeners and gives the connections that are open. It may be called again.
func (s *Server) stopAccepting() []*conn {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.ln.Close()
	}
	return s.connections()
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}

// add registers a connection and starts it; false: the server is closing or the address has too many
// connections.
func (s *Server) add(c *conn) (why CloseReason, ok bool) {
	limit, limited := s.limits.Load().maxFrom(c.info.RemoteIP)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ClosedByServer, false
	}
	if limited && s.perIP[c.info.RemoteIP] >= limit {
		return RefusedTooManyByIP, false
	}
	s.perIP[c.info.RemoteIP]++
	s.conns[c] = struct{}{}
	s.wg.Go(c.run)
	return 0, true
}

// remove forgets a connection whose goroutines have ended and wakes who waits for room.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perIP[c.info.RemoteIP]--; s.perIP[c.info.RemoteIP] == 0 {
		delete(s.perIP, c.info.RemoteIP)
	}
	close(s.left)
	s.left = make(chan struct{})
}

// makeRoom waits until a connection of l fits under the limits. For an internal listener the server's limit
// is no reason to wait: the longest idle connection of an ordinary one is closed instead, and the new one
// goes ahead of those that wait for its place. It reports false when the server closes.
func (s *Server) makeRoom(l *Listener) bool {
	for {
		s.mu.Lock()
		left := s.left
		full := l.opt.MaxConnections > 0 && s.countLocked(l) >= l.opt.MaxConnections
		limit := s.limits.Load().MaxConnections
		over := limit > 0 && len(s.conns) >= limit
		var victim *conn
		if over && !full && l.opt.Internal {
			over, victim = false, s.idlestLocked()
		}
		s.mu.Unlock()
		if victim != nil {
			victim.close(ClosedEvicted)
		}
		if !full && !over {
			return true
		}
		select {
		case <-left:
		case <-s.closing:
			return false
		}
	}
}

func (s *Server) countLocked(l *Listener) int {
	n := 0
	for c := range s.conns {
		if c.listener == l {
			n++
		}
	}
	return n
}

// idlestLocked gives the connection of an ordinary listener that has been without traffic for longest.
func (s *Server) idlestLocked() *conn {
	var out *conn
	for c := range s.conns {
		if !c.listener.opt.Internal && (out == nil || c.meter.active.Load() < out.meter.active.Load()) {
			out = c
		}
	}
	return out
}

// rateLimiter spaces events: a bucket of one second's worth.
type rateLimiter struct {
	mu   sync.Mutex
	next time.Time // when the bucket would be full again if nothing more came
}

// reserve takes one event at the given rate per second and says how long to wait before it.
func (r *rateLimiter) reserve(now time.Time, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.Before(now) {
		r.next = now
	}
	wait := r.next.Sub(now) - time.Second
	r.next = r.next.Add(time.Duration(float64(time.Second) / perSecond))
	return max(wait, 0)
}

// pause waits for d; false: the server closes.
func (s *Server) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}

var _ net.Listener = (*MemoryListener)(nil)
