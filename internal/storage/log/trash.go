package log

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"moldau/internal/kafka"
)

// trash holds segments that are no longer part of the log and whose files wait to go.
type trash struct {
	mu    sync.Mutex
	busy  sync.Mutex // held while files are renamed and removed; taken before mu
	items []discarded
}

type discarded struct {
	segment *segment
	end     kafka.Offset
	renamed bool      // to .deleted, durably
	due     time.Time // zero: not set yet
}

// segmentSuffixes are all files that belong to a segment.
var segmentSuffixes = [...]string{dataSuffix, offsetIndexSuffix, timeIndexSuffix, TxnIndexSuffix, snapshotSuffix}

// DeletePending moves the deletion of dropped segments on: their files are renamed to .deleted once the log start that
// drops them is durable in the directory's checkpoint (otherwise a crash could bring back some of them and not others),
// and removed file.delete.delay.ms later. It says when to call again; zero: nothing waits. It syncs, and is called
// without the owner's lock.
func (l *Log) DeletePending(now time.Time) (next time.Time, err error) {
	l.trash.busy.Lock()
	defer l.trash.busy.Unlock()
	l.trash.mu.Lock()
	items := slices.Clone(l.trash.items)
	l.trash.mu.Unlock()
	if len(items) == 0 {
		return time.Time{}, nil
	}
	if err := l.renameDiscarded(items); err != nil {
		return now, storageError("delete segments", err)
	}
	due := now.Add(time.Duration(l.Config().FileDeleteDelayMs) * time.Millisecond)
	var keep []discarded
	for _, x := range items {
		if x.due.IsZero() {
			x.due = due
		}
		if x.due.After(now) {
			keep = append(keep, x)
			if next.IsZero() || x.due.Before(next) {
				next = x.due
			}
			continue
		}
		if err := l.unlink(x.segment.base); err != nil {
			return now, storageError("delete segments", err)
		}
	}
	l.trash.mu.Lock()
	l.trash.items = append(keep, l.trash.items[len(items):]...)
	l.trash.mu.Unlock()
	return next, nil
}

// renameDiscarded gives the files of the items that have them still their .deleted names, durably.
func (l *Log) renameDiscarded(items []discarded) error {
	var pending []*discarded
	for i := range items {
		if !items[i].renamed {
			pending = append(pending, &items[i])
		}
	}
	if len(pending) == 0 {
		return nil
	}
	if err := l.dir.saveStart(l, pending[len(pending)-1].end); err != nil {
		return err
	}
	for _, x := range pending {
		if err := l.renameSegment(x.segment.base); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.Path()); err != nil {
		return err
	}
	for _, x := range pending {
		x.renamed = true
	}
	return nil
}

// renameSegment gives the files of a segment their .deleted names.
func (l *Log) renameSegment(base kafka.Offset) error {
	for _, suffix := range segmentSuffixes {
		name := path.Join(l.Path(), segmentName(base, suffix))
		err := l.dir.fs.Rename(name, name+deletedSuffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (l *Log) unlink(base kafka.Offset) error {
	for _, suffix := range segmentSuffixes {
		err := l.dir.fs.Remove(path.Join(l.Path(), segmentName(base, suffix)+deletedSuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeSegments takes segments that a cut drops out of the way, last first, so that a crash never leaves a later one
// without an earlier one. The caller syncs the directory.
func (l *Log) removeSegments(segments []*segment) error {
	for _, s := range slices.Backward(segments) {
		if err := l.renameSegment(s.base); err != nil {
			return err
		}
		s.retire()
		l.trash.mu.Lock()
		l.trash.items = append(l.trash.items, discarded{segment: s, end: s.base, renamed: true})
		l.trash.mu.Unlock()
	}
	return nil
}

// renameTrash renames at once what waits for the log start to be durable. The caller syncs the directory.
func (l *Log) renameTrash() error {
	l.trash.busy.Lock()
	defer l.trash.busy.Unlock()
	l.trash.mu.Lock()
	items := slices.Clone(l.trash.items)
	l.trash.mu.Unlock()
	for i, x := range slices.Backward(items) {
		if x.renamed {
			continue
		}
		if err := l.renameSegment(x.segment.base); err != nil {
			return err
		}
		items[i].renamed = true
	}
	l.trash.mu.Lock()
	l.trash.items = items // only the owner adds, and it is here
	l.trash.mu.Unlock()
	return nil
}

// firstOnDisk gives the base of the first segment whose files still have their live names.
func (l *Log) firstOnDisk() kafka.Offset {
	first := l.View().segments[0].base
	l.trash.mu.Lock()
	defer l.trash.mu.Unlock()
	for _, x := range l.trash.items {
		if !x.renamed {
			first = min(first, x.segment.base)
		}
	}
	return first
}
