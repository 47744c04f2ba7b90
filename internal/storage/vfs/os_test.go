package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestIsNoSpace(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{syscall.ENOSPC, true},
		{syscall.EDQUOT, true},
		{syscall.EIO, false},
		{fmt.Errorf("appending: %w", wrap("write", "f", syscall.ENOSPC)), true},
		{ErrCrashed, false},
	} {
		if got := IsNoSpace(tc.err); got != tc.want {
			t.Errorf("IsNoSpace(%v) = %v", tc.err, got)
		}
	}
}

// TestSendable reads the file through the descriptor.
func TestSendable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	put(t, OS(), name, "abc")
	f := open(t, OS(), name, os.O_RDONLY)
	defer f.Close()
	fd, ok := f.Sendable()
	if !ok {
		t.Fatal("a real file is not sendable")
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(fmt.Sprintf("/dev/fd/%d", fd))
		if err != nil || info.Size() != 3 {
			t.Fatal(info, err)
		}
	}
	m := open(t, NewMem(MemOptions{}), "f", os.O_CREATE|os.O_RDWR)
	if _, ok := m.Sendable(); ok {
		t.Fatal("a file in memory has a descriptor")
	}
}

// TestReadDirFollowsLinks: a partition directory may be a link to another disk.
func TestReadDirFollowsLinks(t *testing.T) {
	root := t.TempDir()
	must(t, OS().MkdirAll(root+"/real"))
	if err := os.Symlink(root+"/real", root+"/link"); err != nil {
		t.Skip(err)
	}
	must(t, os.Symlink(root+"/nowhere", root+"/dangling"))
	wantNames(t, OS(), root, "dangling", "link/", "real/")
}
