package vfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func syncFile(f *os.File) error {
	return withFd(f, func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}

// setModTime goes through the descriptor, because the file may have been renamed since it was opened.
func setModTime(f *os.File, t time.Time) error {
	spec, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{spec, spec}
	return withFd(f, func(fd uintptr) error {
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
}

func evict(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = withFd(f, func(fd uintptr) error { return unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) })
	return wrap("evict", name, err)
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
		size := st.Frsize
		if size <= 0 {
			size = st.Bsize
		}
		return freeBytes(st.Bavail, uint64(size)), freeBytes(st.Blocks, uint64(size)), nil
	}
}

// syncHandles keeps one descriptor for each directory given to SyncAll. The kernel reports a write-back error once per
// descriptor, and only errors later than its opening or seen by nobody yet: a descriptor opened for each call would
// miss what another process's syncfs was told. Lock opens the handle of its directory, so that a log dir has one before
// its first write; other directories get theirs at their first SyncAll.
type syncHandles struct {
	mu     sync.Mutex
	byDir  map[string]*os.File
	kernel kernelVersion // of this machine; zero: not asked yet
}

// syncAll syncs the file system of dir. It answers false where the kernel or the file system would not report a failed
// write-back: the caller then syncs file by file.
func (h *syncHandles) syncAll(dir string) (bool, error) {
	f, err := h.handle(dir)
	if f == nil || err != nil {
		return err != nil, err
	}
	if err := withFd(f, func(fd uintptr) error { return unix.Syncfs(int(fd)) }); err != nil {
		return true, wrap("syncfs", dir, err)
	}
	if h.kernel.reportsJournalErrors() {
		return true, nil
	}
	// An aborted journal shows itself here at the latest.
	return true, wrap("syncfs", dir, withFd(f, func(fd uintptr) error { return unix.Fsync(int(fd)) }))
}

// watch opens the handle of dir, if SyncAll works there. An error shows again, and counts, in SyncAll.
func (h *syncHandles) watch(dir string) { h.handle(dir) }

// forget closes the handle of dir.
func (h *syncHandles) forget(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := filepath.Clean(dir)
	if f := h.byDir[key]; f != nil {
		f.Close()
		delete(h.byDir, key)
	}
}

// handle gives the descriptor for dir; nil: SyncAll is not supported there.
func (h *syncHandles) handle(dir string) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kernel == (kernelVersion{}) {
		h.kernel = runningKernel()
	}
	if !h.kernel.reportsWriteBackErrors() {
		return nil, nil
	}
	key := filepath.Clean(dir)
	if f := h.byDir[key]; f != nil {
		if sameDir(f, dir) {
			return f, nil
		}
		f.Close() // another directory has taken the name
		delete(h.byDir, key)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if !syncsWhole(f) {
		return nil, f.Close()
	}
	if h.byDir == nil {
		h.byDir = map[string]*os.File{}
	}
	h.byDir[key] = f
	return f, nil
}

func sameDir(f *os.File, dir string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(dir)
	return err == nil && os.SameFile(open, now)
}

// syncsWhole says whether syncfs on f's file system is as good as fsync of every file. It is not on overlayfs (errors
// of the layer below are lost) nor on FUSE and network file systems (the server is not told to sync), so only known
// file systems count.
func syncsWhole(f *os.File) bool {
	var st unix.Statfs_t
	if err := withFd(f, func(fd uintptr) error { return unix.Fstatfs(int(fd), &st) }); err != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// kernelVersion is the first two numbers of uname's release.
type kernelVersion struct{ major, minor int }

func runningKernel() kernelVersion {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return kernelVersion{major: 1} // unknown counts as old
	}
	return parseKernel(unix.ByteSliceToString(u.Release[:]))
}

// parseKernel reads a release such as "5.10.0-28-amd64"; what it cannot read counts as old.
func parseKernel(release string) kernelVersion {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return kernelVersion{major: 1}
	}
	digits := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		parts[1] = parts[1][:digits]
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil || major < 1 {
		return kernelVersion{major: 1}
	}
	return kernelVersion{major, minor}
}

func (k kernelVersion) atLeast(major, minor int) bool {
	return k.major > major || k.major == major && k.minor >= minor
}

// reportsWriteBackErrors: since Linux 5.8 syncfs reports pages that could not be written; before, it just succeeds.
func (k kernelVersion) reportsWriteBackErrors() bool { return k.atLeast(5, 8) }

// reportsJournalErrors: until about Linux 5.17 syncfs ignored what the file system's own sync answered, a failed
// journal commit for example; fsync of any file of it reports that.
func (k kernelVersion) reportsJournalErrors() bool { return k.atLeast(5, 18) }

// SyncAllNames says that a successful SyncAll makes names durable as well: syncfs commits the journal that holds them.
func (o *osFS) SyncAllNames() bool { return true }
