package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// ListenerOptions describe one listener.
type ListenerOptions struct {
	// Name is Kafka's listener name, such as PLAINTEXT.
	Name string
	// Kind says which APIs are served. Default: BrokerListener.
	Kind ListenerKind
	// Address is host:port to listen on (TCP); not used when Net is given.
	Address string
	// Backlog is how many connections may wait to be accepted, where the system can be told; 0: as many as it allows.
	Backlog int
	// Net is a listener to serve, such as a MemoryListener. The server closes it.
	Net net.Listener
	// Internal marks a listener for nodes only: it draws on the internal memory reserve and is not held up by
	// MaxConnections. Controller listeners are internal always.
	Internal bool
	// MaxConnections pauses accepting on this listener alone. 0: no limit.
	MaxConnections int
	// ConnectionRate delays accepting on this listener alone beyond so many per second. 0: no limit.
	ConnectionRate float64
}

// Listener is a bound listener of a Server.
type Listener struct {
	s    *Server
	opt  ListenerOptions
	ln   net.Listener
	rate rateLimiter
}

// Listen binds a listener without accepting yet, so that a wrong address shows early and the port is known
// before anything is served. Connections wait in the kernel's queue until Start.
func (s *Server) Listen(o ListenerOptions) (*Listener, error) {
	if o.Kind == 0 {
		o.Kind = BrokerListener
	}
	if o.Kind == ControllerListener {
		o.Internal = true
	}
	l := &Listener{s: s, opt: o, ln: o.Net}
	if l.ln == nil {
		ln, err := net.Listen("tcp", o.Address)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", o.Name, err)
		}
		if o.Backlog > 0 {
			if err := setBacklog(ln, o.Backlog); err != nil {
				_ = ln.Close()
				return nil, fmt.Errorf("listener %s: %w", o.Name, err)
			}
		}
		l.ln = ln
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.ln.Close()
		return nil, ErrClosed
	}
	s.listeners = append(s.listeners, l)
	return l, nil
}

// Addr is the address the listener is bound to.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Start begins to accept. It must be called once at most.
func (l *Listener) Start() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return ErrClosed
	}
	l.s.wg.Go(l.accept)
	return nil
}

// Close stops accepting on this listener alone; its connections stay.
func (l *Listener) Close() error {
	s := l.s
	s.mu.Lock()
	s.listeners = slices.DeleteFunc(s.listeners, func(x *Listener) bool { return x == l })
	s.mu.Unlock()
	return l.ln.Close()
}

// accept runs until the listener is closed. An error that passes (no file descriptors left) is waited out:
// ever longer up to a second, logged once a streak.
func (l *Listener) accept() {
	s, backoff := l.s, time.Duration(0)
	for {
		nc, err := l.ln.Accept()
		switch {
		case err == nil:
			backoff = 0
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if backoff == 0 {
				s.opt.Log.Error("accepting failed, trying again", "listener", l.opt.Name, "error", err)
			}
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			if !s.pause(backoff) {
				return
			}
			continue
		}
		now := s.opt.Now()
		wait := s.rate.reserve(now, s.limits.Load().ConnectionRate)
		wait = max(wait, l.rate.reserve(now, l.opt.ConnectionRate))
		if !s.pause(wait) || !s.makeRoom(l) {
			_ = nc.Close()
			return
		}
		l.admit(nc)
	}
}

// admit turns an accepted connection into a served one, or closes it.
func (l *Listener) admit(nc net.Conn) {
	l.tune(nc)
	c := newConn(l, nc)
	if why, ok := l.s.add(c); !ok {
		_ = nc.Close()
		l.s.opt.Log.Debug("connection refused", "connection", c.info, "reason", why.String())
		if l.s.opt.Observer != nil {
			l.s.opt.Observer.ConnectionRefused(l.opt.Name, why)
		}
	}
}

// tune sets the socket options. Their failing is no reason to refuse: the peer may be gone already, which
// reading will find out.
func (l *Listener) tune(nc net.Conn) {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetNoDelay(true)
	_ = t.SetKeepAlive(true)
	if n := l.s.opt.SendBufferBytes; n > 0 {
		_ = t.SetWriteBuffer(n)
	}
	if n := l.s.opt.ReceiveBufferBytes; n > 0 {
		_ = t.SetReadBuffer(n)
	}
}
