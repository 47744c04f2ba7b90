package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tries is how many crashes a test draws to find what may happen and to trust what may not.
const tries = 400

// some is a middling power cut.
func some() CrashOptions { return CrashOptions{Blocks: 0.5, Torn: 0.2, Sizes: 0.5, Names: 0.5} }

// outcomes collects what look says of many crashes of m.
func outcomes(m *Mem, keep CrashOptions, look func(*Mem) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(tries) {
		seen[look(m.CrashClone(rand.New(rand.NewPCG(seed, 0)), keep))]++
	}
	return seen
}

// wantOutcomes fails unless every one of want was seen; only: and nothing else.
func wantOutcomes(t *testing.T, seen map[string]int, only bool, want ...string) {
	t.Helper()
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("the disk is too kind: never %s, only %v", clip(w), clipKeys(seen))
		}
	}
	if only && len(seen) != len(want) {
		t.Errorf("the disk is too cruel: want only %q, got %v", want, clipKeys(seen))
	}
}

func clipKeys(seen map[string]int) []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		keys = append(keys, clip(k))
	}
	return keys[:min(len(keys), 20)]
}

// dump lists a whole file system.
func dump(m *Mem) string {
	var b strings.Builder
	dumpTree(&b, m, "")
	return b.String()
}

func dumpTree(b *strings.Builder, m *Mem, dir string) {
	entries, err := m.ReadDir("/" + dir)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		name := dir + "/" + e.Name
		if e.IsDir {
			fmt.Fprintf(b, "%s/\n", name)
			dumpTree(b, m, name)
			continue
		}
		fmt.Fprintf(b, "%s %q\n", name, readOr(m, name))
	}
}

// names lists the file names of the root, joined.
func names(m *Mem) string {
	entries, err := m.ReadDir("/")
	if err != nil {
		panic(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return strings.Join(list, " ")
}

// readOr gives a file's contents, or "-" if it is not there.
func readOr(m *Mem, name string) string {
	f, err := m.Open(name, os.O_RDONLY)
	if err != nil {
		return "-"
	}
	defer f.Close()
	size, _ := f.Size()
	p := make([]byte, size)
	f.ReadAt(p, 0)
	return string(p)
}

func look(name string) func(*Mem) string { return func(m *Mem) string { return readOr(m, name) } }

// durable makes a Mem with one file, all of it on the disk, and gives an open handle.
func durable(t *testing.T, name, content string) (*Mem, File) {
	t.Helper()
	m := NewMem(MemOptions{})
	f := open(t, m, name, os.O_CREATE|os.O_RDWR)
	write(t, f, content)
	must(t, errors.Join(f.Sync(), m.SyncDir("/")))
	return m, f
}

func write(t *testing.T, f File, content string) {
	t.Helper()
	n, err := f.Write([]byte(content))
	if n != len(content) || err != nil {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(content), err)
	}
}

func writeAt(t *testing.T, f File, content string, off int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(content), off)
	must(t, err)
}

func sector(c byte) string { return strings.Repeat(string(c), sectorSize) }

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem(MemOptions{})
	must(t, m.MkdirAll("/d/e"))
	put(t, m, "/d/e/f", "content")
	f := open(t, m, "/d/e/f", os.O_RDWR|os.O_APPEND)
	write(t, f, strings.Repeat("x", 10_000))
	for _, err := range []error{f.Sync(), m.SyncDir("/d/e"), m.SyncDir("/d"), m.SyncDir("/")} {
		must(t, err)
	}
	want := dump(m)
	write(t, f, strings.Repeat("y", 10_000)) // in the same block too: the old bytes of it stay
	for _, keep := range []CrashOptions{{}, some(), KeepAll()} {
		seen := outcomes(m, keep, func(c *Mem) string {
			return fmt.Sprint(strings.HasPrefix(dump(c), want[:len(want)-2]))
		})
		wantOutcomes(t, seen, true, "true")
	}
}

