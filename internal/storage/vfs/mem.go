package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// unlimitedFree is what Free answers without a capacity: plenty, and safe to add to.
const unlimitedFree = math.MaxInt64 / 4

// Mem is a file system in memory that behaves like a disk with a page cache: CrashClone gives what a power cut would
// leave of it, KillClone what a killed process leaves.
//
// Rules, each at most as kind as ext4 and XFS:
//   - File.Sync makes the contents and size of one file durable, SyncAll those of every file. Neither makes a name
//     durable, not even that of the file synced.
//   - SyncDir makes the names in one directory durable, not the directory's own name in its parent, nor contents.
//   - A rename is one change, never half done; between two directories it is durable after SyncDir of both.
//   - What is not durable may survive in any combination: a later write without an earlier one, a size without its
//     data (zeros), data without its size, a name without its data.
//   - Removed names come back when the removal was not synced, and so do truncated contents.
//
// Relative and absolute names are the same: everything lies under one root. Directories cannot be opened.
type Mem struct {
	clock func() time.Time
	space space

	calls   atomic.Int64 // mutating calls so far
	crashAt atomic.Int64 // the call that crashes; 0: none
	crashed atomic.Bool

	mu      sync.RWMutex // names exclusively; shared by everything that changes a file's data
	root    *inode
	pending []*change // not durable, oldest first; may hold settled ones
	settled int       // how many of pending are durable by now
	locks   map[*inode]bool

	dirtyMu    sync.Mutex          // for those who hold mu shared
	dirtyFiles map[*inode]struct{} // that SyncAll has to write
	errSeq     uint64              // failed write-backs
	errSeen    uint64              // the newest of them that SyncAll has told
}

// MemOptions configures NewMem; the zero value is fine.
type MemOptions struct {
	// Capacity in bytes, used in pages of 4 KiB; 0: no limit. Names take no space.
	Capacity int64
	// Now gives modification times. Default: a clock that moves a millisecond with each mutating call.
	Now func() time.Time
}

// NewMem makes an empty disk.
func NewMem(o MemOptions) *Mem {
	m := &Mem{clock: o.Now, root: newDir(), locks: map[*inode]bool{}, dirtyFiles: map[*inode]struct{}{}}
	m.root.links = 1
	m.space.capacity.Store(o.Capacity)
	return m
}

// SetCapacity changes the size of the disk in bytes; 0: no limit. What is there stays.
func (m *Mem) SetCapacity(bytes int64) { m.space.capacity.Store(bytes) }

// Calls counts the mutating calls since NewMem, or since the clone was taken: every Write, WriteAt, Truncate, Sync,
// SetModTime, SyncDir, SyncAll and Rename, and every file or directory that another call creates, empties or removes.
func (m *Mem) Calls() int64 { return m.calls.Load() }

// CrashAt makes the n-th mutating call (see Calls) the last: it is done as far as a call in progress may be, a write by
// some prefix and a sync not at all, and it and every later call fail with ErrCrashed. 0: never.
func (m *Mem) CrashAt(n int64) { m.crashAt.Store(n) }

// Crash makes every later call fail with ErrCrashed.
func (m *Mem) Crash() { m.crashed.Store(true) }

// Crashed says whether the crash has happened.
func (m *Mem) Crashed() bool { return m.crashed.Load() }

func (m *Mem) now() time.Time {
	if m.clock != nil {
		return m.clock()
	}
	return time.UnixMilli(m.calls.Load())
}

func (m *Mem) alive() error {
	if m.crashed.Load() {
		return ErrCrashed
	}
	return nil
}

// step counts a mutating call. last: the caller still does the call, or part of it, and then answers ErrCrashed.
func (m *Mem) step() (last bool, err error) {
	if m.crashed.Load() {
		return false, ErrCrashed
	}
	n := m.calls.Add(1)
	if at := m.crashAt.Load(); at > 0 && n >= at {
		m.crashed.Store(true)
		return true, nil
	}
	return false, nil
}

// change counts a mutating call and runs do, the whole of it, even if it is the last.
func (m *Mem) change(do func() error) error {
	last, err := m.step()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if last {
		return ErrCrashed
	}
	return nil
}

// Open implements FS.
func (m *Mem) Open(name string, flag int) (File, error) {
	f, err := m.open(name, flag)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	return f, nil
}

