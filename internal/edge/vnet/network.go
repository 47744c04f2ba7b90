package vnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"moldau/internal/edge/server"
)

// Host is a machine of the network. Outside stands for everybody who has no number: clients.
type Host int32

// Outside is where clients are.
const Outside Host = 0

// way is a direction between two machines.
type way struct{ from, to Host }

func (w way) back() way { return way{w.to, w.from} }

// Network is safe for concurrent use. The zero value is not ready: see New.
type Network struct {
	mu        sync.Mutex
	hosts     map[string]Host // of every address that was ever listened on
	listeners map[string]*listener
	cut       map[way]bool
	dark      map[Host]bool
	conns     map[*conn]struct{} // both ends of each
	changed   chan struct{}      // closed when a way opens
	dialled   int
}

// New makes a network on which every way is open.
func New() *Network {
	return &Network{hosts: map[string]Host{}, listeners: map[string]*listener{}, cut: map[way]bool{}, dark: map[Host]bool{},
		conns: map[*conn]struct{}{}, changed: make(chan struct{})}
}

// Listen opens a listener of a machine. The address is any host:port. It is an error if somebody listens there.
func (n *Network) Listen(at Host, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: name(address), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{network: n, address: name(address), backlog: make(chan net.Conn), done: make(chan struct{})}
	n.hosts[address], n.listeners[address] = at, l
	return l, nil
}

// Dialer gives the dial function of a machine. Where nobody listens it answers syscall.ECONNREFUSED; over a way that is cut
// it waits, as for packets that are lost.
func (n *Network) Dialer(from Host) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, from, address) }
}

// ClientDialer is the dial function of a client outside that tries again when it is refused. A franz-go client that asks
// any node takes the next one then, but requests that run side by side move it on too, so that it may meet the dead node
// twice, and gives up; net.ErrClosed among the errors keeps it trying.
func (n *Network) ClientDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := n.dial(ctx, Outside, address)
		if err != nil && ctx.Err() == nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: name(address),
				Err: fmt.Errorf("%v: %w", err, net.ErrClosed)} // not the system error: that would be final
		}
		return c, err
	}
}

func (n *Network) dial(ctx context.Context, from Host, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: name(address),
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)} // in the shape of TCP's: clients look into it
	for {
		n.mu.Lock()
		out := way{from, n.hosts[address]}
		changed, open, l := n.changed, n.open(out) && n.open(out.back()), n.listeners[address]
		n.mu.Unlock()
		if open {
			if l == nil {
				return nil, refused
			}
			near, far := n.connect(out, l.address)
			if err := l.hand(ctx, far); err != nil {
				_ = near.Close()
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return nil, refused
			}
			return near, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Hand gives a connection that was made elsewhere to whoever listens at an address. No way that is cut holds it up. On an
// error the connection is the caller's.
func (n *Network) Hand(ctx context.Context, address string, c net.Conn) error {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return syscall.ECONNREFUSED
	}
	return l.hand(ctx, c)
}

// connect makes a connection and gives its two ends.
func (n *Network) connect(out way, to name) (near, far *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialled++
	a, b := server.Pipe("127.0.0.1:"+strconv.Itoa(n.dialled%65535+1), string(to))
	near, far = newConn(n, a, out.back()), newConn(n, b, out)
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, far
}

// open says whether bytes pass. The caller holds mu.
func (n *Network) open(w way) bool {
	return w.from == w.to && !n.dark[w.from] || !n.cut[w] && !n.dark[w.from] && !n.dark[w.to]
}

// passes says whether bytes pass, and if not, what is closed when that may have changed.
func (n *Network) passes(w way) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open(w), n.changed
}

// Cut makes a way swallow what is sent on it.
func (n *Network) Cut(from, to Host) { n.change(func() { n.cut[way{from, to}] = true }) }

// Mend opens a way again; what was under way arrives.
func (n *Network) Mend(from, to Host) { n.change(func() { delete(n.cut, way{from, to}) }) }

// Heal opens every way that was cut. Dark machines stay dark.
func (n *Network) Heal() { n.change(func() { clear(n.cut) }) }

// Dark makes a machine silent, as one without power: nothing comes from it, not even that its connections ended. When it
// is lit again, everybody learns that they did.
func (n *Network) Dark(h Host, on bool) {
	n.change(func() { n.dark[h] = on })
	if !on {
		n.end(func(w way) bool { return w.from == h || w.to == h })
	}
}

// Break ends all connections between two machines, as a reset does.
func (n *Network) Break(a, b Host) {
	n.end(func(w way) bool { return w == way{a, b} || w == way{b, a} })
}

func (n *Network) end(which func(way) bool) {
	n.mu.Lock()
	var all []*conn
	for c := range n.conns {
		if which(c.in) {
			all = append(all, c)
		}
	}
	n.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// name is an address of the network.
type name string

func (name) Network() string  { return "virtual" }
func (a name) String() string { return string(a) }

// listener is a net.Listener of a machine.
type listener struct {
	network *Network
	address name
	backlog chan net.Conn
	done    chan struct{}
	once    sync.Once
}

// hand gives a connection to the listener; it waits until it is accepted.
func (l *listener) hand(ctx context.Context, c net.Conn) error {
	select {
	case l.backlog <- c:
		return nil
	case <-l.done:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "virtual", Addr: l.address, Err: net.ErrClosed}
	}
}

// Close implements net.Listener. Connections stay.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		if l.network.listeners[string(l.address)] == l {
			delete(l.network.listeners, string(l.address))
		}
		close(l.done)
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }
