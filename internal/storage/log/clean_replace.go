package log

import (
	"slices"

	"moldau/internal/kafka"
)

// replacement is a group of segments that is just being replaced; the owner's lock guards it.
type replacement struct {
	old   []*segment
	new   *segment
	shown bool // readers are given the new one, and the files of the old ones have the ending .deleted
}

// replace does one of the stages that follow the rewriting of a group.
func (x *Cleaning) replace() error {
	switch x.stage {
	case cleanSealing:
		return x.seal()
	case cleanNaming:
		return x.name()
	case cleanSwapping:
		return x.swap()
	case cleanSettling:
		return x.settle()
	case cleanNamed, cleanSwapped, cleanSettled:
		return x.syncNames()
	case cleanRecording:
		return x.record()
	}
	if err := x.log.dir.saveCleaned(); err != nil {
		return err
	}
	x.stage = cleanDone
	return nil
}

// seal makes the new segment complete and durable, and everything else that a replacement relies on.
func (x *Cleaning) seal() error {
	s, g := &x.sieve, &x.group
	if !g.changed {
		s.done.BytesAfter += segmentBytes(g.old)
		s.done.SegmentsAfter++
		g.discard()
		x.stage = cleanRewriting
		return nil
	}
	if err := g.seal(s.kept); err != nil {
		return err
	}
	s.done.BytesAfter += g.new.size
	s.done.BytesWritten += g.new.size
	s.done.SegmentsAfter++
	if !x.vouched {
		if err := x.log.dir.vouch(x.log); err != nil {
			return err
		}
		x.vouched = true
	}
	for i := range g.old {
		if err := x.freeze(g.next - len(g.old) + i); err != nil {
			return err
		}
	}
	var err error
	if x.snapshots, err = x.log.snapshotsBefore(x.view.endOf(g.next - 1)); err != nil {
		return err
	}
	x.stage = cleanNaming
	return nil
}

// freeze takes the transaction index of segment i into memory, so that readers of older views find in it what belongs to
// the bytes that they read, and not what the new segment says.
func (x *Cleaning) freeze(i int) error {
	index, err := x.view.txnIndex(i)
	if err != nil || index == nil {
		return err
	}
	all, err := index.All()
	if err != nil {
		return err
	}
	index.freeze(all)
	return nil
}

// valid says why the group must not be replaced. The owner's lock is held.
func (x *Cleaning) valid() error {
	l := x.log
	if l.failed != nil || l.unsynced.generation != x.generation || x.place() < 0 {
		return ErrCleanAborted
	}
	return nil
}

// place gives the number of the group's first segment in the present view; -1 when the group is not there as it was.
func (x *Cleaning) place() int {
	now, old := x.log.View().segments, x.group.old
	i := slices.Index(now, old[0])
	if i < 0 || i+len(old) >= len(now) || !slices.Equal(now[i:i+len(old)], old) {
		return -1
	}
	return i
}

// name renames the new segment's files to .swap: from the next sync on a start finishes what is begun here.
func (x *Cleaning) name() error {
	l := x.log
	if !l.Config().Compact {
		return ErrCleanAborted
	}
	if err := x.valid(); err != nil {
		return err
	}
	l.replacing = &replacement{old: x.group.old, new: x.group.new}
	if err := x.group.new.rename(endingSwap); err != nil {
		l.failed = storageError("compact", err)
		return l.failed
	}
	x.stage = cleanNamed
	return nil
}

// swap shows readers the new segment, and puts the old files aside only then: a reader whose view still names them is told
// that its segments are gone, and finds another view when it looks for one.
func (x *Cleaning) swap() error {
	if err := x.valid(); err != nil {
		return err
	}
	l, g, i := x.log, &x.group, x.place()
	next := *l.View()
	next.segments = slices.Concat(next.segments[:i], []*segment{g.new}, next.segments[i+len(g.old):])
	next.sealed += g.new.size - segmentBytes(g.old)
	l.view.Store(&next)
	for _, s := range g.old {
		s.retire()
	}
	l.replacing.shown = true
	if err := x.dropFiles(); err != nil {
		l.failed = storageError("compact", err)
		return l.failed
	}
	x.stage = cleanSwapped
	return nil
}

// dropFiles puts the files of the old segments aside, and the producer snapshots up to their end: what those say of open
// transactions is no longer true of a log whose markers are gone. A start takes a newer one.
func (x *Cleaning) dropFiles() error {
	l := x.log
	for _, s := range x.group.old {
		if err := l.renameSegment(s.base); err != nil {
			return err
		}
	}
	for _, offset := range x.snapshots {
		if err := RemoveSnapshot(l.dir.fs, l.Path(), offset); err != nil {
			return err
		}
	}
	if end := x.view.endOf(x.group.next - 1); l.snapshotAt < end {
		l.snapshotAt = kafka.NoOffset
	}
	return nil
}

// settle gives the new segment its live names.
func (x *Cleaning) settle() error {
	l := x.log
	if l.failed != nil || l.unsynced.generation != x.generation { // a cut has settled it
		return ErrCleanAborted
	}
	if err := l.settleReplacement(); err != nil {
		l.failed = storageError("compact", err)
		return l.failed
	}
	x.stage = cleanSettled
	return nil
}

// settleReplacement ends a replacement whose old names are durably gone.
func (l *Log) settleReplacement() error {
	r := l.replacing
	if err := r.new.rename(endingLive); err != nil {
		return err
	}
	if index := r.new.txns.Load(); index != nil {
		index.thaw()
	}
	l.trash.mu.Lock()
	for _, s := range r.old {
		l.trash.items = append(l.trash.items, discarded{segment: s, end: s.base, renamed: true})
	}
	l.trash.mu.Unlock()
	l.replacing = nil
	return nil
}

// endReplacement ends, durably, a replacement that a cut of the log meets: one that readers have not seen is undone, or
// the next start would put it over what is written after the cut.
func (l *Log) endReplacement() error {
	r := l.replacing
	if r == nil {
		return nil
	}
	if r.shown {
		if err := l.dir.fs.SyncDir(l.Path()); err != nil {
			return err
		}
		return l.settleReplacement()
	}
	for _, suffix := range cleanedSuffixes {
		if err := l.dir.fs.Remove(r.new.path(suffix)); err != nil && !isGone(err) {
			return err
		}
	}
	l.replacing = nil
	return l.dir.fs.SyncDir(l.Path())
}

// syncNames makes the renames of the stage before durable.
func (x *Cleaning) syncNames() error {
	if err := x.log.dir.fs.SyncDir(x.log.Path()); err != nil {
		return err
	}
	if x.stage == cleanSettled {
		x.group = cleanGroup{}
		x.stage = cleanRewriting
		return nil
	}
	x.stage++
	return nil
}

// record notes how far compaction has come.
func (x *Cleaning) record() error {
	l := x.log
	if l.failed != nil || l.unsynced.generation != x.generation {
		return ErrCleanAborted
	}
	x.sieve.keys = nil
	l.dir.noteCleaned(l, x.sieve.end)
	l.cleaning = nil
	x.stage = cleanRecorded
	return nil
}
