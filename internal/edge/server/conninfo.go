package server

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
)

// ConnInfo describes one connection to handlers and observers. The exported fields never change; the methods
// are safe for concurrent use. A ConnInfo stays usable after its connection has closed.
type ConnInfo struct {
	// ID is unique within the process and never reused.
	ID       uint64
	Listener string
	Kind     ListenerKind
	// Local is the address the client reached, which an unset advertised.listeners answers.
	Local, Remote net.Addr
	// RemoteIP is the peer's address; 127.0.0.1 for in-memory connections.
	RemoteIP  netip.Addr
	Principal kafka.Principal
	Connected time.Time

	clientID atomic.Pointer[string]
	software atomic.Pointer[Software]
	closed   chan struct{}
	mu       sync.Mutex
	gone     bool
	nextHook int
	hooks    map[int]func()
}

// Software is what a client says it is (KIP-511). Both fields have passed the protocol's character check.
type Software struct{ Name, Version string }

// NewConnInfo makes the description of a connection that does not exist, for tests of handlers. Its End
// method closes it.
func NewConnInfo(listener string, kind ListenerKind, local, remote net.Addr) *ConnInfo {
	return &ConnInfo{
		Listener: listener, Kind: kind, Local: local, Remote: remote, RemoteIP: ipOf(remote),
		Principal: kafka.Anonymous, closed: make(chan struct{}),
	}
}

// String names the connection in logs: local-remote-id.
func (c *ConnInfo) String() string { return fmt.Sprintf("%v-%v-%d", c.Local, c.Remote, c.ID) }

// ClientID is the client id of the newest request ("" before the first).
func (c *ConnInfo) ClientID() string {
	if s := c.clientID.Load(); s != nil {
		return *s
	}
	return ""
}

// Software is what the client's ApiVersions request said; zero before it.
func (c *ConnInfo) Software() Software {
	if s := c.software.Load(); s != nil {
		return *s
	}
	return Software{}
}

// SetSoftware keeps what an ApiVersions request said. Strings must not alias a request.
func (c *ConnInfo) SetSoftware(s Software) { c.software.Store(&s) }

// Done is closed when the connection is.
func (c *ConnInfo) Done() <-chan struct{} { return c.closed }

// OnClose registers f to be called once when the connection closes (at once if it has) and returns what takes
// the registration back. f must not block and runs without any lock of this package held.
func (c *ConnInfo) OnClose(f func()) (remove func()) {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		f()
		return func() {}
	}
	if c.hooks == nil {
		c.hooks = make(map[int]func())
	}
	id := c.nextHook
	c.nextHook++
	c.hooks[id] = f
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		delete(c.hooks, id)
		c.mu.Unlock()
	}
}

// End marks the connection closed and runs the OnClose hooks. The server calls it; exported for tests of
// handlers.
func (c *ConnInfo) End() {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	c.gone = true
	hooks := c.hooks
	c.hooks = nil
	c.mu.Unlock()
	close(c.closed)
	for _, f := range hooks {
		f()
	}
}

// setClientID remembers the client id of a request and gives a string that may be kept; it allocates only
// when the client id changes.
func (c *ConnInfo) setClientID(b []byte) string {
	if s := c.clientID.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	c.clientID.Store(&s)
	return s
}

func ipOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		if ip, ok := netip.AddrFromSlice(t.IP); ok {
			return ip.Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