func TestCrashLosesUnsyncedNames(t *testing.T) {
	m := NewMem(MemOptions{})
	f := open(t, m, "/f", os.O_CREATE|os.O_RDWR)
	write(t, f, "data")
	must(t, f.Sync()) // the contents, not the name
	wantOutcomes(t, outcomes(m, some(), look("/f")), true, "-", "data")
	wantOutcomes(t, outcomes(m, CrashOptions{Blocks: 1, Sizes: 1}, look("/f")), true, "-")

	_, err := m.SyncAll("/") // contents only, as well
	must(t, err)
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/f")), true, "-")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/f")), true, "data")
}

func TestCrashLosesUnsyncedParents(t *testing.T) {
	m := NewMem(MemOptions{})
	must(t, m.MkdirAll("/d/e"))
	put(t, m, "/d/e/f", "")
	must(t, m.SyncDir("/d/e")) // f's name in e, not e's in d
	wantOutcomes(t, outcomes(m, some(), dump), true, "", "/d/\n", "/d/\n/d/e/\n/d/e/f \"\"\n")
	must(t, m.SyncDir("/d"))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "/d/\n/d/e/\n/d/e/f \"\"\n")
}

func TestCrashKeepsNamesOutOfOrder(t *testing.T) {
	m := NewMem(MemOptions{})
	put(t, m, "/1", "")
	put(t, m, "/2", "")
	wantOutcomes(t, outcomes(m, some(), names), true, "", "1", "2", "1 2")
}

// TestCrashOfAnAppend: the size without the data, a part of the data, the data without the size.
func TestCrashOfAnAppend(t *testing.T) {
	m, f := durable(t, "/f", sector('0'))
	write(t, f, sector('1')+sector('2'))
	zero := sector(0)
	seen := outcomes(m, CrashOptions{Blocks: 0.5, Sizes: 0.5}, look("/f"))
	wantOutcomes(t, seen, false,
		sector('0'),                         // nothing of it
		sector('0')+zero+zero,               // grown, but zeros
		sector('0')+sector('1')+zero,        // the end is missing
		sector('0')+zero+sector('2'),        // later kept, earlier lost
		sector('0')+sector('1')+sector('2'), // all
	)
	odd := 0
	for s := range seen {
		if !strings.HasPrefix(s, sector('0')) {
			t.Errorf("synced bytes are gone: %s", clip(s))
		}
		if len(s)%sectorSize != 0 {
			odd++
		}
	}
	if odd < 20 {
		t.Errorf("only %d sizes inside of a block", odd)
	}
	wantOutcomes(t, outcomes(m, CrashOptions{Blocks: 1}, look("/f")), true, sector('0'))
	wantOutcomes(t, outcomes(m, CrashOptions{Sizes: 1}, look("/f")), true, sector('0')+zero+zero)
	wantOutcomes(t, outcomes(m, KeepAll(), look("/f")), true, sector('0')+sector('1')+sector('2'))
}

func TestCrashTearsBlocks(t *testing.T) {
	m, f := durable(t, "/f", sector('a'))
	writeAt(t, f, sector('b'), 0)
	heads, tails := 0, 0
	keep := CrashOptions{Blocks: 1, Torn: 0.5, Sizes: 1}
	for s := range outcomes(m, keep, look("/f")) {
		rest := strings.TrimLeft(s, s[:1])
		if strings.Trim(rest, string(s[len(s)-1])) != "" || strings.Trim(s, "ab") != "" {
			t.Fatalf("more than one tear, or foreign bytes: %q", s)
		}
		switch {
		case rest == "":
		case s[0] == 'b':
			heads++
		default:
			tails++
		}
	}
	if heads < 20 || tails < 20 {
		t.Errorf("%d blocks with a new head, %d with a new tail", heads, tails)
	}
	keep.Torn = 0
	wantOutcomes(t, outcomes(m, keep, look("/f")), true, sector('b'))
}

// TestCrashLeavesWholeRecordsBehindHoles: a long intact stretch after a lost one, which a scan must not reach.
func TestCrashLeavesWholeRecordsBehindHoles(t *testing.T) {
	m, f := durable(t, "/f", "")
	record := func(c byte) string { return strings.Repeat(string(c), 40*sectorSize) }
	write(t, f, record('1')+record('2')+record('3'))
	seen := outcomes(m, CrashOptions{Blocks: 0.5, Sizes: 1}, func(c *Mem) string {
		s := readOr(c, "/f")
		return fmt.Sprint(!strings.HasPrefix(s, record('1')), s[len(s)-40*sectorSize:] == record('3'))
	})
	wantOutcomes(t, seen, true, "true true", "true false", "false true", "false false")
}

