package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/promise"
	"moldau/internal/storage/vfs"
)

// bigFile makes a file of n random bytes.
func bigFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, b
}

// TestSegments sends heads and file ranges in turn, over TCP with and without sendfile and in memory, to
// readers of different speed, and compares every byte.
func TestSegments(t *testing.T) {
	f, content := bigFile(t, 10<<20)
	shapes := []struct {
		name  string
		parts [][2]int64
	}{
		{"one byte", [][2]int64{{77, 1}}},
		{"just copied", [][2]int64{{5, copyBelow}}},
		{"just sent", [][2]int64{{5, copyBelow + 1}}},
		{"whole", [][2]int64{{0, 10 << 20}}},
		{"two ranges", [][2]int64{{1 << 20, 3 << 20}, {100, 200_000}}},
		{"many", [][2]int64{{0, 100}, {1000, 50_000}, {7, 3}, {1 << 20, 1 << 20}, {9, 20_000}, {8, 10}}},
		{"empty", nil},
	}
	for _, way := range []string{"sendfile", "pread", "memory"} {
		h := newHarness(t)
		src := &file{f: f, sendable: way != "pread"}
		var which, released atomic.Int32
		h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
			e := &extents{src, shapes[which.Load()].parts}
			return promise.Done(Reply{
				Segments: []Segment{
					{Bytes: []byte("head")}, {Extents: e}, {Bytes: []byte("middle"), Extents: e},
					{Bytes: content[:20_000]}, {Bytes: []byte("x")}, {Extents: e}, {Bytes: content[:30_000]},
				},
				Release: func() { released.Add(1) },
			})
		}
		h.start()
		c := h.tcp()
		if way == "memory" {
			c = h.memory()
		}
		for i, shape := range shapes {
			for _, slow := range []bool{false, true} {
				which.Store(int32(i))
				var e []byte
				for _, p := range shape.parts {
					e = append(e, content[p[0]:p[0]+p[1]]...)
				}
				want := bytes.Join([][]byte{[]byte("\x00head"), e, []byte("middle"), e, content[:20_000], []byte("x"), e, content[:30_000]}, nil)
				before := released.Load()
				c.send(fetch())
				if got := recvAt(t, c, slow); !bytes.Equal(got, want) {
					t.Fatalf("%s, %s, slow %v: %d bytes differ from %d", way, shape.name, slow, len(got), len(want))
				}
				eventually(t, "released", func() bool { return released.Load() == before+1 })
				c.works() // the stream is still in step
			}
		}
	}
}

// recvAt reads a reply, slowly if told so: small reads with pauses at the beginning, so that the socket fills
// up.
func recvAt(t *testing.T, c *client, slow bool) []byte {
	if !slow {
		_, b := c.recv()
		return b
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	n := 0
	for pauses := 0; n < len(b); pauses++ {
		if pauses < 20 {
			time.Sleep(2 * time.Millisecond)
		}
		k, err := c.Read(b[n:min(len(b), n+30_000)])
		if n += k; err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// liar says that it can be sent, with a descriptor the kernel refuses.
type liar struct {
	file
	fd uintptr
}

func (l *liar) Sendable() (uintptr, bool) { return l.fd, true }

// TestSendfileFallback copies what the kernel cannot send. Any other error of the file ends the connection.
func TestSendfileFallback(t *testing.T) {
	f, content := bigFile(t, 1<<20)
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var fd atomic.Uintptr
	fd.Store(dir.Fd())
	h := newHarness(t)
	h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
		e := &extents{&liar{file{f: f}, fd.Load()}, [][2]int64{{0, 1 << 20}}}
		return promise.Done(Reply{Segments: []Segment{{Bytes: []byte("h"), Extents: e}}})
	}
	c := h.start().tcp()
	c.send(fetch())
	_, b := c.recv()
	if !bytes.Equal(b[2:], content) {
		t.Fatalf("%d bytes differ", len(b))
	}
	if runtime.GOOS != "linux" {
		return
	}
	fd.Store(1 << 30) // no such descriptor
	c.send(fetch())
	if _, _, err := c.tryRecv(); err == nil {
		t.Fatal("got a whole reply")
	}
}

// TestShortFile: a range behind the end of its file closes the connection, since the frame cannot be
// finished.
func TestShortFile(t *testing.T) {
	f, content := bigFile(t, 1<<20)
	for _, sendable := range []bool{true, false} {
		for _, part := range [][2]int64{{1<<20 - 100_000, 200_000}, {1<<20 - 10, 20}, {2 << 20, 100_000}} {
			h, seen := newHarness(t), &reasons{}
			h.opt.Observer = seen
			released := make(chan int, 1)
			h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
				e := &extents{&file{f: f, sendable: sendable}, [][2]int64{part}}
				return promise.Done(Reply{Segments: []Segment{{Extents: e}}, Release: func() { released <- 1 }})
			}
			c := h.start().tcp()
			c.send(fetch())
			if _, b, err := c.tryRecv(); err == nil {
				t.Fatalf("got a whole reply of %d bytes", len(b))
			}
			<-released
			c.Close()
			eventually(t, "the reason", func() bool { return seen.last() == "send-failed" })
			h.tcp().works()
		}
	}
	_ = content
}

// wrongSize says more than it has.
type wrongSize struct{ extents }

func (w *wrongSize) Size() int { return w.extents.Size() + 5 }

func TestWrongSize(t *testing.T) {
	f, _ := bigFile(t, 1<<20)
	h := newHarness(t)
	h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
		e := &wrongSize{extents{&file{f: f}, [][2]int64{{0, 100}}}}
		return promise.Done(Reply{Segments: []Segment{{Extents: e}}})
	}
	c := h.start().tcp()
	c.send(fetch())
	if _, _, err := c.tryRecv(); err == nil {
		t.Fatal("got a whole reply")
	}
}

// TestPeerGoesAwayWhileSending: the extents are released, and nobody else notices.
func TestPeerGoesAwayWhileSending(t *testing.T) {
	f, _ := bigFile(t, 24<<20)
	for _, sendable := range []bool{true, false} {
		h := newHarness(t)
		released := make(chan int, 1)
		h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
			e := &extents{&file{f: f, sendable: sendable}, [][2]int64{{0, 24 << 20}}}
			return promise.Done(Reply{Segments: []Segment{{Extents: e}}, Release: func() { released <- 1 }})
		}
		c := h.start().tcp()
		c.send(fetch())
		_, _ = io.ReadFull(c, make([]byte, 1000))
		c.Close()
		<-released
		h.tcp().works()
	}
}

// TestRepliesShareWrites counts the reads a client needs for many small replies that were ready together.
func TestRepliesShareWrites(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce = p.handle
	c := h.start().memory()
	for range 50 {
		c.send(produce("t", nil))
	}
	p.wait(49)
	for i := 49; i >= 0; i-- {
		p.wait(i).Set(produced())
	}
	first, err := c.Read(make([]byte, 64<<10))
	if err != nil || first != 50*15 {
		t.Fatalf("the first read gave %d bytes, %v", first, err)
	}
}

// TestWriteErrorKeepsReading: requests that a client sent before it stopped reading are still handled.
func TestWriteErrorKeepsReading(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce = p.handle
	c := h.start().memory()
	var all []byte
	for range 10 {
		all = append(all, c.frame(produce("t", nil))...)
	}
	h.fetch = answerProduce
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	p.wait(9)
	c.Close()
	for i := range 10 {
		p.wait(i).Set(produced())
	}
	eventually(t, "the end", func() bool { return h.s.Connections("") == 0 })
}

var _ Extents = (*extents)(nil)
var _ vfs.File = (*file)(nil)
