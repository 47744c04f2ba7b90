package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// conformance is what every FS does alike. root is an empty directory.
var conformance = []struct {
	name string
	run  func(t *testing.T, fsys FS, root string)
}{
	{"open modes", testOpenModes},
	{"open flags that are refused", testOpenRefused},
	{"append", testAppend},
	{"write at", testWriteAt},
	{"read at the end", testReadAtEnd},
	{"truncate", testTruncate},
	{"pages", testPages},
	{"rename", testRename},
	{"rename that is refused", testRenameRefused},
	{"rename of a directory", testRenameDir},
	{"remove", testRemove},
	{"unlinked but open", testUnlinkedOpen},
	{"remove all", testRemoveAll},
	{"directories", testDirs},
	{"modification time", testModTime},
	{"closed", testClosed},
	{"sync", testSync},
	{"evict", testEvict},
	{"free", testFree},
	{"lock", testLock},
}

func TestConformance(t *testing.T) {
	faulty := func(t *testing.T, inner FS) FS {
		f, err := Faulty(inner, "")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tc := range conformance {
		t.Run(tc.name, func(t *testing.T) {
			t.Run("OS", func(t *testing.T) { tc.run(t, OS(), filepath.ToSlash(t.TempDir())) })
			t.Run("Mem", func(t *testing.T) { tc.run(t, NewMem(MemOptions{}), "/") })
			t.Run("FaultyOS", func(t *testing.T) { tc.run(t, faulty(t, OS()), filepath.ToSlash(t.TempDir())) })
			t.Run("FaultyMem", func(t *testing.T) { tc.run(t, faulty(t, NewMem(MemOptions{})), "/") })
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func open(t *testing.T, fsys FS, name string, flag int) File {
	t.Helper()
	f, err := fsys.Open(name, flag)
	must(t, err)
	return f
}

// put writes a file anew and closes it.
func put(t *testing.T, fsys FS, name, content string) {
	t.Helper()
	f := open(t, fsys, name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	_, err := f.Write([]byte(content))
	must(t, err)
	must(t, f.Close())
}

// get reads a whole file.
func get(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f := open(t, fsys, name, os.O_RDONLY)
	defer f.Close()
	return contents(t, f)
}

func contents(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n != len(b) || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return string(b)
}

func wantFile(t *testing.T, fsys FS, name, want string) {
	t.Helper()
	if got := get(t, fsys, name); got != want {
		t.Fatalf("%s holds %s, want %s", name, clip(got), clip(want))
	}
}

// clip shortens s, above all runs of one byte.
func clip(s string) string {
	var b strings.Builder
	for len(s) > 0 && b.Len() < 80 {
		rest := strings.TrimLeft(s, s[:1])
		if run := len(s) - len(rest); run > 4 {
			fmt.Fprintf(&b, "%q*%d ", s[0], run)
		} else {
			fmt.Fprintf(&b, "%q ", s[:run])
		}
		s = rest
	}
	return b.String()
}

func wantNames(t *testing.T, fsys FS, dir string, want ...string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		name := e.Name
		if e.IsDir {
			name += "/"
		}
		got = append(got, name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %q, want %q", dir, got, want)
	}
}

func testOpenModes(t *testing.T, fsys FS, root string) {
	name := root + "/f"
	f := open(t, fsys, name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
	n, err := f.Write([]byte("hello"))
	if n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if got := contents(t, f); got != "hello" {
		t.Fatal(got)
	}
	must(t, f.Close())

	r := open(t, fsys, name, os.O_RDONLY)
	if _, err := r.Write([]byte("x")); err == nil {
		t.Fatal("wrote to a file opened for reading")
	}
	if err := r.Truncate(0); err == nil {
		t.Fatal("truncated a file opened for reading")
	}
	must(t, r.Close())

	w := open(t, fsys, name, os.O_WRONLY) // no truncation, position 0
	if _, err := w.ReadAt(make([]byte, 1), 0); err == nil || err == io.EOF {
		t.Fatalf("read from a file opened for writing: %v", err)
	}
	_, err = w.Write([]byte("J"))
	must(t, err)
	must(t, w.Close())
	wantFile(t, fsys, name, "Jello")

	must(t, open(t, fsys, name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC).Close())
	wantFile(t, fsys, name, "")
}

func testOpenRefused(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/f", "x")
	_, err := fsys.Open(root+"/none", os.O_RDWR)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Open(root+"/no/dir", os.O_RDWR|os.O_CREATE)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Open(root+"/f", os.O_RDWR|os.O_CREATE|os.O_EXCL)
	wantErr(t, err, fs.ErrExist)
	if _, err = fsys.Open(root+"/f/below", os.O_RDONLY); err == nil {
		t.Fatal("opened a file below a file")
	}
	must(t, fsys.MkdirAll(root+"/d"))
	if _, err = fsys.Open(root+"/d", os.O_RDWR); err == nil {
		t.Fatal("opened a directory for writing")
	}
	wantFile(t, fsys, root+"/f", "x")
}

func testAppend(t *testing.T, fsys FS, root string) {
	name := root + "/f"
	put(t, fsys, name, "one ")
	a := open(t, fsys, name, os.O_WRONLY|os.O_APPEND)
	b := open(t, fsys, name, os.O_WRONLY|os.O_APPEND)
	for _, w := range []struct {
		f File
		s string
	}{{a, "two "}, {b, "three "}, {a, "four"}} {
		_, err := w.f.Write([]byte(w.s))
		must(t, err)
	}
	if _, err := a.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("WriteAt on an appending file passed")
	}
	must(t, a.Truncate(4))
	_, err := a.Write([]byte("end"))
	must(t, err)
	must(t, errors.Join(a.Close(), b.Close()))
	wantFile(t, fsys, name, "one end")
}

func testWriteAt(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	defer f.Close()
	_, err := f.Write([]byte("0123456789"))
	must(t, err)
	_, err = f.WriteAt([]byte("ab"), 3)
	must(t, err)
	_, err = f.Write([]byte("!")) // WriteAt has not moved the position
	must(t, err)
	_, err = f.WriteAt([]byte("z"), 14)
	must(t, err)
	if got, want := contents(t, f), "012ab56789!\x00\x00\x00z"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Fatal("wrote before the start")
	}
	n, err := f.WriteAt(nil, 100)
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if size, _ := f.Size(); size != 15 {
		t.Fatalf("an empty write has moved the end to %d", size)
	}
}

func testReadAtEnd(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/f", "abc")
	f := open(t, fsys, root+"/f", os.O_RDONLY)
	defer f.Close()
	for _, tc := range []struct {
		length int
		off    int64
		want   string
		err    error
	}{
		{3, 0, "abc", nil}, {4, 0, "abc", io.EOF}, {2, 2, "c", io.EOF}, {1, 3, "", io.EOF}, {1, 9, "", io.EOF},
	} {
		b := make([]byte, tc.length)
		n, err := f.ReadAt(b, tc.off)
		if string(b[:n]) != tc.want || err != tc.err {
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v", tc.length, tc.off, b[:n], err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
		t.Errorf("read before the start: %v", err)
	}
}

func testTruncate(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	defer f.Close()
	_, err := f.Write([]byte("abcdef"))
	must(t, err)
	must(t, f.Truncate(3))
	must(t, f.Truncate(5)) // what was cut does not come back
	if got := contents(t, f); got != "abc\x00\x00" {
		t.Fatalf("got %q", got)
	}
	if err := f.Truncate(-1); err == nil {
		t.Fatal("truncated to -1")
	}
	must(t, f.Truncate(3*pageSize))
	must(t, f.Truncate(pageSize+1))
	if size, _ := f.Size(); size != pageSize+1 {
		t.Fatal(size)
	}
	if _, err := f.WriteAt([]byte("tail"), 2*pageSize); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, f); strings.Trim(got, "\x00") != "abc"+strings.Repeat("\x00", 2*pageSize-3)+"tail" {
		t.Fatal("holes are not zero")
	}
}

// testPages writes over page boundaries in many sizes and compares with a plain slice.
func testPages(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	defer f.Close()
	var want []byte
	for i, length := range []int{1, 511, 512, 513, 4095, 4096, 4097, 70_000, 300_000} {
		chunk := bytes.Repeat([]byte{byte('a' + i)}, length)
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
		want = append(want, chunk...)
		if at := int64(len(want) / 2); at > 10 {
			if _, err := f.WriteAt([]byte("0123456789"), at-5); err != nil {
				t.Fatal(err)
			}
			copy(want[at-5:], "0123456789")
		}
		if i%3 == 0 {
			must(t, f.Sync())
		}
	}
	if contents(t, f) != string(want) {
		t.Fatal("contents differ")
	}
	part := make([]byte, 10_000)
	n, err := f.ReadAt(part, 5_000)
	if n != len(part) || err != nil || !bytes.Equal(part, want[5_000:15_000]) {
		t.Fatal("a part differs", n, err)
	}
}

func testRename(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/a", "A")
	put(t, fsys, root+"/b", "B")
	f := open(t, fsys, root+"/a", os.O_RDONLY)
	defer f.Close()
	must(t, fsys.Rename(root+"/a", root+"/b"))
	wantNames(t, fsys, root, "b")
	wantFile(t, fsys, root+"/b", "A")
	if contents(t, f) != "A" {
		t.Fatal("an open file does not follow its rename")
	}
	must(t, fsys.Rename(root+"/b", root+"/b"))
	must(t, fsys.MkdirAll(root+"/d"))
	must(t, fsys.Rename(root+"/b", root+"/d/c"))
	wantNames(t, fsys, root, "d/")
	wantFile(t, fsys, root+"/d/c", "A")
}

func testRenameRefused(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/f", "F")
	must(t, fsys.MkdirAll(root+"/d/sub"))
	wantErr(t, fsys.Rename(root+"/none", root+"/x"), fs.ErrNotExist)
	wantErr(t, fsys.Rename(root+"/f", root+"/no/x"), fs.ErrNotExist)
	for _, pair := range [][2]string{{"/f", "/d"}, {"/d", "/f"}, {"/d", "/d/sub/d"}} {
		if err := fsys.Rename(root+pair[0], root+pair[1]); err == nil {
			t.Errorf("rename of %s to %s passed", pair[0], pair[1])
		}
	}
	wantNames(t, fsys, root, "d/", "f")
}

func testRenameDir(t *testing.T, fsys FS, root string) {
	must(t, fsys.MkdirAll(root+"/t-0"))
	put(t, fsys, root+"/t-0/00.log", "data")
	must(t, fsys.MkdirAll(root+"/full"))
	put(t, fsys, root+"/full/x", "")
	if err := fsys.Rename(root+"/t-0", root+"/full"); err == nil {
		t.Fatal("renamed over a directory that is not empty")
	}
	must(t, fsys.Rename(root+"/t-0", root+"/t-0.abc-delete"))
	wantNames(t, fsys, root, "full/", "t-0.abc-delete/")
	wantFile(t, fsys, root+"/t-0.abc-delete/00.log", "data")
}

func testRemove(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/f", "F")
	must(t, fsys.MkdirAll(root+"/d/e"))
	wantErr(t, fsys.Remove(root+"/none"), fs.ErrNotExist)
	if err := fsys.Remove(root + "/d"); err == nil {
		t.Fatal("removed a directory that is not empty")
	}
	must(t, fsys.Remove(root+"/f"))
	must(t, fsys.Remove(root+"/d/e"))
	must(t, fsys.Remove(root+"/d"))
	wantNames(t, fsys, root)
	_, err := fsys.Stat(root + "/f")
	wantErr(t, err, fs.ErrNotExist)
}

func testUnlinkedOpen(t *testing.T, fsys FS, root string) {
	put(t, fsys, root+"/f", "still here")
	f := open(t, fsys, root+"/f", os.O_RDWR)
	must(t, fsys.Remove(root+"/f"))
	put(t, fsys, root+"/f", "new")
	if got := contents(t, f); got != "still here" {
		t.Fatalf("got %q", got)
	}
	_, err := f.WriteAt([]byte("S"), 0)
	must(t, err)
	must(t, f.Close())
	wantFile(t, fsys, root+"/f", "new")
}

func testRemoveAll(t *testing.T, fsys FS, root string) {
	must(t, fsys.MkdirAll(root+"/d/e/f"))
	put(t, fsys, root+"/d/x", "")
	put(t, fsys, root+"/d/e/y", "")
	put(t, fsys, root+"/z", "")
	must(t, fsys.RemoveAll(root+"/none"))
	must(t, fsys.RemoveAll(root+"/no/ne"))
	must(t, fsys.RemoveAll(root+"/d"))
	must(t, fsys.RemoveAll(root+"/z"))
	wantNames(t, fsys, root)
}

func testDirs(t *testing.T, fsys FS, root string) {
	must(t, fsys.MkdirAll(root+"/b/c"))
	must(t, fsys.MkdirAll(root+"/b/c"))
	for _, name := range []string{"10", "9", "a", "Z"} {
		put(t, fsys, root+"/"+name, name)
	}
	wantNames(t, fsys, root, "10", "9", "Z", "a", "b/")
	wantNames(t, fsys, root+"/b", "c/")
	if err := fsys.MkdirAll(root + "/a/x"); err == nil {
		t.Fatal("made a directory below a file")
	}
	_, err := fsys.ReadDir(root + "/none")
	wantErr(t, err, fs.ErrNotExist)
	if _, err := fsys.ReadDir(root + "/a"); err == nil {
		t.Fatal("listed a file")
	}
	info, err := fsys.Stat(root + "/b")
	if err != nil || !info.IsDir {
		t.Fatal(info, err)
	}
	info, err = fsys.Stat(root + "/10")
	if err != nil || info.IsDir || info.Size != 2 {
		t.Fatal(info, err)
	}
}

func testModTime(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_WRONLY)
	want := time.UnixMilli(1_700_000_000_123)
	must(t, fsys.Rename(root+"/f", root+"/g")) // by the handle, not by the name
	must(t, f.SetModTime(want))
	info, err := fsys.Stat(root + "/g")
	if err != nil || !info.ModTime.Equal(want) {
		t.Fatalf("got %v, want %v (%v)", info.ModTime, want, err)
	}
	_, err = f.Write([]byte("x"))
	must(t, errors.Join(err, f.Sync(), f.Close()))
	if info, _ = fsys.Stat(root + "/g"); info.ModTime.Equal(want) {
		t.Fatal("a write leaves the time alone")
	}
}

func testClosed(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	must(t, f.Close())
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.Write([]byte("x"))
	_, atErr := f.WriteAt([]byte("x"), 0)
	_, sizeErr := f.Size()
	for i, err := range []error{
		readErr, writeErr, atErr, sizeErr, f.Sync(), f.Truncate(0), f.SetModTime(time.Now()), f.Close(),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("call %d on a closed file: %v", i, err)
		}
	}
}

func testSync(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	defer f.Close()
	must(t, f.Sync())
	_, err := f.Write([]byte("x"))
	must(t, errors.Join(err, f.Sync(), fsys.SyncDir(root)))
	for range 2 {
		if _, err := fsys.SyncAll(root); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(root + "/none"); err != nil { // a no-op on Windows
		wantErr(t, err, fs.ErrNotExist)
	}
	r := open(t, fsys, root+"/f", os.O_RDONLY)
	must(t, errors.Join(r.Sync(), r.Close())) // recovery may sync what it only reads
}

func testEvict(t *testing.T, fsys FS, root string) {
	f := open(t, fsys, root+"/f", os.O_CREATE|os.O_RDWR)
	defer f.Close()
	_, err := f.Write([]byte("synced"))
	must(t, errors.Join(err, f.Sync()))
	_, err = f.Write([]byte(" and not"))
	must(t, errors.Join(err, fsys.Evict(root+"/f")))
	wantFile(t, fsys, root+"/f", "synced and not")
}

func testFree(t *testing.T, fsys FS, root string) {
	n, err := fsys.Free(root)
	if n <= 0 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := fsys.Free(root + "/none"); err == nil {
		t.Fatal("free space of a directory that is not there")
	}
}

func testLock(t *testing.T, fsys FS, root string) {
	name := root + "/.lock"
	l, err := fsys.Lock(name)
	must(t, err)
	_, err = fsys.Lock(name)
	wantErr(t, err, ErrLocked)
	other, err := fsys.Lock(root + "/.other")
	must(t, err)
	must(t, l.Close())
	if err := l.Close(); err == nil {
		t.Fatal("a lock was given back twice")
	}
	l, err = fsys.Lock(name)
	must(t, errors.Join(err, l.Close(), other.Close()))
	wantNames(t, fsys, root, ".lock", ".other")
	_, err = fsys.Lock(root + "/none/.lock")
	wantErr(t, err, fs.ErrNotExist)
}
