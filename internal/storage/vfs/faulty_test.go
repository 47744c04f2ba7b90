package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func faulty(t *testing.T, inner FS, script string) *FaultFS {
	t.Helper()
	f, err := Faulty(inner, script)
	must(t, err)
	return f
}

func TestFaultScriptErrors(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{"sync *.log", "want OPERATION GLOB"},
		{"fsync *.log error EIO", `unknown operation "fsync"`},
		{"sync *.log 3 explode", `unknown action "explode" for sync, want one of error, latency, skip`},
		{"sync *.log short 3", `unknown action "short" for sync`},
		{"sync *.log 3", "no action"},
		{"sync [ error EIO", `bad glob "["`},
		{"sync * 0 error EIO", `bad range "0"`},
		{"sync * 5-3 error EIO", `bad range "5-3"`},
		{"sync * 3x error EIO", `bad range "3x"`},
		{"sync * 3-x error EIO", `bad range "3-x"`},
		{"sync * error", "error takes 1 to 1 arguments, not 0"},
		{"sync * error EWHAT", `unknown error "EWHAT", want one of EACCES`},
		{"sync * skip now", "skip takes 0 to 0 arguments"},
		{"write * short x", `bad number of bytes "x"`},
		{"write * short -1", `bad number of bytes "-1"`},
		{"write * short 1 ENOSPC 2", "short takes 1 to 2 arguments, not 3"},
		{"write * short 1 what", `unknown error "what"`},
		{"read * latency ten", "ten"},
		{"read * latency -1s", "negative latency"},
		{"enospc * 1 2", `unexpected "2"`},
		{"enospc [", `bad glob "["`},
		{"read * error EIO\n\nread * 1", "line 3"},
		{"read * error EIO; read *", `line 1: "read *"`},
	} {
		f := faulty(t, NewMem(MemOptions{}), "")
		_, err := f.Add(tc.script)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want %s", tc.script, err, tc.want)
		}
		if len(f.rules) != 0 {
			t.Errorf("%q: rules added all the same", tc.script)
		}
		if _, err := Faulty(NewMem(MemOptions{}), tc.script); err == nil {
			t.Errorf("%q passed", tc.script)
		}
	}
}

func TestFaultGlobs(t *testing.T) {
	for _, tc := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "/any/thing", true},
		{"*.log", "/data/t-0/00.log", true},
		{"*.log", "00.log", true},
		{"*.log", "/data/t.log/00.index", false},
		{"t-0/*.log", "/data/t-0/00.log", true},
		{"t-0/*.log", "/data/t-1/00.log", false},
		{"t-?/*", "/data/t-1/00.log", true},
		{"/data/*", "/data/x", true},
		{"/data/*", "/data/t-0/x", false},
		{"/data/*", "/more/data/x", false},
		{"a/b/c", "b/c", false},
		{"t-0/*.log", `C:\data\t-0\00.log`, true},
		{"x", "/data/x/", true},
	} {
		if got := matchName(tc.glob, tc.name); got != tc.want {
			t.Errorf("%q matches %q: %v", tc.glob, tc.name, got)
		}
	}
}

// TestFaultRanges counts only what a rule matches, from 1.
func TestFaultRanges(t *testing.T) {
	for _, tc := range []struct{ rng, want string }{
		{"", "xxxxx"}, {"2", ".x..."}, {"3-", "..xxx"}, {"2-4", ".xxx."}, {"9", "....."},
	} {
		f := faulty(t, NewMem(MemOptions{}), "sync *.log "+tc.rng+" error EIO")
		log := open(t, f, "/a.log", os.O_CREATE|os.O_RDWR)
		other := open(t, f, "/a.index", os.O_CREATE|os.O_RDWR)
		got := ""
		for range 5 {
			must(t, other.Sync())
			if err := log.Sync(); err == nil {
				got += "."
			} else {
				wantErr(t, err, syscall.EIO)
				var pathErr *fs.PathError
				if !errors.As(err, &pathErr) || pathErr.Path != "/a.log" {
					t.Errorf("the error hides the file: %v", err)
				}
				got += "x"
			}
		}
		if got != tc.want {
			t.Errorf("range %q: %s, want %s", tc.rng, got, tc.want)
		}
	}
}

