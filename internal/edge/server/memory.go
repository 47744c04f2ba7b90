package server

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// pipeBytes is how much one direction of an in-memory connection holds before writing blocks.
const pipeBytes = 64 << 10

// MemoryListener is a net.Listener whose connections never leave the process, for embedding and for tests. It
// works inside a testing/synctest bubble.
type MemoryListener struct {
	addr    memoryAddr
	backlog chan net.Conn
	done    chan struct{}
	once    sync.Once
	dialed  atomic.Uint32
}

// memoryAddr is host:port, as clients expect of an address.
type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// NewMemoryListener makes a listener that calls itself addr, in the form host:port.
func NewMemoryListener(addr string) *MemoryListener {
	return &MemoryListener{addr: memoryAddr(addr), backlog: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener; it waits until the connection is accepted.
func (l *MemoryListener) Dial(ctx context.Context) (net.Conn, error) {
	// Clients get loopback addresses with a number of their own, so that logs can tell them apart.
	peer := memoryAddr("127.0.0.1:" + strconv.Itoa(int(l.dialed.Add(1)%65535)+1))
	client, server := newPipe(peer, l.addr)
	refused := &net.OpError{Op: "dial", Net: "memory", Addr: l.addr, Err: net.ErrClosed}
	select {
	case <-l.done:
		return nil, refused
	default:
	}
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next Dial.
func (l *MemoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "memory", Addr: l.addr, Err: net.ErrClosed}
	}
}

// Close makes Accept and Dial fail. Connections stay.
func (l *MemoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr gives the name the listener was made with.
func (l *MemoryListener) Addr() net.Addr { return l.addr }

// Pipe makes the two ends of a connection in memory. a and b are what they call themselves, in the form host:port.
func Pipe(a, b string) (net.Conn, net.Conn) { return newPipe(memoryAddr(a), memoryAddr(b)) }

// newPipe makes the two ends of a buffered connection.
func newPipe(a, b memoryAddr) (net.Conn, net.Conn) {
	ab, ba := newHalf(), newHalf()
	return &memoryConn{in: ba, out: ab, local: a, remote: b}, &memoryConn{in: ab, out: ba, local: b, remote: a}
}

// half is one direction: bytes between a writer and a reader.
type half struct {
	mu   sync.Mutex
	cond *sync.Cond
	b    []byte
	r    int
	// eof: the writer will write no more; cut: the reader will read no more.
	eof, cut              bool
	readLimit, writeLimit limit
}

// limit is a deadline of one side.
type limit struct {
	passed bool
	timer  *time.Timer
}

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.cut:
			return 0, net.ErrClosed
		case h.readLimit.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case h.r < len(h.b):
			n := copy(p, h.b[h.r:])
			if h.r += n; h.r == len(h.b) {
				h.b, h.r = h.b[:0], 0
			}
			h.cond.Broadcast()
			return n, nil
		case h.eof:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.eof:
			return n, net.ErrClosed
		case h.cut:
			return n, io.ErrClosedPipe
		case h.writeLimit.passed:
			return n, os.ErrDeadlineExceeded
		case len(p) == 0:
			return n, nil
		}
		if room := pipeBytes - (len(h.b) - h.r); room > 0 {
			if h.r > 0 && len(h.b)+len(p) > cap(h.b) {
				h.b = h.b[:copy(h.b, h.b[h.r:])]
				h.r = 0
			}
			k := min(room, len(p))
			h.b = append(h.b, p[:k]...)
			n, p = n+k, p[k:]
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// set changes flags under the lock and wakes both sides.
func (h *half) set(f func()) {
	h.mu.Lock()
	f()
	h.cond.Broadcast()
	h.mu.Unlock()
}

// setLimit arms a deadline; the zero time disarms it.
func (h *half) setLimit(l *limit, t time.Time) {
	h.set(func() {
		if l.timer != nil {
			l.timer.Stop()
			l.timer = nil
		}
		l.passed = false
		if t.IsZero() {
			return
		}
		d := time.Until(t)
		if d <= 0 {
			l.passed = true
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(d, func() {
			h.set(func() {
				if l.timer == timer {
					l.passed = true
				}
			})
		})
		l.timer = timer
	})
}

// memoryConn is one end of a connection.
type memoryConn struct {
	in, out       *half
	local, remote memoryAddr
}

func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *memoryConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *memoryConn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Source: c.local, Addr: c.remote, Err: err}
}

// CloseWrite ends the stream to the peer, who still may write.
func (c *memoryConn) CloseWrite() error {
	c.out.set(func() { c.out.eof = true })
	return nil
}

func (c *memoryConn) Close() error {
	_ = c.CloseWrite()
	c.in.set(func() { c.in.cut, c.in.b, c.in.r = true, nil, 0 })
	_ = c.SetDeadline(time.Time{})
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.setLimit(&c.in.readLimit, t)
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.setLimit(&c.out.writeLimit, t)
	return nil
}