func TestCrashKeepsLaterFileAndLosesEarlier(t *testing.T) {
	m, a := durable(t, "/a", "")
	b := open(t, m, "/b", os.O_CREATE|os.O_RDWR)
	must(t, m.SyncDir("/"))
	write(t, a, "first")
	write(t, b, "second")
	seen := outcomes(m, CrashOptions{Blocks: 0.5, Sizes: 0.5}, func(c *Mem) string {
		return fmt.Sprint(readOr(c, "/a") == "first", readOr(c, "/b") == "second")
	})
	wantOutcomes(t, seen, true, "true true", "true false", "false true", "false false")
}

// TestCrashShowsOverwrittenVersions: what was overwritten before a sync may have been written back before.
func TestCrashShowsOverwrittenVersions(t *testing.T) {
	m, f := durable(t, "/f", sector('0'))
	writeAt(t, f, sector('1'), 0)
	writeAt(t, f, sector('2'), 0)
	keep := CrashOptions{Blocks: 0.5, Sizes: 0.5}
	wantOutcomes(t, outcomes(m, keep, look("/f")), true, sector('0'), sector('1'), sector('2'))
	must(t, f.Sync())
	wantOutcomes(t, outcomes(m, keep, look("/f")), true, sector('2'))
}

// TestCrashAfterRename: the classic missing fsync before a rename.
func TestCrashAfterRename(t *testing.T) {
	m, _ := durable(t, "/f", "old")
	put(t, m, "/f.tmp", "new")
	must(t, m.Rename("/f.tmp", "/f"))
	keep := CrashOptions{Blocks: 0.5, Sizes: 0.5, Names: 0.7}
	wantOutcomes(t, outcomes(m, keep, look("/f")), false, "old", "new", "", "\x00\x00\x00")
	if seen := outcomes(m, keep, look("/f")); seen["-"] > 0 {
		t.Error("a rename over a file has left none")
	}

	// The right order: contents, rename, directory.
	m, _ = durable(t, "/f", "old")
	f := open(t, m, "/f.tmp", os.O_CREATE|os.O_RDWR)
	write(t, f, "new")
	must(t, errors.Join(f.Sync(), m.Rename("/f.tmp", "/f")))
	wantOutcomes(t, outcomes(m, some(), func(c *Mem) string { return names(c) + ":" + readOr(c, "/f") }), true,
		"f:old", "f f.tmp:old", "f:new")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "/f \"new\"\n")
}

// TestCrashRenamesAtomically: one of the two names, never both, never none.
func TestCrashRenamesAtomically(t *testing.T) {
	m, _ := durable(t, "/a", "A")
	must(t, m.Rename("/a", "/b"))
	wantOutcomes(t, outcomes(m, some(), dump), true, "/a \"A\"\n", "/b \"A\"\n")
	must(t, m.Rename("/b", "/c")) // which cannot come before the other
	wantOutcomes(t, outcomes(m, some(), dump), true, "/a \"A\"\n", "/b \"A\"\n", "/c \"A\"\n")
}

func TestCrashAfterRenameBetweenDirectories(t *testing.T) {
	setup := func() *Mem {
		m := NewMem(MemOptions{})
		must(t, m.MkdirAll("/1"))
		must(t, m.MkdirAll("/2"))
		put(t, m, "/1/f", "")
		must(t, errors.Join(m.SyncDir("/"), m.SyncDir("/1"), m.SyncDir("/2")))
		must(t, m.Rename("/1/f", "/2/g"))
		return m
	}
	before, after := "/1/\n/1/f \"\"\n/2/\n", "/1/\n/2/\n/2/g \"\"\n"
	for _, synced := range [][]string{nil, {"/1"}, {"/2"}, {"/1", "/1"}} {
		m := setup()
		for _, dir := range synced {
			must(t, m.SyncDir(dir))
		}
		wantOutcomes(t, outcomes(m, some(), dump), true, before, after)
	}
	m := setup()
	must(t, errors.Join(m.SyncDir("/2"), m.SyncDir("/1")))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, after)

	// What builds on it takes it along.
	m = setup()
	must(t, m.Rename("/2/g", "/2/h"))
	must(t, m.SyncDir("/2"))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "/1/\n/2/\n/2/h \"\"\n")
}

