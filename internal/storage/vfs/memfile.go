package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// memFile is an open file of a Mem.
type memFile struct {
	mem     *Mem
	node    *inode
	name    string
	flag    int
	closed  atomic.Bool
	pos     int64  // of Write; guarded by node.mu
	errSeen uint64 // newest failed write-back that this handle was told of; guarded by node.mu
}

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

func (f *memFile) usable() error {
	if f.closed.Load() {
		return fs.ErrClosed
	}
	return f.mem.alive()
}

func (f *memFile) writable() error {
	if err := f.usable(); err != nil {
		return err
	}
	if f.flag&accessMode == os.O_RDONLY {
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	err := f.usable()
	switch {
	case err == nil && f.flag&accessMode == os.O_WRONLY:
		err = syscall.EBADF
	case err == nil && off < 0:
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, wrap("read", f.name, err)
	}
	f.node.mu.RLock()
	n := f.node.readAt(p, off)
	f.node.mu.RUnlock()
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	return f.write(p, func() int64 {
		if f.flag&os.O_APPEND != 0 {
			return f.node.size
		}
		return f.pos
	}, func(end int64) { f.pos = end })
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if f.flag&os.O_APPEND != 0 {
		return 0, wrap("write", f.name, syscall.EINVAL) // package os refuses it too
	}
	return f.write(p, func() int64 { return off }, func(int64) {})
}

// write puts p where at says, under the inode's lock, and reports the end.
func (f *memFile) write(p []byte, at func() int64, moved func(end int64)) (int, error) {
	if err := f.writable(); err != nil {
		return 0, wrap("write", f.name, err)
	}
	m := f.mem
	m.mu.RLock()
	defer m.mu.RUnlock()
	last, err := m.step()
	if err != nil {
		return 0, wrap("write", f.name, err)
	}
	if last {
		p = p[:scramble(uint64(m.calls.Load()))%uint64(len(p)+1)]
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	off := at()
	n, err := f.node.writeAt(&m.space, p, off)
	if n > 0 {
		m.touched(f.node)
	}
	moved(off + int64(n))
	if last {
		return 0, wrap("write", f.name, ErrCrashed)
	}
	return n, wrap("write", f.name, err)
}

// mutate runs do under the locks as one mutating call, unless the handle does not allow it.
func (f *memFile) mutate(op string, allowed error, do func() error) error {
	if allowed != nil {
		return wrap(op, f.name, allowed)
	}
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	return wrap(op, f.name, f.mem.change(func() error {
		f.node.mu.Lock()
		defer f.node.mu.Unlock()
		return do()
	}))
}

func (f *memFile) Truncate(size int64) error {
	return f.mutate("truncate", f.writable(), func() error { return f.mem.truncate(f.node, size) })
}

func (f *memFile) SetModTime(t time.Time) error {
	return f.mutate("chtimes", f.usable(), func() error {
		f.node.mtime = t
		f.mem.list(f.node)
		return nil
	})
}

// Sync writes everything that is dirty. An earlier failed write-back is reported once, although what is dirty now is
// written: pages that failed before are not.
func (f *memFile) Sync() error { return wrap("sync", f.name, f.sync(false)) }

// failSync is a Sync that fails: whatever was dirty is lost, and this handle has been told.
func (f *memFile) failSync() error { return f.sync(true) }

func (f *memFile) sync(fail bool) error {
	if err := f.usable(); err != nil {
		return err
	}
	m := f.mem
	m.mu.RLock()
	defer m.mu.RUnlock()
	last, err := m.step()
	if err != nil {
		return err
	}
	if last {
		return ErrCrashed
	}
	if fail {
		m.failFile(f.node)
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	told := f.errSeen
	f.errSeen, f.node.errSeen = f.node.errSeq, f.node.errSeq
	switch {
	case fail:
		return nil
	case m.unlist(f.node):
		f.node.writeBack()
	}
	if f.node.errSeq > told {
		return syscall.EIO
	}
	return nil
}

// unlist takes n off the list of SyncAll; false: it is not on it. n.mu is held.
func (m *Mem) unlist(n *inode) bool {
	if !n.listed {
		return false
	}
	n.listed = false
	m.dirtyMu.Lock()
	delete(m.dirtyFiles, n)
	m.dirtyMu.Unlock()
	return true
}

func (f *memFile) Size() (int64, error) {
	if err := f.usable(); err != nil {
		return 0, wrap("stat", f.name, err)
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.size, nil
}

// Close closes the handle, even on a crashed machine.
func (f *memFile) Close() error {
	if !f.closed.CompareAndSwap(false, true) {
		return wrap("close", f.name, fs.ErrClosed)
	}
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if f.node.opens.Add(-1) == 0 {
		f.mem.release(f.node)
	}
	return wrap("close", f.name, f.mem.alive())
}

// Sendable says no: there is no descriptor.
func (f *memFile) Sendable() (uintptr, bool) { return 0, false }