func TestFaultShortWrite(t *testing.T) {
	m := NewMem(MemOptions{})
	f := faulty(t, m, "write f 2- short 3\nwrite g short 2 ENOSPC")
	file := open(t, f, "/f", os.O_CREATE|os.O_RDWR|os.O_APPEND)
	write(t, file, "first ")
	n, err := file.Write([]byte("second"))
	wantErr(t, err, io.ErrShortWrite)
	if n != 3 {
		t.Fatal(n)
	}
	write(t, file, "abc") // not longer than that
	wantFile(t, m, "/f", "first secabc")

	g := open(t, f, "/g", os.O_CREATE|os.O_RDWR)
	n, err = g.WriteAt([]byte("xyz"), 1)
	if n != 2 || !IsNoSpace(err) {
		t.Fatal(n, err)
	}
	wantFile(t, m, "/g", "\x00xy")
}

func TestFaultReads(t *testing.T) {
	m := NewMem(MemOptions{})
	put(t, m, "/f", "0123456789")
	f := faulty(t, m, "read f 1 short 4; read f 2 short 4 EIO; read f 3 error EIO; read f 4 flip 12; read f 5 short 99")
	file := open(t, f, "/f", os.O_RDONLY)
	b := make([]byte, 10)
	for i, tc := range []struct {
		want string
		err  error
	}{{"0123", io.EOF}, {"0123", syscall.EIO}, {"", syscall.EIO}, {"0133456789", nil}, {"0123456789", nil}} {
		n, err := file.ReadAt(b, 0)
		if string(b[:n]) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("read %d: %q, %v", i+1, b[:n], err)
		}
	}
}

func TestFaultLatency(t *testing.T) {
	f := faulty(t, NewMem(MemOptions{}), "* * latency 10ms; stat * 2 latency 1s; stat * 2 error EIO")
	var slept time.Duration
	f.SetSleep(func(d time.Duration) {
		slept += d
		if _, err := f.Add(""); err != nil { // no lock is held
			t.Error(err)
		}
	})
	_, err := f.Stat("/")
	must(t, err)
	if slept != 10*time.Millisecond {
		t.Fatal(slept)
	}
	_, err = f.Stat("/")
	wantErr(t, err, syscall.EIO)
	if slept != 1020*time.Millisecond {
		t.Fatal(slept)
	}
}

func TestFaultFullDisk(t *testing.T) {
	m := NewMem(MemOptions{})
	put(t, m, "/a", "12345")
	f := faulty(t, m, "")
	file := open(t, f, "/a", os.O_RDWR)
	ids, err := f.Add("enospc")
	must(t, err)
	_, create := f.Open("/b", os.O_CREATE|os.O_RDWR)
	_, written := file.Write([]byte("x"))
	for i, err := range []error{create, written, f.MkdirAll("/d"), file.Truncate(10)} {
		if !IsNoSpace(err) {
			t.Errorf("call %d on a full disk: %v", i, err)
		}
	}
	if n, err := f.Free("/"); n != 0 || err != nil {
		t.Error(n, err)
	}
	must(t, errors.Join(file.Truncate(3), file.Sync(), f.Rename("/a", "/c"), f.Remove("/c")))
	if f.Hits(ids[0]) != 5 {
		t.Error(f.Hits(ids[0]))
	}
	f.Drop(ids...)
	write(t, file, "x")
	if f.Hits(ids[0]) != 0 {
		t.Error("a dropped rule counts")
	}
}