func TestCrashUndoesRemovals(t *testing.T) {
	m, _ := durable(t, "/f", "data")
	must(t, m.Remove("/f"))
	wantOutcomes(t, outcomes(m, some(), look("/f")), true, "data", "-")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, some(), look("/f")), true, "-")
}

func TestCrashUndoesPartOfRemoveAll(t *testing.T) {
	m := NewMem(MemOptions{})
	must(t, m.MkdirAll("/d"))
	put(t, m, "/d/1", "")
	put(t, m, "/d/2", "")
	must(t, errors.Join(m.SyncDir("/d"), m.SyncDir("/")))
	must(t, m.RemoveAll("/d"))
	one, two := "/d/1 \"\"\n", "/d/2 \"\"\n"
	wantOutcomes(t, outcomes(m, some(), dump), true, "", "/d/\n", "/d/\n"+one, "/d/\n"+two, "/d/\n"+one+two)
	must(t, m.SyncDir("/")) // the directory is gone, and so must be what was in it
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "")
}

func TestCrashUndoesTruncation(t *testing.T) {
	m, f := durable(t, "/f", sector('a')+sector('b'))
	must(t, f.Truncate(sectorSize))
	keep := CrashOptions{Blocks: 0.5, Sizes: 0.5}
	wantOutcomes(t, outcomes(m, keep, look("/f")), false, sector('a')+sector('b'), sector('a'))
	must(t, f.Sync())
	wantOutcomes(t, outcomes(m, keep, look("/f")), true, sector('a'))
}

// TestCrashMixesCutAndRewritten: after an unsynced truncation and new writes the old tail may stand behind the new
// data, with the old size.
func TestCrashMixesCutAndRewritten(t *testing.T) {
	for _, unit := range []int{sectorSize, pageSize} {
		fill := func(c byte) string { return strings.Repeat(string(c), unit) }
		m, f := durable(t, "/f", fill('a')+fill('b')+fill('c'))
		must(t, f.Truncate(int64(unit)))
		writeAt(t, f, fill('B'), int64(unit))
		wantOutcomes(t, outcomes(m, CrashOptions{Blocks: 0.5, Sizes: 0.5}, look("/f")), false,
			fill('a')+fill('b')+fill('c'),
			fill('a')+fill('B')+fill('c'),
			fill('a')+fill('B'),
			fill('a')+fill('b'),
			fill('a'),
			fill('a')+fill(0),
		)
	}
}

func TestCrashLosesModTime(t *testing.T) {
	m, f := durable(t, "/f", "")
	must(t, f.SetModTime(time.Unix(77, 0)))
	seconds := func(c *Mem) string {
		info, _ := c.Stat("/f")
		return fmt.Sprint(info.ModTime.Unix())
	}
	wantOutcomes(t, outcomes(m, some(), seconds), true, "0", "77")
	must(t, f.Sync())
	wantOutcomes(t, outcomes(m, some(), seconds), true, "77")
}

// TestFailedSyncLosesData is fsyncgate: the error comes once, the next sync succeeds without having written anything,
// reads show what is not there, until the pages go.
func TestFailedSyncLosesData(t *testing.T) {
	for _, how := range []string{"sync", "write-back", "all"} {
		t.Run(how, func(t *testing.T) {
			m, f := durable(t, "/f", sector('a'))
			writeAt(t, f, sector('b')+sector('c'), 0)
			var err error
			switch how {
			case "sync":
				faulty, _ := Faulty(m, "sync f 1 error EIO")
				g := open(t, faulty, "/f", os.O_RDWR)
				err = g.Sync()
				m.SyncAll("/") // which has its own memory of the error
				f.Sync()
			case "write-back":
				if n := m.FailWriteback("*"); n != 1 {
					t.Fatal(n)
				}
				err = f.Sync()
				m.SyncAll("/")
			case "all":
				m.FailWriteback("/f")
				_, err = m.SyncAll("/")
				wantErr(t, f.Sync(), syscall.EIO)
			}
			wantErr(t, err, syscall.EIO)
			must(t, f.Sync())
			if _, err := m.SyncAll("/"); err != nil {
				t.Fatal(err)
			}
			wantFile(t, m, "/f", sector('b')+sector('c'))
			for _, keep := range []CrashOptions{{}, KeepAll()} {
				wantOutcomes(t, outcomes(m, keep, look("/f")), true, sector('a')+sector(0))
			}
			must(t, m.Evict("/f"))
			wantFile(t, m, "/f", sector('a')+sector(0))
		})
	}
}

