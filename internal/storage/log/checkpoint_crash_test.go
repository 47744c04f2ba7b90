package log

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// memDir makes a disk with one durable directory, d.
func memDir(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(vfs.MemOptions{})
	if err := errors.Join(m.MkdirAll("/d"), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return m
}

func someOffsets(n int, offset kafka.Offset) offsetMap {
	out := offsetMap{}
	for i := range n {
		out[tp(fmt.Sprintf("topic.%d", i), int32(i))] = offset + kafka.Offset(i)
	}
	return out
}

// TestAtomicWriteCrash cuts the power at each call of a write, several ways: the file holds its old or its new content
// whole, and the new one if the write was reported done.
func TestAtomicWriteCrash(t *testing.T) {
	const seeds = 40
	before, after := someOffsets(40, 100), someOffsets(300, 5000)
	for _, first := range []bool{true, false} {
		for at, done := int64(1), false; !done; at++ {
			m := memDir(t)
			old := offsetMap{}
			if !first {
				old = before
				if err := WriteCheckpoint(m, "/d/c", old); err != nil {
					t.Fatal(err)
				}
			}
			m.CrashAt(m.Calls() + at)
			done = WriteCheckpoint(m, "/d/c", after) == nil
			if done && m.Crashed() {
				t.Fatal("reported done although the disk was gone")
			}
			for seed := range uint64(seeds) {
				rnd := rand.New(rand.NewPCG(seed, uint64(at)))
				keep := vfs.KeepSome(rnd)
				got, err := ReadCheckpoint(m.CrashClone(rnd, keep), "/d/c")
				if err != nil {
					t.Fatalf("call %d, seed %d: %v", at, seed, err)
				}
				if isNew := maps.Equal(got, after); !isNew && (done || !maps.Equal(got, old)) {
					t.Fatalf("call %d, seed %d, reported done %v: %d entries", at, seed, done, len(got))
				}
			}
		}
	}
}

// TestAtomicWriteFaults lets each kind of call fail once: the failure is reported, nothing is retried, the old content
// stays unless only the name's durability is in doubt, and the next write works.
func TestAtomicWriteFaults(t *testing.T) {
	for _, rule := range []string{
		"create *.tmp 1 error EMFILE", "write *.tmp 1 error EIO", "write *.tmp 1 short 5 ENOSPC", "sync *.tmp 1 error EIO",
		"close *.tmp 1 error EIO", "rename * 1 error EIO", "syncdir * 1 error EIO",
	} {
		m := memDir(t)
		old, now := someOffsets(3, 1), someOffsets(4, 9)
		if err := WriteCheckpoint(m, "/d/c", old); err != nil {
			t.Fatal(err)
		}
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		err = WriteCheckpoint(f, "/d/c", now)
		if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v", rule, err)
		}
		got, err := ReadCheckpoint(m, "/d/c")
		if err != nil || !maps.Equal(got, old) && rule[:7] != "syncdir" {
			t.Errorf("%s leaves %v %v", rule, got, err)
		}
		if _, err := m.Stat("/d/c.tmp"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s leaves the temporary file: %v", rule, err)
		}
		if err := WriteCheckpoint(f, "/d/c", now); err != nil {
			t.Errorf("after %s: %v", rule, err)
		}
		if got, err := ReadCheckpoint(m, "/d/c"); err != nil || !maps.Equal(got, now) {
			t.Errorf("after %s: %v %v", rule, got, err)
		}
	}
}

func TestReadFaults(t *testing.T) {
	m := memDir(t)
	if err := WriteCheckpoint(m, "/d/c", someOffsets(3, 1)); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"open * error EACCES", "read * error EIO", "read * short 4"} {
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCheckpoint(f, "/d/c"); err == nil || isFormatError(err) {
			t.Errorf("%s: %v %v; a disk that does not answer is no malformed file", rule, got, err)
		}
	}
}
