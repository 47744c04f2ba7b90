package vfs

import (
	"errors"
	"math"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

func isInterrupted(error) bool { return false }

// syncDir does nothing: NTFS journals its names, and a directory cannot be opened for a sync.
func syncDir(string) error { return nil }

// diskSpace gives the bytes free to this user and the size of dir's file system.
func diskSpace(dir string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, wrap("statfs", dir, err)
	}
	var available, size uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, &size, nil); err != nil {
		return 0, 0, wrap("statfs", dir, err)
	}
	return int64(min(available, math.MaxInt64)), int64(min(size, math.MaxInt64)), nil
}

func setModTime(f *os.File, t time.Time) error {
	ft := windows.NsecToFiletime(t.UnixNano())
	return withFd(f, func(fd uintptr) error { return windows.SetFileTime(windows.Handle(fd), nil, nil, &ft) })
}

// lockFile locks a byte far behind the end, so that the file's contents stay readable to others.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := withFd(f, func(fd uintptr) error {
		at := windows.Overlapped{OffsetHigh: 1 << 30}
		return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &at)
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