// TestFailedPagesAreWrittenWhenDirtyAgain: the page cache knows pages only.
func TestFailedPagesAreWrittenWhenDirtyAgain(t *testing.T) {
	m, f := durable(t, "/f", strings.Repeat("a", 2*pageSize))
	writeAt(t, f, strings.Repeat("b", 2*pageSize), 0)
	m.FailWriteback("*")
	writeAt(t, f, "c", pageSize)
	f.Sync()
	must(t, m.Evict("/f"))
	wantFile(t, m, "/f", strings.Repeat("a", pageSize)+"c"+strings.Repeat("b", pageSize-1))
}

func TestWriteBackErrorIsToldOncePerHandle(t *testing.T) {
	m, a := durable(t, "/f", "")
	b := open(t, m, "/f", os.O_RDWR)
	write(t, a, "x")
	m.FailWriteback("f")
	late := open(t, m, "/f", os.O_RDWR) // nobody was told yet
	wantErr(t, a.Sync(), syscall.EIO)
	wantErr(t, b.Sync(), syscall.EIO)
	wantErr(t, late.Sync(), syscall.EIO)
	latest := open(t, m, "/f", os.O_RDWR)
	must(t, errors.Join(a.Sync(), b.Sync(), late.Sync(), latest.Sync()))
	_, err := m.SyncAll("/")
	wantErr(t, err, syscall.EIO)
	_, err = m.SyncAll("/")
	must(t, err)
	if n := m.FailWriteback("*"); n != 0 {
		t.Fatal("a clean file has failed", n)
	}
}

func TestEvictKeepsDirtyAndCut(t *testing.T) {
	m, f := durable(t, "/f", strings.Repeat("a", 2*pageSize))
	must(t, f.Truncate(100))
	m.FailWriteback("*") // the page with the cut is lost, its old tail lies behind the end
	must(t, m.Evict("/f"))
	must(t, f.Truncate(pageSize+100))
	if got := readOr(m, "/f"); got[:100] != strings.Repeat("a", 100) || strings.Trim(got[100:], "\x00") != "" {
		t.Fatal("what was cut is back")
	}
}

func TestKillCloneKeepsThePageCache(t *testing.T) {
	m, f := durable(t, "/f", "old")
	write(t, f, "+new")
	put(t, m, "/g", "unsynced")
	must(t, m.MkdirAll("/d"))
	must(t, m.Rename("/g", "/d/h"))
	must(t, m.Remove("/f"))
	put(t, m, "/f", "again")
	want := dump(m)
	k := m.KillClone()
	if got := dump(k); got != want {
		t.Fatalf("got\n%swant\n%s", got, want)
	}
	// It can still lose what was not synced, just as the original.
	for seed := range uint64(tries) {
		for _, keep := range []CrashOptions{{}, some(), KeepAll()} {
			a := dump(m.CrashClone(rand.New(rand.NewPCG(seed, 1)), keep))
			b := dump(k.CrashClone(rand.New(rand.NewPCG(seed, 1)), keep))
			if a != b {
				t.Fatalf("seed %d: the clone crashes to\n%sthe original to\n%s", seed, b, a)
			}
		}
	}
	// And what it syncs is its own.
	g := open(t, k, "/d/h", os.O_RDWR)
	must(t, errors.Join(g.Sync(), k.SyncDir("/d"), k.SyncDir("/")))
	wantOutcomes(t, outcomes(k, CrashOptions{}, look("/d/h")), true, "unsynced")
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/d/h")), true, "-")
}

