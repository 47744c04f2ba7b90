package vfs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

var (
	// ErrCrashed is the answer of every call to a Mem after its crash.
	ErrCrashed = errors.New("the machine has crashed")
	// ErrLocked says that somebody else holds the lock.
	ErrLocked = errors.New("locked by another process")
)

// IsNoSpace tells a full disk or an exhausted disk quota, which heals, from a broken disk, which does not.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isPlatformNoSpace(err)
}

// IsOutOfFiles tells that the process or the machine has no file descriptor left, which says nothing about the disk and
// passes.
func IsOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// IsDiskFailure says whether err, or one of the errors joined in it, is the operating system's answer to an operation
// that should have worked: the disk, or the way to it, is broken. A full disk, a lack of descriptors, a name that is
// missing, taken or closed, and contents that are damaged are none.
func IsDiskFailure(err error) bool {
	switch x := err.(type) {
	case *fs.PathError:
		return isHard(x.Err)
	case *os.LinkError:
		return isHard(x.Err)
	case *os.SyscallError:
		return isHard(x.Err)
	case syscall.Errno:
		return isHard(x)
	case interface{ Unwrap() error }:
		return IsDiskFailure(x.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), IsDiskFailure)
	}
	return false
}

func isHard(err error) bool {
	return !IsNoSpace(err) && !IsOutOfFiles(err) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) &&
		!errors.Is(err, fs.ErrClosed)
}

// wrap puts the operation and the name around a bare error; nil stays nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
