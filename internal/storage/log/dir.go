package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// LockFile is the file at the top of a log directory that keeps a second process out.
const LockFile = ".lock"

// errReserve is the cause of refused appends while only the reserve is left. vfs.IsNoSpace is true for it.
var errReserve = &fs.PathError{Op: "append", Path: "log directory", Err: syscall.ENOSPC}

// Dir is one log directory of a node: identity, lock, checkpoints and the partitions in it. It is safe for concurrent
// use; its lock is held while checkpoints are written and never while a Log is worked on.
type Dir struct {
	fs     vfs.FS
	path   string
	meta   MetaProperties
	lock   io.Closer
	clean  bool
	epoch  kafka.BrokerEpoch // of the clean shutdown
	synced bool              // everything was synced as a whole after an unclean stop

	blocks     sync.Pool
	badIndexes atomic.Int64
	openFiles  atomic.Int64
	rolled     atomic.Int64
	full       atomic.Bool
	reserve    atomic.Int64

	mu             sync.Mutex
	logs           map[string]*Log // by directory name; starts and recovery points of the live ones are checkpointed
	recovery       offsetFile
	starts         offsetFile
	highWatermarks offsetFile
	cleaned        offsetFile
	trash          []dirTrash
}

// namesSyncer is a file system whose SyncAll makes names durable as well as contents, as syncfs(2) does on journaling
// file systems. Elsewhere each directory needs a SyncDir besides, which costs a start or a flush of thousands of
// partitions as many barriers.
type namesSyncer interface{ SyncAllNames() bool }

func syncsNames(fsys vfs.FS) bool {
	x, ok := fsys.(namesSyncer)
	return ok && x.SyncAllNames()
}

// dirTrash is a partition's directory that waits to be removed.
type dirTrash struct {
	name string
	due  time.Time
}

// FormatDir makes dir a log directory with the given identity. An existing meta.properties is not replaced: that is
// fs.ErrExist.
func FormatDir(fsys vfs.FS, dir string, m MetaProperties) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	if _, err := fsys.Stat(path.Join(dir, MetaPropertiesFile)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "format", Path: dir, Err: fs.ErrExist}
		}
		return err
	}
	if err := WriteMetaProperties(fsys, dir, m); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(dir))
}

// OpenDir locks and opens a formatted log directory. Fields of want that are set must agree with its meta.properties. The
// clean shutdown marker is read and, durably, removed; without one everything in the directory's file system is synced,
// because recovery may only trust what is on the disk (kill -9 and then a power cut).
//
// Errors: fs.ErrNotExist when the directory is not formatted, vfs.ErrLocked when another process has it, *FormatError
// for a damaged file; anything else is the disk's.
func OpenDir(fsys vfs.FS, dir string, want MetaProperties) (_ *Dir, err error) {
	d := &Dir{fs: fsys, path: dir, epoch: NoBrokerEpoch, logs: make(map[string]*Log)}
	if d.meta, err = ReadMetaProperties(fsys, dir); err != nil {
		return nil, err
	}
	if err := d.checkIdentity(want); err != nil {
		return nil, err
	}
	if d.lock, err = fsys.Lock(path.Join(dir, LockFile)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.lock.Close())
		}
	}()
	if d.epoch, d.clean, err = ReadCleanShutdown(fsys, dir); err != nil {
		return nil, err
	}
	if err := d.readCheckpoints(); err != nil {
		return nil, err
	}
	if err := RemoveCleanShutdown(fsys, dir); err != nil {
		return nil, err
	}
	if !d.clean {
		// An error here may be anybody's, or the one that ended the last run: recovery then syncs file by file, and
		// reads from the disk what that kept.
		ok, failed := fsys.SyncAll(dir)
		d.synced = ok && failed == nil
		if err := fsys.SyncDir(dir); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Dir) checkIdentity(want MetaProperties) error {
	bad := func(what string, got, want any) error {
		return fmt.Errorf("%s says %s %v, but this node has %v", path.Join(d.path, MetaPropertiesFile), what, got, want)
	}
	m := d.meta
	switch {
	case want.ClusterID != "" && m.ClusterID != "" && m.ClusterID != want.ClusterID:
		return bad("cluster.id", m.ClusterID, want.ClusterID)
	case want.NodeID != kafka.NoNode && m.NodeID != kafka.NoNode && m.NodeID != want.NodeID:
		return bad("node.id", m.NodeID, want.NodeID)
	case !want.DirectoryID.IsZero() && m.DirectoryID != want.DirectoryID:
		return bad("directory.id", m.DirectoryID, want.DirectoryID)
	}
	return nil
}

