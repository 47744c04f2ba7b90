package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	filePerm = 0o644
	dirPerm  = 0o755
)

// OS is the file system of the machine. A process makes one and shares it: it remembers a descriptor for each
// directory that SyncAll was asked to sync (see there).
//
// File.Sync is fdatasync on Linux: the contents and the size, not the modification time. SyncDir does nothing on
// Windows, which cannot open a directory for it and journals names itself. Evict works on Linux only.
func OS() FS { return &osFS{} }

type osFS struct {
	syncs syncHandles
}

func (o *osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (o *osFS) Rename(from, to string) error     { return os.Rename(from, to) }
func (o *osFS) Remove(name string) error         { return os.Remove(name) }
func (o *osFS) RemoveAll(name string) error      { return os.RemoveAll(name) }
func (o *osFS) MkdirAll(dir string) error        { return os.MkdirAll(dir, dirPerm) }
func (o *osFS) SyncDir(dir string) error         { return syncDir(dir) }
func (o *osFS) SyncAll(dir string) (bool, error) { return o.syncs.syncAll(dir) }
func (o *osFS) Evict(name string) error          { return evict(name) }
func (o *osFS) Free(dir string) (int64, error) {
	free, _, err := diskSpace(dir)
	return free, err
}
func (o *osFS) Total(dir string) (int64, error) {
	_, total, err := diskSpace(dir)
	return total, err
}
func (o *osFS) ReadDir(dir string) ([]DirEntry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]DirEntry, len(list))
	for i, e := range list {
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			// A partition directory may be a link to another disk; a link that leads nowhere counts as a file.
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			isDir = err == nil && info.IsDir()
		}
		entries[i] = DirEntry{Name: e.Name(), IsDir: isDir}
	}
	return entries, nil
}

func (o *osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), IsDir: info.IsDir(), ModTime: info.ModTime()}, nil
}

func (o *osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, wrap("lock", name, err)
	}
	dir := filepath.Dir(name)
	o.syncs.watch(dir)
	return &osLock{file: f, dir: dir, syncs: &o.syncs}, nil
}

// osLock is a held lock. The file stays: another process may already wait for this inode.
type osLock struct {
	file  *os.File
	dir   string
	syncs *syncHandles
}

func (l *osLock) Close() error {
	l.syncs.forget(l.dir)
	return l.file.Close() // closing the descriptor gives the lock back
}

// osFile is an os.File, which repeats EINTR and partial writes itself.
type osFile struct {
	*os.File
}

func (f *osFile) Sync() error { return wrap("sync", f.Name(), syncFile(f.File)) }

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) SetModTime(t time.Time) error {
	return wrap("chtimes", f.Name(), setModTime(f.File, t))
}

// Sendable gives the descriptor, which stays valid until Close.
func (f *osFile) Sendable() (uintptr, bool) { return f.Fd(), true }

// withFd runs op on the descriptor, which cannot be closed and reused meanwhile, and repeats it while it is
// interrupted.
func withFd(f *os.File, op func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if opErr = op(fd); !isInterrupted(opErr) {
				return
			}
		}
	})
	if err != nil {
		return fs.ErrClosed // the only thing that can be wrong with it
	}
	return opErr
}
