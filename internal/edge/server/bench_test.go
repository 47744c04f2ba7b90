package server

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/promise"
)

// pump sends a frame b.N times with a window of requests in flight and reads the replies, which must all be
// of the same length.
func pump(b *testing.B, c *client, r kmsg.Request, window int) {
	frame := c.frame(r)
	if _, err := c.Write(frame); err != nil {
		b.Fatal(err)
	}
	_, body := c.recv()
	reply := 8 + len(body)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	b.ResetTimer()
	slots, finished := make(chan struct{}, window), make(chan struct{})
	go func() {
		defer close(finished)
		buf := make([]byte, 1<<20)
		for read, done := 0, 0; done < b.N; {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			for read += n; read >= reply && done < b.N; read -= reply {
				<-slots
				done++
			}
		}
	}()
	for range b.N {
		slots <- struct{}{}
		if _, err := c.Write(frame); err != nil {
			b.Fatal(err)
		}
	}
	<-finished
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"100B", 100}, {"16KiB", 16 << 10}, {"256KiB", 256 << 10}} {
		for _, window := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/window%d", size.name, window), func(b *testing.B) {
				h := newHarness(b)
				c := h.start().tcp()
				pump(b, c, produce("topic", make([]byte, size.n)), window)
				c.Close()
				h.s.Close()
			})
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	h := newHarness(b)
	c := h.start().memory()
	pump(b, c, produce("topic", make([]byte, 16<<10)), 10)
	c.Close()
	h.s.Close()
}

// BenchmarkFetch answers with a head and one range of a file.
func BenchmarkFetch(b *testing.B) {
	const length = 256 << 20 // more than the processor's caches hold
	f, _ := bigFile(b, length)
	for _, way := range []string{"sendfile", "pread"} {
		for _, n := range []int64{4 << 10, 16 << 10, 64 << 10, 1 << 20} {
			b.Run(way+"/"+byteName(n), func(b *testing.B) {
				h := newHarness(b)
				src := &file{f: f, sendable: way == "sendfile"}
				if n <= copyBelow {
					src.sendable = false
				}
				head, pos := make([]byte, 60), int64(0)
				h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] {
					if pos += n; pos+n > length {
						pos = 0
					}
					return promise.Done(Reply{Segments: []Segment{{Bytes: head, Extents: &extents{src, [][2]int64{{pos, n}}}}}})
				}
				c := h.start().tcp()
				frame := c.frame(fetch())
				total := 8 + 1 + 60 + n
				b.SetBytes(n)
				b.ReportAllocs()
				buf := make([]byte, 1<<20)
				for b.Loop() {
					if _, err := c.Write(frame); err != nil {
						b.Fatal(err)
					}
					for left := total; left > 0; {
						k, err := c.Read(buf[:min(left, int64(len(buf)))])
						if err != nil {
							b.Fatal(err)
						}
						left -= int64(k)
					}
				}
				c.Close()
				h.s.Close()
			})
		}
	}
}

func byteName(n int64) string {
	if n >= 1<<20 {
		return "1MiB"
	}
	return map[int64]string{4 << 10: "4KiB", 16 << 10: "16KiB", 64 << 10: "64KiB"}[n]
}

// BenchmarkLimit is what the same exchange costs without a server: read a frame, write a reply.
func BenchmarkLimit(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	r := produce("topic", make([]byte, 16<<10))
	size := len((&client{}).frame(r))
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf := make([]byte, size)
		for {
			if _, err := io.ReadFull(nc, buf); err != nil {
				return
			}
			if _, err := nc.Write([]byte{0, 0, 0, 11, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0}); err != nil {
				return
			}
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	pump(b, &client{Conn: nc, t: b}, r, 10)
}

func BenchmarkScan(b *testing.B) {
	r := produce("topic", make([]byte, 16<<10))
	body, s := r.AppendTo(nil), schemaFor(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.scan(body, 11, wide); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkBudget(b *testing.B) {
	budget, never := NewBudget(BudgetOptions{}), make(chan struct{})
	for b.Loop() {
		var l Lease
		budget.start(&l, classBulk, 1000, never, never)
		l.Release()
	}
}