// FS is the file system of the directory.
func (d *Dir) FS() vfs.FS { return d.fs }

// Path is the directory itself.
func (d *Dir) Path() string { return d.path }

// Meta is the directory's identity.
func (d *Dir) Meta() MetaProperties { return d.meta }

// CleanShutdown says whether the directory was closed in order, and in which broker epoch (NoBrokerEpoch: not known).
func (d *Dir) CleanShutdown() (kafka.BrokerEpoch, bool) { return d.epoch, d.clean }

// OpenFiles is how many files of the directory's logs are open, those of replies on the wire included.
func (d *Dir) OpenFiles() int64 { return d.openFiles.Load() }

// Rolled is how many segments were begun because the one before was complete.
func (d *Dir) Rolled() int64 { return d.rolled.Load() }

// BadIndexes counts index entries that turned out wrong and were worked around.
func (d *Dir) BadIndexes() int64 { return d.badIndexes.Load() }

// Partitions lists the partitions' directories in name order. Other directories are not Kafka's and are left alone.
func (d *Dir) Partitions() ([]PartitionDir, error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var out []PartitionDir
	for _, e := range entries {
		if !e.IsDir {
			continue
		}
		if p, ok := parseDirName(e.Name); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// Logs gives the open logs; the order is not defined.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		out = append(out, l)
	}
	return out
}

// SetReserve sets how many bytes are kept back for metadata, checkpoints and deletion; see Options.UseReserve.
func (d *Dir) SetReserve(bytes int64) { d.reserve.Store(bytes) }

// Full says whether appends are refused for lack of space.
func (d *Dir) Full() bool { return d.full.Load() }

// CheckSpace asks the file system for its free space and refuses appends while it is below the reserve. It is to be
// called now and then, and after an append failed for lack of space.
func (d *Dir) CheckSpace() (full bool, err error) {
	free, err := d.fs.Free(d.path)
	if err != nil {
		return d.full.Load(), err
	}
	full = free < d.reserve.Load()
	d.full.Store(full)
	return full, nil
}

// Close gives the lock back. With clean, all logs must have been closed in order and everything is durable: the
// checkpoints are written, then the marker with the broker epoch (NoBrokerEpoch: not known), so that the next start reads
// no segment.
func (d *Dir) Close(clean bool, epoch kafka.BrokerEpoch) error {
	var err error
	if clean {
		if err = d.Checkpoint(nil); err == nil {
			err = WriteCleanShutdown(d.fs, d.path, epoch)
		}
	}
	return errors.Join(err, d.lock.Close())
}

// block gives a read buffer; putBlock takes it back.
func (d *Dir) block() *block {
	if b, ok := d.blocks.Get().(*block); ok {
		return b
	}
	return new(block)
}

func (d *Dir) putBlock(b *block) { d.blocks.Put(b) }

// add registers an open log.
func (d *Dir) add(l *Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := *l.name.Load()
	if d.logs[name] != nil {
		return fmt.Errorf("%s is open already", l.Path())
	}
	d.logs[name] = l
	return nil
}

// remove forgets an open log; what it would be checkpointed with stays.
func (d *Dir) remove(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capture(l)
	delete(d.logs, *l.name.Load())
}
