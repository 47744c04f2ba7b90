//go:build darwin || freebsd

package vfs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setModTime is exact to the microsecond.
func setModTime(f *os.File, t time.Time) error {
	tv := unix.NsecToTimeval(t.UnixNano())
	return withFd(f, func(fd uintptr) error { return unix.Futimes(int(fd), []unix.Timeval{tv, tv}) })
}

// diskSpace gives the bytes free to an unprivileged writer and the size of dir's file system.
func diskSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if isInterrupted(err) {
			continue
		}
		if err != nil {
			return 0, 0, wrap("statfs", dir, err)
		}
		return freeBytes(uint64(max(0, int64(st.Bavail))), uint64(st.Bsize)), freeBytes(uint64(st.Blocks), uint64(st.Bsize)), nil
	}
}
