package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListenFails(t *testing.T) {
	h := newHarness(t).start()
	if _, err := h.s.Listen(ListenerOptions{Name: "X", Address: h.addr}); err == nil {
		t.Fatal("two listeners on one port")
	}
	if _, err := New(Options{}); err == nil {
		t.Fatal("a server without table")
	}
}

func TestConnectionsPerIP(t *testing.T) {
	h, seen := newHarness(t), &reasons{}
	h.opt.Observer = seen
	h.opt.Limits.MaxConnectionsPerIP = 2
	h.start()
	a, b := h.tcp(), h.tcp()
	a.works()
	b.works()
	h.tcp().closed()
	a.works()
	b.Close()
	eventually(t, "room", func() bool { return h.s.Connections("TCP") == 1 })
	h.tcp().works()
	h.s.SetLimits(Limits{MaxConnectionsPerIP: -1, PerIP: map[netip.Addr]int{netip.MustParseAddr("127.0.0.1"): 3}})
	h.tcp().works()
	h.tcp().closed()
	h.s.SetLimits(Limits{MaxConnectionsPerIP: -1})
	h.tcp().closed()
	h.s.Close()
	if len(seen.no) != 3 {
		t.Fatalf("refused: %v", seen.no)
	}
}

// TestMaxConnections: ordinary listeners wait for room, an internal one makes it.
func TestMaxConnections(t *testing.T) {
	h, seen := newHarness(t), &reasons{}
	h.opt.Observer = seen
	h.opt.Limits.MaxConnections = 2
	h.start()
	l, err := h.s.Listen(ListenerOptions{Name: "INTERNAL", Address: "127.0.0.1:0", Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	a, b := h.tcp(), h.tcp()
	a.works()
	b.works()
	a.works() // b is idle for longer
	waiting := h.tcp()
	waiting.send(metadata(9, "alive"))
	_ = waiting.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, _, err := waiting.tryRecv(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("served beyond the limit: %v", err)
	}
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	h.client(nc).works()
	b.closed()
	a.works()
	a.Close()
	_ = waiting.SetReadDeadline(time.Now().Add(5 * time.Second))
	waiting.recv()
	eventually(t, "the reason", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return slices.Contains(seen.why, ClosedEvicted)
	})
}

func TestListenerLimit(t *testing.T) {
	h := newHarness(t)
	h.listen.MaxConnections = 1
	h.start()
	a := h.tcp()
	a.works()
	b := h.tcp()
	b.send(metadata(1))
	h.memory().works() // another listener
	a.Close()
	b.recv()
}

func TestConnectionRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.listen.ConnectionRate = 10
		h.startMemory()
		start := time.Now()
		for range 40 {
			h.memory().works()
		}
		if d := time.Since(start); d < 2800*time.Millisecond || d > 3100*time.Millisecond {
			t.Fatalf("40 connections took %v", d)
		}
		h.s.Close()
	})
}

func TestListenerClose(t *testing.T) {
	h := newHarness(t).start()
	c := h.tcp()
	c.works()
	if err := h.l.Close(); err != nil {
		t.Fatal(err)
	}
	if nc, err := net.Dial("tcp", h.addr); err == nil {
		nc.Close()
		t.Fatal("still accepting")
	}
	c.works()
	h.memory().works()
}

// failingListener fails a few times before it works.
type failingListener struct {
	*MemoryListener
	fails int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.fails > 0 {
		l.fails--
		return nil, errors.New("too many open files")
	}
	return l.MemoryListener.Accept()
}

func TestAcceptErrorsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).startMemory()
		l := &failingListener{NewMemoryListener("x:1"), 10}
		ml, err := h.s.Listen(ListenerOptions{Net: l})
		if err != nil {
			t.Fatal(err)
		}
		if err := ml.Start(); err != nil {
			t.Fatal(err)
		}
		nc, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.client(nc).works()
		h.s.Close()
		nc.Close()
	})
}

// TestControllerListener: rows are served by kind of listener.
func TestControllerListener(t *testing.T) {
	h := newHarness(t)
	h.listen.Kind = ControllerListener
	c := h.startMemory().memory()
	r := kmsg.NewPtrApiVersionsRequest()
	resp := c.ask(r).(*kmsg.ApiVersionsResponse)
	if len(resp.ApiKeys) != 2 || resp.ApiKeys[0].ApiKey != 1 || resp.ApiKeys[1].ApiKey != 18 {
		t.Fatalf("got %+v", resp.ApiKeys)
	}
	c.send(metadata(1))
	c.closed()
}

// TestManyConnections holds 2,000 connections, all of which are served.
func TestManyConnections(t *testing.T) {
	const n = 2000
	h := newHarness(t).start()
	cs := make([]*client, n)
	for i := range cs {
		if cs[i] = h.memory(); i%4 == 0 && i < 1200 { // descriptors are scarce
			cs[i].Close()
			cs[i] = h.tcp()
		}
	}
	eventually(t, "all are there", func() bool { return h.s.Connections("") == n })
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := g; i < n; i += 20 {
				r := metadata(9, "x")
				if _, err := cs[i].Write(cs[i].frame(r)); err != nil {
					t.Error(err)
				}
			}
			for i := g; i < n; i += 20 {
				if id, _, err := cs[i].tryRecv(); err != nil || id != 1 {
					t.Error(id, err)
				}
			}
		})
	}
	wg.Wait()
	for _, c := range cs {
		c.Close()
	}
	eventually(t, "all are gone", func() bool { return h.s.Connections("") == 0 })
}

// TestMemoryConn checks what the standard library's connections promise.
func TestMemoryConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe("a:1", "b:2")
		if a.LocalAddr().String() != "a:1" || a.RemoteAddr().String() != "b:2" || b.LocalAddr().String() != "b:2" {
			t.Fatal("addresses")
		}
		// Writing blocks when the pipe is full, and a deadline ends it with the count of what went in.
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, pipeBytes+10))
		if n != pipeBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d, %v", n, err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		// A reader makes room.
		go func() { _, _ = io.ReadFull(b, make([]byte, pipeBytes+5)) }()
		if n, err := a.Write(make([]byte, 5)); n != 5 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		synctest.Wait()
		// Reading has deadlines of its own, which can be moved.
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		start := time.Now()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatal(err)
		}
		var ne net.Error
		_, err = b.Read(make([]byte, 1))
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Fatalf("not a timeout: %v", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		// Half close, then full close.
		_, _ = a.Write([]byte("end"))
		_ = a.(*memoryConn).CloseWrite()
		if got, err := io.ReadAll(b); string(got) != "end" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := b.Write([]byte("reply")); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(a); string(got) != "reply" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Fatal("writing to a closed peer works")
		}
		_ = a.Close()
	})
}

func TestMemoryDial(t *testing.T) {
	l := NewMemoryListener("x:1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := l.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
