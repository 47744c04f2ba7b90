package cli

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// timeError is what adjtimex answers while no time service keeps the clock.
const timeError = 5

// readMachine asks the kernel.
func readMachine() machineFacts {
	var f machineFacts
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		f.openFiles = limit.Max // Go programs raise the soft limit to the hard one
	}
	if state, err := unix.Adjtimex(&unix.Timex{}); err == nil {
		f.clockKnown, f.clockSynced = true, state != timeError
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f.kernel = unix.ByteSliceToString(u.Release[:])
		var major, minor int
		if _, err := fmt.Sscanf(f.kernel, "%d.%d", &major, &minor); err == nil {
			f.syncfsTells = major > 5 || major == 5 && minor >= 8
		}
	}
	return f
}

// fileSystem names the kind of file system that a path lies on, "" for one that is not listed here.
func fileSystem(path string) string {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return ""
	}
	names := map[int64]string{
		unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "nfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
		unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs", 0xff534d42: "cifs", unix.FUSE_SUPER_MAGIC: "fuse",
	}
	return names[int64(uint32(s.Type))]
}