func TestKillCloneKeepsFailedPages(t *testing.T) {
	m, f := durable(t, "/f", "a")
	writeAt(t, f, "b", 0)
	m.FailWriteback("*")
	k := m.KillClone()
	wantFile(t, k, "/f", "b")
	wantErr(t, open(t, k, "/f", os.O_RDWR).Sync(), syscall.EIO)
	must(t, k.Evict("/f"))
	wantFile(t, k, "/f", "a")
	wantFile(t, m, "/f", "b")
}

func TestClonesAreApart(t *testing.T) {
	for _, how := range []string{"crash", "kill"} {
		m, f := durable(t, "/f", strings.Repeat("a", pageSize+100))
		write(t, f, "dirty")
		clone := m.KillClone
		if how == "crash" {
			clone = func() *Mem { return m.CrashClone(rand.New(rand.NewPCG(1, 1)), KeepAll()) }
		}
		want := readOr(m, "/f")
		all := map[string]*Mem{"original": m, "first": clone(), "second": clone()}
		for _, own := range slices.Backward(slices.Sorted(maps.Keys(all))) { // the longest not last
			fsys := all[own]
			g := open(t, fsys, "/f", os.O_RDWR|os.O_APPEND)
			write(t, g, own)
			h := open(t, fsys, "/f", os.O_RDWR)
			writeAt(t, h, own, 10)
		}
		for own, fsys := range all {
			if got := readOr(fsys, "/f"); got != want[:10]+own+want[10+len(own):]+own {
				t.Fatalf("%s: one clone writes into the other", how)
			}
			g := open(t, fsys, "/f", os.O_RDWR)
			must(t, g.Truncate(2*pageSize))
			if tail := readOr(fsys, "/f")[len(want)+len(own):]; strings.Trim(tail, "\x00") != "" {
				t.Fatalf("%s: one clone writes behind the end of the other: %s", how, clip(tail))
			}
		}
	}
}

// TestClonesHaveTheirOwnVersions: nor may the overwritten versions of one appear in the other.
func TestClonesHaveTheirOwnVersions(t *testing.T) {
	m, f := durable(t, "/f", sector('0'))
	for c := byte('1'); c <= '6'; c++ {
		writeAt(t, f, sector(c), 0)
	}
	k := m.KillClone()
	g := open(t, k, "/f", os.O_RDWR)
	for range 3 {
		writeAt(t, g, sector('k'), 0)
		writeAt(t, f, sector('m'), 0)
	}
	keep := CrashOptions{Blocks: 0.5}
	if seen := outcomes(k, keep, look("/f")); seen[sector('m')] > 0 || seen[sector('k')] == 0 {
		t.Error("the clone crashes to the original's versions:", clipKeys(seen))
	}
	if seen := outcomes(m, keep, look("/f")); seen[sector('k')] > 0 || seen[sector('m')] == 0 {
		t.Error("the original crashes to the clone's versions:", clipKeys(seen))
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	build := func() *Mem {
		m, f := durable(t, "/f", sector('a'))
		for i := range 30 {
			write(t, f, strings.Repeat(string(rune('b'+i)), 300))
			put(t, m, fmt.Sprintf("/n%d", i), strings.Repeat("x", i*100))
		}
		return m
	}
	a, b := build(), build()
	distinct := map[string]bool{}
	for seed := range uint64(50) {
		draw := func(m *Mem) string {
			rnd := rand.New(rand.NewPCG(seed, 2))
			return dump(m.CrashClone(rnd, KeepSome(rnd)))
		}
		first := draw(a)
		if first != draw(b) || first != draw(a) {
			t.Fatal("same seed, different disks")
		}
		distinct[first] = true
	}
	if len(distinct) < 30 {
		t.Errorf("50 seeds give %d disks", len(distinct))
	}
}

// TestCrashAtEveryCall runs a script and crashes at each of its mutating calls.
func TestCrashAtEveryCall(t *testing.T) {
	script := func(m *Mem) (done int, err error) {
		var f File
		steps := []func() error{
			func() error { return m.MkdirAll("/d") },
			func() error { f, err = m.Open("/d/f", os.O_CREATE|os.O_RDWR); return err },
			func() error { _, err := f.Write(bytes.Repeat([]byte("w"), 1000)); return err },
			func() error { _, err := f.WriteAt([]byte("W"), 5); return err },
			func() error { return f.Truncate(900) },
			func() error { return f.SetModTime(time.Unix(1, 0)) },
			func() error { return f.Sync() },
			func() error { return m.Rename("/d/f", "/d/g") },
			func() error { return m.SyncDir("/d") },
			func() error { _, err := m.SyncAll("/"); return err },
			func() error { _, err := m.Open("/d/g", os.O_TRUNC|os.O_RDWR); return err },
			func() error { _, err := m.Lock("/lock"); return err },
			func() error { return m.Remove("/d/g") },
			func() error { return m.RemoveAll("/d") },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				return i, err
			}
		}
		return len(steps), nil
	}
	m := NewMem(MemOptions{})
	steps, err := script(m)
	must(t, err)
	if m.Calls() != int64(steps) {
		t.Fatalf("%d calls counted, %d made", m.Calls(), steps)
	}
	for n := int64(1); n <= int64(steps); n++ {
		m := NewMem(MemOptions{})
		m.CrashAt(n)
		done, err := script(m)
		wantErr(t, err, ErrCrashed)
		if done != int(n-1) || !m.Crashed() {
			t.Fatalf("crash at %d came after %d steps", n, done)
		}
		wantDown(t, m)
		clone := m.CrashClone(rand.New(rand.NewPCG(1, 1)), some())
		if clone.Crashed() || clone.Calls() != 0 {
			t.Fatal("the clone is down, or has a past")
		}
		if _, err := script(clone); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatalf("after a crash at %d: %v", n, err)
		}
	}
}