// TestFaultEveryOperation fails each call by its name and by none other.
func TestFaultEveryOperation(t *testing.T) {
	calls := func(fsys FS) map[string]error {
		got := map[string]error{}
		f, err := fsys.Open("/f", os.O_RDWR)
		got[opOpen] = err
		_, got[opCreate] = fsys.Open("/new", os.O_CREATE|os.O_RDWR)
		got[opRename] = fsys.Rename("/g", "/h")
		got[opRemove] = fsys.Remove("/h")
		got["removeall"] = fsys.RemoveAll("/h")
		got[opMkdir] = fsys.MkdirAll("/d")
		_, got[opReadDir] = fsys.ReadDir("/")
		_, got[opStat] = fsys.Stat("/f")
		got[opSyncDir] = fsys.SyncDir("/")
		_, got[opSyncAll] = fsys.SyncAll("/")
		got[opEvict] = fsys.Evict("/f")
		_, got[opFree] = fsys.Free("/")
		_, got[opLock] = fsys.Lock("/f")
		if f != nil {
			_, got[opRead] = f.ReadAt(make([]byte, 1), 0)
			_, got[opWrite] = f.Write([]byte("x"))
			got[opTrunc] = f.Truncate(1)
			got[opModTime] = f.SetModTime(time.Unix(1, 0))
			got[opSync] = f.Sync()
			got[opClose] = f.Close()
		}
		return got
	}
	hit := map[string][]string{
		opOpen:   {opOpen, opCreate},
		opRemove: {opRemove, "removeall"},
		opAlloc:  {opCreate, opMkdir, opFree, opWrite},
		opAny:    nil, // open fails, so the file's own calls are not reached
	}
	for op := range operations() {
		m := NewMem(MemOptions{})
		put(t, m, "/f", "x")
		put(t, m, "/g", "x")
		for name, err := range calls(faulty(t, m, op+" * error EIO")) {
			want := op == name || op == opAny
			for _, also := range hit[op] {
				want = want || also == name
			}
			if failed := errors.Is(err, syscall.EIO); failed != want {
				// What was not created or renamed fails in its own way.
				t.Errorf("rule for %s: %s fails: %v (%v)", op, name, failed, err)
			}
		}
	}
}

func TestFaultRename(t *testing.T) {
	f := faulty(t, NewMem(MemOptions{}), "rename *.swap error EIO")
	for _, name := range []string{"/a.swap", "/b", "/c"} {
		put(t, f, name, "")
	}
	wantErr(t, f.Rename("/a.swap", "/a"), syscall.EIO)
	wantErr(t, f.Rename("/b", "/b.swap"), syscall.EIO)
	must(t, f.Rename("/c", "/d"))
}

// TestFaultSkip is the disk that lies: only a crash shows it.
func TestFaultSkip(t *testing.T) {
	m := NewMem(MemOptions{})
	f := faulty(t, m, "sync * skip")
	file := open(t, f, "/f", os.O_CREATE|os.O_RDWR)
	write(t, file, "x")
	must(t, errors.Join(file.Sync(), f.SyncDir("/")))
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/f")), true, "")
	f.Clear()
	must(t, file.Sync())
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/f")), true, "x")

	_, err := f.Add("syncdir * skip; syncall * skip")
	must(t, err)
	write(t, file, "y")
	put(t, f, "/g", "")
	ok, err := f.SyncAll("/")
	must(t, errors.Join(err, f.SyncDir("/")))
	wantOutcomes(t, outcomes(m, CrashOptions{}, dump), true, "/f \"x\"\n")
	if !ok {
		t.Error("a lie must look like the truth")
	}
}

// TestFaultSyncAll: the error of somebody else's file; ours are written.
func TestFaultSyncAll(t *testing.T) {
	m, file := durable(t, "/f", "")
	f := faulty(t, m, "syncall * 1 error EIO")
	write(t, file, "x")
	ok, err := f.SyncAll("/")
	wantErr(t, err, syscall.EIO)
	if !ok {
		t.Error("an error is not a missing ability")
	}
	must(t, file.Sync())
	wantOutcomes(t, outcomes(m, CrashOptions{}, look("/f")), true, "x")
}

func TestFaultSendable(t *testing.T) {
	f := faulty(t, OS(), "")
	name := t.TempDir() + "/f.log"
	file := open(t, f, name, os.O_CREATE|os.O_RDWR)
	defer file.Close()
	if _, ok := file.Sendable(); !ok {
		t.Fatal("no rule, no descriptor")
	}
	ids, err := f.Add("sync *.log error EIO; read *.log 5 error EIO")
	must(t, err)
	if _, ok := file.Sendable(); ok {
		t.Fatal("a sendfile would go past the rule")
	}
	f.Drop(ids[1])
	if _, ok := file.Sendable(); !ok {
		t.Fatal("a rule for syncs hides the descriptor")
	}
}

// TestFaultsStack: a failed sync reaches the Mem through two wrappers.
func TestFaultsStack(t *testing.T) {
	m, _ := durable(t, "/f", "a")
	outer := faulty(t, faulty(t, m, ""), "sync * 1 error EIO")
	file := open(t, outer, "/f", os.O_RDWR)
	writeAt(t, file, "b", 0)
	wantErr(t, file.Sync(), syscall.EIO)
	must(t, file.Sync())
	wantOutcomes(t, outcomes(m, KeepAll(), look("/f")), true, "a")
}
