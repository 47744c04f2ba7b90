package vfs

import (
	"io"
	"time"
)

// FS is the file system as the cores see it. Names are slash-separated paths as given to the process. All methods are
// safe for concurrent use. Errors of the operating system are returned wrapped so that errors.Is works with the fs
// package's values and IsNoSpace tells a full disk from a broken one.
type FS interface {
	// Open opens name with os.O_RDONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC and O_APPEND as in package os.
	Open(name string, flag int) (File, error)
	// Rename replaces to by from atomically. The change is durable only after SyncDir of both directories.
	Rename(from, to string) error
	// Remove deletes a file or an empty directory; RemoveAll a whole tree, and nothing is not an error.
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(dir string) error
	// ReadDir lists a directory in name order.
	ReadDir(dir string) ([]DirEntry, error)
	Stat(name string) (Info, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// SyncAll writes back every dirty file of dir's file system with one call; false: not supported here, or errors
	// would go unreported, and nothing was done. An error may be that of a file of somebody else. It promises nothing
	// about names: see SyncDir. The directory whose Lock is held is told of every error since the Lock, another only
	// of those since its first SyncAll.
	SyncAll(dir string) (bool, error)
	// Evict drops the clean cached pages of name, so that the next read comes from the disk. Best effort.
	Evict(name string) error
	// Free gives the bytes an unprivileged writer may still write to dir's file system.
	Free(dir string) (int64, error)
	// Total gives the size in bytes of dir's file system.
	Total(dir string) (int64, error)
	// Lock takes an exclusive lock on name, which is created if missing; held until Close or the process ends.
	Lock(name string) (io.Closer, error)
}

// DirEntry is one name of a directory.
type DirEntry struct {
	Name  string
	IsDir bool
}

// Info describes a file.
type Info struct {
	Size    int64
	IsDir   bool
	ModTime time.Time
}

// File is one open file. ReadAt and WriteAt may be called from several goroutines; Write appends at the file's own
// position (the end, under O_APPEND) and belongs to one writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Writer
	io.Closer
	Truncate(size int64) error
	// Sync makes the contents durable, not the name: see FS.SyncDir. An error is final: the pages may already be
	// marked clean, so it must never be retried.
	Sync() error
	Size() (int64, error)
	// SetModTime sets the modification time (compaction keeps that of the segments it replaces).
	SetModTime(t time.Time) error
	// Sendable gives the descriptor for sendfile; ok only for a real file.
	Sendable() (fd uintptr, ok bool)
}
