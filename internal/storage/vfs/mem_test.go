package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func freeOf(t *testing.T, m *Mem) int64 {
	t.Helper()
	n, err := m.Free("/")
	must(t, err)
	return n
}

func TestMemFullDisk(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 3 * pageSize})
	f := open(t, m, "/f", os.O_CREATE|os.O_RDWR)
	write(t, f, strings.Repeat("a", 100))
	if got := freeOf(t, m); got != 2*pageSize {
		t.Fatalf("%d bytes free", got)
	}
	n, err := f.Write(bytes.Repeat([]byte("b"), 4*pageSize)) // the part that fits is written
	if n != 3*pageSize-100 || !IsNoSpace(err) {
		t.Fatal(n, err)
	}
	if size, _ := f.Size(); size != 3*pageSize || freeOf(t, m) != 0 {
		t.Fatal(size, freeOf(t, m))
	}
	if n, err := f.Write([]byte("c")); n != 0 || !IsNoSpace(err) {
		t.Fatal(n, err)
	}
	writeAt(t, f, "over", 50) // in place there is room
	must(t, f.Sync())
	put(t, m, "/empty", "") // names take none
	g := open(t, m, "/empty", os.O_RDWR)
	if n, err := g.Write([]byte("c")); n != 0 || !IsNoSpace(err) {
		t.Fatal(n, err)
	}

	must(t, f.Truncate(2*pageSize+1))
	if got := freeOf(t, m); got != 0 {
		t.Fatalf("%d bytes free", got)
	}
	must(t, f.Truncate(pageSize))
	if got := freeOf(t, m); got != 2*pageSize {
		t.Fatalf("%d bytes free", got)
	}
	must(t, m.Remove("/f")) // still open
	if got := freeOf(t, m); got != 2*pageSize {
		t.Fatalf("%d bytes free", got)
	}
	must(t, f.Close())
	if got := freeOf(t, m); got != 3*pageSize {
		t.Fatalf("%d bytes free", got)
	}
	m.SetCapacity(0)
	write(t, g, strings.Repeat("x", 10*pageSize))
	m.SetCapacity(pageSize)
	if got := freeOf(t, m); got != 0 {
		t.Fatalf("%d bytes free", got)
	}
}

// TestMemSpaceOfClones: a clone counts what it holds, and a removed file that a crash brings back.
func TestMemSpaceOfClones(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 10 * pageSize})
	f := open(t, m, "/f", os.O_CREATE|os.O_RDWR)
	write(t, f, strings.Repeat("a", 4*pageSize))
	must(t, errors.Join(f.Sync(), m.SyncDir("/"), f.Close(), m.Remove("/f")))
	put(t, m, "/g", "unsynced")
	if got := freeOf(t, m); got != 9*pageSize {
		t.Fatal(got / pageSize)
	}
	if got := freeOf(t, m.KillClone()); got != 9*pageSize {
		t.Fatal(got / pageSize)
	}
	if got := freeOf(t, m.CrashClone(rand.New(rand.NewPCG(1, 1)), CrashOptions{})); got != 6*pageSize {
		t.Fatal(got / pageSize)
	}
}

func TestMemSparse(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 100 * pageSize})
	f := open(t, m, "/f", os.O_CREATE|os.O_RDWR)
	must(t, f.Truncate(10<<20)) // as an index file is preallocated
	writeAt(t, f, "x", 5<<20)
	if got := freeOf(t, m); got != 99*pageSize {
		t.Fatal(got)
	}
	must(t, f.Sync())
	c := m.CrashClone(rand.New(rand.NewPCG(1, 1)), KeepAll())
	if got := readOr(c, "/f"); len(got) != 10<<20 || strings.Trim(got, "\x00") != "x" {
		t.Fatal(len(got))
	}
}

