package log

import (
	"errors"
	"os"
	"time"

	"moldau/internal/kafka"
)

// errClosed is the cause of every error after Close.
var errClosed = errors.New("the log is closed")

// CreateOptions are what Create needs to know beside Options.
type CreateOptions struct {
	Options
	TopicID kafka.UUID
	State   DirState   // Live or Future
	Unique  kafka.UUID // for the name of a Future directory
}

// Create makes an empty log with its first segment. It is durable with the first flush, which precedes the first
// acknowledgement. An existing directory is an error.
func (d *Dir) Create(tp kafka.TopicPartition, c *Config, o CreateOptions, now time.Time) (*Log, error) {
	name := tp.String()
	if o.State != Live {
		name = dirName(tp, o.State, o.Unique)
	}
	l := &Log{dir: d, tp: tp, state: o.State, options: o.Options, snapshotAt: kafka.NoOffset}
	l.name.Store(&name)
	l.config.Store(c)
	if _, err := d.fs.Stat(l.Path()); !isGone(err) {
		if err == nil {
			err = os.ErrExist
		}
		return nil, storageError("create "+l.Path(), err)
	}
	if err := d.fs.MkdirAll(l.Path()); err != nil {
		return nil, storageError("create", err)
	}
	l.unsynced.parent = true
	if err := l.begin(o.TopicID); err != nil {
		return nil, storageError("create", errors.Join(err, d.fs.RemoveAll(l.Path())))
	}
	return l, d.add(l)
}

// begin makes the first files of a log.
func (l *Log) begin(topic kafka.UUID) error {
	if err := l.writeTopicID(topic); err != nil {
		return err
	}
	s := newSegment(l, 0, 0)
	h, err := s.create(dataFile)
	if err != nil {
		return err
	}
	h.release()
	s.closeFiles()
	l.unsynced.names++
	v := &View{log: l, segments: []*segment{s}}
	v.tail.index = noIndex()
	l.view.Store(v)
	return nil
}

// SetTopicID writes partition.metadata into a log that has none. It is durable with the next flush.
func (l *Log) SetTopicID(topic kafka.UUID) error {
	if err := l.writeTopicID(topic); err != nil {
		return storageError("write topic id", err)
	}
	l.unsynced.names++
	return nil
}

// writeTopicID does not sync: the next flush does, before anything is acknowledged, and a torn file without
// acknowledged data is written again.
func (l *Log) writeTopicID(topic kafka.UUID) error {
	if topic.IsZero() {
		return nil
	}
	name := l.Path() + "/" + PartitionMetadataFile
	if err := writeFile(l.dir.fs, name, formatPartitionMetadata(topic)); err != nil {
		return err
	}
	l.topicID = topic
	l.unsynced.add(syncItem{name: PartitionMetadataFile})
	return nil
}

// Idle closes files that were not used since the last call, and is to be called at regular intervals. pending says that
// a flush must come first, because a dirty file is never closed before its sync: call Idle again after it.
func (l *Log) Idle() (pending bool, err error) {
	v := l.View()
	for _, s := range v.segments[:len(v.segments)-1] {
		s.closeUnused()
	}
	a := l.active
	if a == nil {
		v.last().closeUnused()
		return len(l.unsynced.items) > 0, nil // recovery made indexes anew
	}
	if a.used {
		a.used = false
		return false, nil
	}
	if l.failed != nil {
		return false, l.failed
	}
	if len(a.index.offsets)+len(a.index.times) > 0 {
		if err := a.writeIndexes(); err != nil {
			return false, storageError("write indexes", err)
		}
	}
	l.settleIndexes(a)
	if v.End > v.Durable || l.unsynced.cut || len(l.unsynced.items) > 0 {
		return true, nil
	}
	next := *v
	next.tail = tail{size: a.size, index: a.index}
	l.view.Store(&next)
	l.deactivate()
	next.last().closeFiles()
	return false, nil
}

// settleIndexes hands written index files over to the next flush.
func (l *Log) settleIndexes(a *active) {
	if !a.indexDirty {
		return
	}
	a.indexDirty = false
	l.noteIndexes(a.seg)
	l.unsynced.names++
}

// noteIndexes lists the open index files of a segment for the next flush.
func (l *Log) noteIndexes(s *segment) {
	for _, k := range []fileKind{offsetIndexFile, timeIndexFile} {
		if h := s.surrender(k); h != nil {
			l.unsynced.add(syncItem{file: h})
		}
	}
}

// PrepareClose writes what an orderly stop leaves behind: complete indexes and a producer snapshot of the log end. After
// a flush, MarkDurable and Close, the next start needs to read no segment. A log that was not touched writes nothing.
func (l *Log) PrepareClose(now time.Time) error {
	if l.failed != nil {
		return l.failed
	}
	if l.syncFailed.Load() {
		return storageError("close", ErrSyncFailed)
	}
	if err := l.closeIndexes(now); err != nil {
		return err
	}
	v := l.View()
	hasRecords := v.Size() > 0 || len(v.segments) > 1 || v.segments[0].base > 0
	if !l.options.NoProducers && l.snapshotAt != v.End && hasRecords {
		if err := l.producers.WriteSnapshot(l.dir.fs, l.Path(), v.End, false); err != nil {
			return storageError("write producer snapshot", err)
		}
		l.snapshotAt = v.End
		l.unsynced.add(syncItem{name: SnapshotName(v.End)})
		l.unsynced.names++
	}
	l.finished = true
	return nil
}

// closeIndexes completes the indexes of the last segment as a roll does.
func (l *Log) closeIndexes(now time.Time) error {
	v := l.View()
	x := v.tail.index
	complete := x.indexed >= x.newest.timestamp
	if l.active == nil && (!x.loaded || (complete && (x.made || v.tail.size == 0))) {
		return nil
	}
	a, err := l.activate(now)
	if err != nil {
		return err
	}
	a.addTimeEntry()
	if err := a.writeIndexes(); err != nil {
		return storageError("write indexes", err)
	}
	l.settleIndexes(a)
	if a.seg.txns.Load() != nil {
		l.unsynced.add(syncItem{name: segmentName(a.seg.base, TxnIndexSuffix)})
	}
	next := *v
	next.tail = a.tail()
	l.view.Store(&next)
	return nil
}

// Close closes the log's files. With clean it does an orderly stop on its own: PrepareClose, Sync and MarkDurable. A
// closed log refuses everything; views stay readable as far as files are deleted or were open.
func (l *Log) Close(clean bool, now time.Time) error {
	var err error
	if clean && l.failed == nil {
		err = l.closeClean(now)
	}
	l.release()
	l.dir.remove(l)
	return err
}

func (l *Log) closeClean(now time.Time) error {
	if err := l.PrepareClose(now); err != nil {
		return err
	}
	t := l.Dirty()
	if err := t.Sync(); err != nil {
		return err
	}
	l.MarkDurable(t)
	return nil
}

// release closes all files and refuses every later change.
func (l *Log) release() {
	l.deactivate()
	for _, s := range l.View().segments {
		s.retire()
	}
	for _, x := range l.unsynced.items {
		if x.file != nil {
			x.file.release()
		}
	}
	l.unsynced.items = nil
	l.failed = storageError("use", errClosed)
}