func (m *Mem) open(name string, flag int) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return nil, err
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	n := dir.dir.entries[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case n == nil:
		if n, err = m.create(dir, base); err != nil {
			return nil, err
		}
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case n.dir != nil:
		return nil, syscall.EISDIR
	case flag&os.O_TRUNC != 0:
		if err := m.empty(n); err != nil {
			return nil, err
		}
	}
	n.opens.Add(1)
	n.mu.RLock()
	defer n.mu.RUnlock()
	return &memFile{mem: m, node: n, name: name, flag: flag, errSeen: n.errSeen}, nil
}

// create makes an empty file. m.mu is held, as for empty.
func (m *Mem) create(dir *inode, base string) (*inode, error) {
	now := m.now()
	n := &inode{mtime: now, diskTime: now}
	return n, m.change(func() error {
		m.commit(nil, edit{dir, base, n})
		return nil
	})
}

func (m *Mem) empty(n *inode) error {
	return m.change(func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		return m.truncate(n, 0)
	})
}

// truncate resizes n. n.mu is held.
func (m *Mem) truncate(n *inode, size int64) error {
	err := n.truncate(&m.space, size)
	m.touched(n)
	return err
}

// touched sets the modification time and lists n for SyncAll. n.mu is held.
func (m *Mem) touched(n *inode) {
	n.mtime = m.now()
	m.list(n)
}

func (m *Mem) list(n *inode) {
	if n.listed {
		return
	}
	n.listed = true
	m.dirtyMu.Lock()
	m.dirtyFiles[n] = struct{}{}
	m.dirtyMu.Unlock()
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	if err := m.rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (m *Mem) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return err
	}
	fromDir, fromBase, err := m.parent(from)
	if err != nil {
		return err
	}
	n := fromDir.dir.entries[fromBase]
	if n == nil {
		return fs.ErrNotExist
	}
	toDir, toBase, err := m.parent(to)
	if err != nil {
		return err
	}
	old := toDir.dir.entries[toBase]
	switch {
	case old == n && n.dir == nil:
		return nil
	case old != nil && old.dir != nil:
		return fs.ErrExist // as package os does it
	case old != nil && n.dir != nil:
		return syscall.ENOTDIR
	case n.dir != nil && m.inside(to, n):
		return syscall.EINVAL
	}
	return m.change(func() error {
		m.commit(nil, edit{toDir, toBase, n}, edit{fromDir, fromBase, nil})
		return nil
	})
}

// inside says whether name lies in directory n.
func (m *Mem) inside(name string, n *inode) bool {
	for dir := path.Dir(path.Clean("/" + name)); dir != "/"; dir = path.Dir(dir) {
		if at, err := m.lookup(dir); err == nil && at == n {
			return true
		}
	}
	return false
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return wrap("remove", name, err)
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return wrap("remove", name, err)
	}
	return wrap("remove", name, m.unlink(dir, base))
}

// unlink removes a file or an empty directory. m.mu is held.
func (m *Mem) unlink(dir *inode, base string) error {
	n := dir.dir.entries[base]
	if n == nil {
		return fs.ErrNotExist
	}
	emptied := n
	if n.dir == nil {
		emptied = nil
	} else if len(n.dir.entries) > 0 {
		return syscall.ENOTEMPTY
	}
	return m.change(func() error {
		m.commit(emptied, edit{dir, base, nil})
		return nil
	})
}

// RemoveAll implements FS. Each file and directory is a call of its own, as it is for the kernel.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return wrap("removeall", name, err)
	}
	dir, base, err := m.parent(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return wrap("removeall", name, err)
	}
	return wrap("removeall", name, m.removeTree(dir, base))
}