// TestMemForgetsSettledChanges: what is durable must not be remembered, or a long run would eat the memory.
func TestMemForgetsSettledChanges(t *testing.T) {
	m := NewMem(MemOptions{})
	for i := range 1000 {
		f := open(t, m, "/f.tmp", os.O_CREATE|os.O_RDWR)
		write(t, f, fmt.Sprint(i))
		must(t, errors.Join(f.Sync(), f.Close(), m.Rename("/f.tmp", "/f"), m.SyncDir("/")))
	}
	must(t, m.MkdirAll("/d"))
	put(t, m, "/d/1", "x")
	put(t, m, "/d/2", "x")
	must(t, errors.Join(m.RemoveAll("/d"), m.SyncDir("/"))) // with what was pending in it
	if d := m.root.dir; len(m.pending)+len(d.pending)+len(d.last)+len(m.dirtyFiles) > 4 {
		t.Fatal(len(m.pending), len(d.pending), len(d.last), len(m.dirtyFiles))
	}
	if used := m.space.used.Load(); used != 1 {
		t.Fatalf("%d pages in use", used)
	}
}

func TestMemClock(t *testing.T) {
	now := time.Unix(1000, 0)
	m := NewMem(MemOptions{Now: func() time.Time { return now }})
	put(t, m, "/f", "x")
	now = now.Add(time.Hour)
	for _, c := range []*Mem{m, m.KillClone()} {
		put(t, c, "/g", "x")
		f, _ := c.Stat("/f")
		g, _ := c.Stat("/g")
		if f.ModTime != time.Unix(1000, 0) || g.ModTime != now {
			t.Fatal(f, g)
		}
	}
}

// TestMemConcurrent has every kind of call in flight at once, for the race detector, and checks the appends.
func TestMemConcurrent(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 1 << 30})
	const writers, rounds = 4, 200
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			name := fmt.Sprintf("/w%d", w)
			f, err := m.Open(name, os.O_CREATE|os.O_RDWR|os.O_APPEND)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for i := range rounds {
				_, err := f.Write(bytes.Repeat([]byte{byte(i)}, 1000))
				if err == nil && i%7 == 0 {
					err = f.Sync()
				}
				if err == nil && i%11 == 0 {
					err = errors.Join(m.Rename(name, name+"x"), m.Rename(name+"x", name), m.SyncDir("/"))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 1))
		for i := range rounds {
			switch i % 5 {
			case 0:
				m.CrashClone(rnd, some())
			case 1:
				m.SyncAll("/")
			case 2:
				put(t, m.KillClone(), "/k", "x")
			case 3:
				m.Evict("/w0")
				m.Free("/")
			case 4:
				m.ReadDir("/")
				m.FailWriteback("/none")
			}
		}
	})
	all.Go(func() {
		for range rounds {
			if f, err := m.Open("/w1", os.O_RDONLY); err == nil {
				size, _ := f.Size()
				b := make([]byte, size)
				if n, err := f.ReadAt(b, 0); n != len(b) {
					t.Error(n, err)
				}
				f.Close()
			}
		}
	})
	all.Wait()
	for w := range writers {
		got := readOr(m, fmt.Sprintf("/w%d", w))
		for i := range rounds {
			if got[i*1000] != byte(i) || got[i*1000+999] != byte(i) {
				t.Fatal("an append is wrong")
			}
		}
	}
}

func BenchmarkMemAppend(b *testing.B) {
	for _, size := range []int{100, 4096, 256 << 10} {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/sync=%v", size, sync), func(b *testing.B) {
				m := NewMem(MemOptions{})
				f, _ := m.Open("/f", os.O_CREATE|os.O_RDWR|os.O_APPEND)
				p := make([]byte, size)
				b.SetBytes(int64(size))
				n := 0
				for b.Loop() {
					f.Write(p)
					if sync {
						f.Sync()
					}
					if n += size; n > 64<<20 {
						f.Truncate(0)
						f.Sync()
						n = 0
					}
				}
			})
		}
	}
}

func BenchmarkCrashClone(b *testing.B) {
	m := NewMem(MemOptions{})
	for i := range 100 {
		f, _ := m.Open(fmt.Sprintf("/%d", i), os.O_CREATE|os.O_RDWR)
		f.Write(make([]byte, 10_000))
		f.Sync()
		f.Write(make([]byte, 1000))
	}
	m.SyncDir("/")
	rnd := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		m.CrashClone(rnd, some())
	}
}