// wantDown checks that every call fails.
func wantDown(t *testing.T, m *Mem) {
	t.Helper()
	_, open := m.Open("/d/f", os.O_CREATE|os.O_RDWR)
	_, list := m.ReadDir("/")
	_, stat := m.Stat("/")
	_, all := m.SyncAll("/")
	_, free := m.Free("/")
	_, lock := m.Lock("/l")
	for i, err := range []error{
		open, list, stat, all, free, lock, m.Rename("/a", "/b"), m.Remove("/a"), m.RemoveAll("/a"), m.MkdirAll("/a"),
		m.SyncDir("/"), m.Evict("/a"),
	} {
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("call %d on a crashed machine: %v", i, err)
		}
	}
}

func TestCrashedHandles(t *testing.T) {
	m, f := durable(t, "/f", "x")
	lock, err := m.Lock("/l")
	must(t, err)
	m.Crash()
	_, read := f.ReadAt(make([]byte, 1), 0)
	_, written := f.Write([]byte("x"))
	_, size := f.Size()
	for i, err := range []error{read, written, size, f.Sync(), f.Truncate(0), f.SetModTime(time.Now()), f.Close()} {
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("call %d on a crashed machine: %v", i, err)
		}
	}
	must(t, lock.Close())
}

// TestCrashInAWrite: the write in progress is cut anywhere, in the page cache too.
func TestCrashInAWrite(t *testing.T) {
	lengths := map[int]bool{}
	for n := int64(3); n < 100; n++ {
		m := NewMem(MemOptions{})
		m.CrashAt(n)
		f := open(t, m, "/f", os.O_CREATE|os.O_RDWR|os.O_APPEND)
		whole := 0
		for {
			if _, err := f.Write(bytes.Repeat([]byte("w"), 1000)); err != nil {
				wantErr(t, err, ErrCrashed)
				break
			}
			whole += 1000
		}
		got := readOr(m.KillClone(), "/f")
		if len(got) < whole || len(got) > whole+1000 {
			t.Fatalf("%d bytes after %d", len(got), whole)
		}
		lengths[len(got)-whole] = true
	}
	if len(lengths) < 50 {
		t.Errorf("only %d lengths of the last write", len(lengths))
	}
}

// TestCrashInASync: it has not happened, or only some of it.
func TestCrashInASync(t *testing.T) {
	m, f := durable(t, "/f", "")
	write(t, f, "x")
	m.CrashAt(m.Calls() + 1)
	wantErr(t, f.Sync(), ErrCrashed)
	wantOutcomes(t, outcomes(m, some(), look("/f")), true, "", "\x00", "x")
}
