package vnet

import (
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection. What arrives is held back while the way in is cut.
type conn struct {
	net.Conn
	network *Network
	in      way // of what is read
	closed  chan struct{}
	once    sync.Once

	reading sync.Mutex // held by the reader
	held    []byte     // arrived and not given to the reader yet, with heldErr behind it
	heldErr error

	mu       sync.Mutex
	deadline time.Time     // of reads
	moved    chan struct{} // closed when the deadline moves
}

func newConn(n *Network, c net.Conn, in way) *conn {
	return &conn{Conn: c, network: n, in: in, closed: make(chan struct{}), moved: make(chan struct{})}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.held) == 0 && c.heldErr == nil {
		n, err := c.Conn.Read(p)
		if ok, _ := c.network.passes(c.in); ok || err != nil && n == 0 && (c.isClosed() || os.IsTimeout(err)) {
			return n, err
		}
		c.held, c.heldErr = append(c.held, p[:n]...), err
	}
	if err := c.wait(); err != nil {
		return 0, err
	}
	n := copy(p, c.held)
	if c.held = c.held[n:]; len(c.held) > 0 {
		return n, nil
	}
	err := c.heldErr
	c.held, c.heldErr = nil, nil
	return n, err
}

// wait waits until the way in is open.
func (c *conn) wait() error {
	for {
		ok, changed := c.network.passes(c.in)
		if ok {
			return nil
		}
		c.mu.Lock()
		deadline, moved := c.deadline, c.moved
		c.mu.Unlock()
		var passed <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			passed = timer.C
		}
		select {
		case <-changed:
		case <-moved:
		case <-passed:
			return os.ErrDeadlineExceeded
		case <-c.closed:
			return net.ErrClosed
		}
	}
}

func (c *conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// CloseWrite ends the stream to the other end, who still may write.
func (c *conn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}
