package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestIsDiskFailure(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "write", Path: "x", Err: err} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{path(syscall.EIO), true},
		{path(syscall.EROFS), true},
		{path(syscall.EACCES), true},
		{&os.LinkError{Op: "rename", Err: syscall.EIO}, true},
		{&os.SyscallError{Syscall: "syncfs", Err: syscall.EIO}, true},
		{fmt.Errorf("append: %w", path(syscall.EIO)), true},
		{fmt.Errorf("%w: append: %w", io.ErrShortWrite, path(syscall.EIO)), true},
		{errors.Join(path(syscall.ENOSPC), path(syscall.EIO)), true},
		{path(syscall.ENOSPC), false},
		{path(syscall.EDQUOT), false},
		{path(syscall.EMFILE), false},
		{path(syscall.ENFILE), false},
		{path(syscall.ENOENT), false},
		{path(fs.ErrExist), false},
		{path(fs.ErrClosed), false},
		{io.ErrUnexpectedEOF, false},
		{io.ErrShortWrite, false},
		{errors.New("offset 7 after 9"), false},
		{errors.Join(path(syscall.ENOSPC), errors.New("offset 7 after 9")), false},
	} {
		if got := IsDiskFailure(c.err); got != c.want {
			t.Errorf("%v counts as a failed disk: %t", c.err, got)
		}
	}
}