func (m *Mem) removeTree(dir *inode, base string) error {
	n := dir.dir.entries[base]
	if n == nil {
		return nil
	}
	if n.dir != nil {
		for _, name := range n.dir.names() {
			if err := m.removeTree(n, name); err != nil {
				return err
			}
		}
	}
	return m.unlink(dir, base)
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return wrap("mkdir", dir, err)
	}
	at := m.root
	for _, part := range components(dir) {
		next := at.dir.entries[part]
		if next == nil {
			next = newDir()
			err := m.change(func() error {
				m.commit(nil, edit{at, part, next})
				return nil
			})
			if err != nil {
				return wrap("mkdir", dir, err)
			}
		}
		if next.dir == nil {
			return wrap("mkdir", dir, syscall.ENOTDIR)
		}
		at = next
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(dir string) ([]DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(dir)
	if err == nil && n.dir == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, wrap("readdir", dir, err)
	}
	names := n.dir.names()
	entries := make([]DirEntry, len(names))
	for i, name := range names {
		entries[i] = DirEntry{Name: name, IsDir: n.dir.entries[name].dir != nil}
	}
	return entries, nil
}

// find is lookup on a machine that is up.
func (m *Mem) find(name string) (*inode, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.lookup(name)
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return Info{}, wrap("stat", name, err)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Info{Size: n.size, IsDir: n.dir != nil, ModTime: n.mtime}, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && n.dir == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return wrap("sync", dir, err)
	}
	last, err := m.step()
	if err == nil && last {
		err = ErrCrashed
	}
	if err != nil {
		return wrap("sync", dir, err)
	}
	m.syncNames(n)
	return nil
}

// SyncAll implements FS: contents only, and a failed write-back of any file is reported once.
func (m *Mem) SyncAll(dir string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(dir); err != nil {
		return true, wrap("syncfs", dir, err)
	}
	last, err := m.step()
	if err == nil && last {
		err = ErrCrashed
	}
	if err != nil {
		return true, wrap("syncfs", dir, err)
	}
	for n := range m.dirtyFiles { // in any order: all are written before anybody looks; m.mu keeps the others out
		n.mu.Lock()
		n.writeBack()
		n.listed = false
		n.mu.Unlock()
	}
	clear(m.dirtyFiles)
	if m.errSeq > m.errSeen {
		m.errSeen = m.errSeq
		return true, wrap("syncfs", dir, syscall.EIO)
	}
	return true, nil
}

// Evict implements FS.
func (m *Mem) Evict(name string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return wrap("evict", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.evict()
	return nil
}

// Free implements FS.
func (m *Mem) Free(dir string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find(dir); err != nil {
		return 0, wrap("statfs", dir, err)
	}
	return m.space.free(), nil
}

// Total implements FS: the capacity, or what is free where there is none.
func (m *Mem) Total(dir string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find(dir); err != nil {
		return 0, wrap("statfs", dir, err)
	}
	return m.space.total(), nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return nil, wrap("lock", name, err)
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, wrap("lock", name, err)
	}
	n := dir.dir.entries[base]
	if n == nil {
		if n, err = m.create(dir, base); err != nil {
			return nil, wrap("lock", name, err)
		}
	}
	switch {
	case n.dir != nil:
		return nil, wrap("lock", name, syscall.EISDIR)
	case m.locks[n]:
		return nil, wrap("lock", name, ErrLocked)
	}
	m.locks[n] = true
	return &memLock{mem: m, node: n}, nil
}

type memLock struct {
	mem  *Mem
	node *inode // nil: given back
}

func (l *memLock) Close() error {
	l.mem.mu.Lock()
	defer l.mem.mu.Unlock()
	if l.node == nil {
		return fs.ErrClosed
	}
	delete(l.mem.locks, l.node)
	l.node = nil
	return nil
}

// FailWriteback is the kernel failing to write back, on its own account, every dirty file whose name matches glob (as
// in Faulty's rules): the pages are clean and not durable from now on, reads show them until Evict, and the next Sync
// of each open handle and the next SyncAll answer EIO once. It gives the number of files that lost something.
func (m *Mem) FailWriteback(glob string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failTree(m.root, "", glob)
}

func (m *Mem) failTree(dir *inode, name, glob string) int {
	failed := 0
	for _, base := range dir.dir.names() {
		n, full := dir.dir.entries[base], name+"/"+base
		if n.dir != nil {
			failed += m.failTree(n, full, glob)
			continue
		}
		if matchName(glob, full) && m.failFile(n) {
			failed++
		}
	}
	return failed
}

func (m *Mem) failFile(n *inode) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	lost := n.failWriteBack()
	if lost {
		m.dirtyMu.Lock()
		m.errSeq++
		m.dirtyMu.Unlock()
	}
	return lost
}
