package log

import (
	"path"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Delete takes a log away: its directory gets the name of a deleted one, every later use fails, and the files go by
// DeletePending after the topic's file.delete.delay.ms. Readers that hold extents finish. The owner's lock is held.
func (d *Dir) Delete(l *Log, unique kafka.UUID, now time.Time) error {
	due := now.Add(time.Duration(l.Config().FileDeleteDelayMs) * time.Millisecond)
	name, err := d.putAside(l, Deleted, unique)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trash = append(d.trash, dirTrash{name: name, due: due})
	return nil
}

// SetStray takes a log away that this broker is not assigned: its directory is renamed and kept.
func (d *Dir) SetStray(l *Log, unique kafka.UUID) error {
	_, err := d.putAside(l, Stray, unique)
	return err
}

// putAside renames the directory of an open log and closes it.
func (d *Dir) putAside(l *Log, state DirState, unique kafka.UUID) (string, error) {
	was, name := *l.name.Load(), dirName(l.tp, state, unique)
	l.gone.Store(true)
	if err := d.fs.Rename(path.Join(d.path, was), path.Join(d.path, name)); err != nil {
		return "", storageError("rename directory", err)
	}
	l.release()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, was)
	if l.state != Future || d.logs[l.tp.String()] == nil {
		d.forget(l.tp) // a copy that was about to take its place has entries too
	}
	l.name.Store(&name)
	return name, nil
}

// RenameStray gives a live directory that was not opened the name of a stray one.
func (d *Dir) RenameStray(p PartitionDir, unique kafka.UUID) error {
	name := dirName(p.Partition, Stray, unique)
	if err := d.fs.Rename(path.Join(d.path, p.Name), path.Join(d.path, name)); err != nil {
		return storageError("rename directory", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.State == Live {
		d.forget(p.Partition)
	}
	return nil
}

// ScheduleDeletion queues a directory that an earlier run left in state Deleted.
func (d *Dir) ScheduleDeletion(p PartitionDir, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trash = append(d.trash, dirTrash{name: p.Name, due: due})
}

// DeletePending removes the deleted directories that are due, and says when to call again; zero: nothing waits. The
// segments that live logs dropped are theirs to remove, see Log.DeletePending.
func (d *Dir) DeletePending(now time.Time) (next time.Time, err error) {
	d.mu.Lock()
	trash := slices.Clone(d.trash)
	d.mu.Unlock()
	gone := make(map[string]bool)
	for _, x := range trash {
		if x.due.After(now) {
			if next.IsZero() || x.due.Before(next) {
				next = x.due
			}
			continue
		}
		if err := d.fs.RemoveAll(path.Join(d.path, x.name)); err != nil {
			return now, storageError("delete directory", err)
		}
		gone[x.name] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trash = slices.DeleteFunc(d.trash, func(x dirTrash) bool { return gone[x.name] })
	return next, nil
}
