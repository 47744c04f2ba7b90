package vfs

import (
	"errors"
	"io/fs"
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

// wrap puts the operation and the name around a bare error; nil stays nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
