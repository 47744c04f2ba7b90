package log

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// TruncateTo removes everything from end on, because the leader's log parts from this one there (KIP-101). A batch that
// contains end goes whole: the log end says where the follower has to go on. Durable end and recovery point fall with it;
// the checkpoint of the recovery point falls first, durably, so this is one of the few calls that sync under the owner's
// lock. An end at or beyond the log end only drops epochs in which nothing was written here.
//
// An error leaves a log that takes no more changes; the directory is offline.
func (l *Log) TruncateTo(end kafka.Offset) error {
	if l.failed != nil {
		return l.failed
	}
	v := l.View()
	if end >= v.End {
		l.dropEpochs(l.epochs.TruncateEnd(v.End))
		return nil
	}
	if end < v.segments[0].base {
		return l.TruncateFullyAndStartAt(end)
	}
	i := v.find(end)
	end, pos, err := v.cutPoint(i, end)
	if err != nil {
		return storageError("truncate", err)
	}
	l.finished = false
	l.cutting.Store(true)
	defer l.cutting.Store(false)
	if err := l.truncate(v, i, end, pos); err != nil {
		l.failed = storageError("truncate", err)
		return l.failed
	}
	return nil
}

// cutPoint gives the place in segment i at which a cut to end falls, and the log end after it: that of the last batch
// that stays, as a restart would find it.
func (v *View) cutPoint(i int, end kafka.Offset) (kafka.Offset, int64, error) {
	s := v.segments[i]
	data, err := s.acquire(dataFile)
	if err != nil {
		return 0, 0, err
	}
	defer data.release()
	pos, err := v.locate(i, end, data)
	if err != nil || pos == 0 {
		return s.base, 0, err
	}
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h, err := v.scanFrom(i, end-1, data, b)
	if err != nil {
		return 0, 0, err
	}
	h.end = pos
	last := s.base - 1
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) {
			return last + 1, pos, nil
		}
		if err != nil {
			return 0, 0, err
		}
		last = x.last
	}
}

// truncate makes segment i end at pos and the log at end. The order is that of what recovery trusts: checkpoint, epochs
// and producer snapshots first, then whole segments from the end, then the bytes of the segment that stays.
func (l *Log) truncate(v *View, i int, end kafka.Offset, pos int64) error {
	if err := l.forgetBeyond(end, min(v.Start, end)); err != nil {
		return err
	}
	// What goes is not looked at: damage may be why it goes.
	stays := *v
	stays.segments, stays.tail = v.segments[:i+1], tail{size: pos}
	if err := l.reloadProducersTo(&stays, end); err != nil {
		return err
	}
	l.deactivate()
	if i+1 < len(v.segments) {
		if err := l.removeSegments(v.segments[i+1:]); err != nil {
			return err
		}
		if err := l.dir.fs.SyncDir(l.Path()); err != nil {
			return err
		}
	}
	txns, err := v.txnIndex(i)
	if err != nil {
		return err
	}
	if txns != nil {
		if err := txns.Truncate(end); err != nil {
			return err
		}
	}
	kept, err := v.segments[i].cut(end, pos)
	if err != nil {
		return err
	}
	next := *v
	next.segments = append(slices.Clone(v.segments[:i]), kept)
	next.sealed = v.sealed
	for _, s := range v.segments[i : len(v.segments)-1] {
		next.sealed -= s.size
	}
	next.End, next.Durable, next.Start = end, min(v.Durable, end), min(v.Start, end)
	l.visible = l.epochs.TruncateStart(next.Start)
	next.epochs = l.visible
	next.tail = tail{size: pos}
	l.view.Store(&next)
	l.unsynced.cut = true
	l.unsynced.names++ // producer snapshots and segments went
	a, err := l.activate(time.Time{})
	if err != nil {
		return err
	}
	shown := next // published values never change
	shown.tail = a.tail()
	l.view.Store(&shown)
	return nil
}

// forgetBeyond lowers, durably, what is recorded about the log beyond end: recovery point, epochs and, if it moves back,
// the log start.
func (l *Log) forgetBeyond(end, start kafka.Offset) error {
	if err := l.endReplacement(); err != nil {
		return err
	}
	// First in memory, or a checkpoint that is written at this moment would put the old values back.
	l.recoveryPoint.Store(min(l.recoveryPoint.Load(), int64(end)))
	if v := *l.View(); v.Start > start {
		v.Start = start
		l.view.Store(&v)
	}
	if err := l.dir.lowerRecoveryPoint(l, end); err != nil {
		return err
	}
	if err := l.dir.lowerStart(l, start); err != nil {
		return err
	}
	if err := l.dir.lowerCleaned(l, end); err != nil {
		return err
	}
	l.unsynced.noteCut(end)
	return l.cutEpochs(l.epochs.TruncateEnd(end))
}

// cutEpochs replaces the history, durably if it differs from the file. A flush whose token is older must not write its
// history any more.
func (l *Log) cutEpochs(e Epochs) error {
	l.setEpochs(e)
	version := epochVersion(l.unsynced.epochs, true)
	l.epochFile.Lock()
	known := l.epochsOnDisk == l.epochsSavedVersion && slices.Equal(e, l.epochsSaved)
	if known {
		l.epochsOnDisk = version
	}
	l.epochFile.Unlock()
	if !known {
		if err := l.writeEpochs(e, version); err != nil {
			return err
		}
	}
	l.noteEpochsSaved(e, version)
	l.unsynced.written = l.unsynced.epochs
	return nil
}

// dropEpochs replaces the history in memory if it changed.
func (l *Log) dropEpochs(e Epochs) {
	if slices.Equal(e, l.epochs) {
		return
	}
	l.setEpochs(e)
	v := *l.View()
	v.epochs = l.visible
	l.view.Store(&v)
}

// deactivate drops the appender; what it had not written of the indexes is lost and found again by scanning.
func (l *Log) deactivate() {
	if l.active != nil {
		l.active.close()
		l.active = nil
	}
}

// cut shortens the segment's files to what lies before end and pos, and gives the segment value that stands for them.
func (s *segment) cut(end kafka.Offset, pos int64) (*segment, error) {
	data, err := s.acquire(dataFile)
	if err != nil {
		return nil, err
	}
	if err := data.file.Truncate(pos); err != nil {
		data.release()
		return nil, err
	}
	if err := s.cutIndexes(end); err != nil {
		data.release()
		return nil, err
	}
	kept := newSegment(s.log, s.base, pos)
	kept.adopt(dataFile, data)
	for _, k := range []fileKind{offsetIndexFile, timeIndexFile} {
		if h := s.surrender(k); h != nil {
			kept.adopt(k, h)
		}
	}
	kept.hasTxns.Store(s.hasTxns.Load())
	kept.txns.Store(s.txns.Load())
	s.retire()
	return kept, nil
}

// cutIndexes drops the index entries at or after end.
func (s *segment) cutIndexes(end kafka.Offset) error {
	b := s.log.dir.block()
	defer s.log.dir.putBlock(b)
	s.setIndexCounts(indexCounts{})
	c, err := s.indexCounts(b)
	if err != nil {
		return err
	}
	relative := uint32(min(max(end-s.base, 0), maxRelative))
	err = s.cutIndex(offsetIndexFile, offsetEntrySize, int(c.offsets), b, func(e []byte) bool {
		return decodeOffsetEntry(e).last < relative
	})
	if err != nil {
		return err
	}
	err = s.cutIndex(timeIndexFile, timeEntrySize, int(c.times), b, func(e []byte) bool {
		return decodeTimeEntry(e).last < relative
	})
	if err != nil {
		return err
	}
	return nil
}

// cutIndex shortens one index file to the entries that keep holds for.
func (s *segment) cutIndex(k fileKind, width, count int, b *block, keep func([]byte) bool) error {
	h, err := s.open(k, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.release()
	n := -1
	if count > 0 {
		if _, n, err = lastEntry(h.file, width, count, b, keep); err != nil {
			return err
		}
	}
	return h.file.Truncate(int64(n+1) * int64(width))
}

// TruncateFullyAndStartAt empties the log and lets it begin at start: the leader no longer has what comes next here, or
// the log moves to a snapshot. Like TruncateTo it syncs.
func (l *Log) TruncateFullyAndStartAt(start kafka.Offset) error {
	if l.failed != nil {
		return l.failed
	}
	l.finished = false
	l.cutting.Store(true)
	defer l.cutting.Store(false)
	if err := l.startOver(l.View(), start); err != nil {
		l.failed = storageError("restart the log", err)
		return l.failed
	}
	return nil
}

func (l *Log) startOver(v *View, start kafka.Offset) error {
	// If a crash leaves the old segments, recovery must read them whole: their epochs are gone.
	if err := l.forgetBeyond(min(start, v.segments[0].base), start); err != nil {
		return err
	}
	if err := l.cutEpochs(nil); err != nil {
		return err
	}
	if err := l.removeSnapshots(); err != nil {
		return err
	}
	l.deactivate()
	if err := l.removeSegments(v.segments); err != nil {
		return err
	}
	if err := l.renameTrash(); err != nil { // the new segments may take the names of what waits for deletion
		return err
	}
	if err := l.dir.fs.SyncDir(l.Path()); err != nil {
		return err
	}
	s := newSegment(l, start, 0)
	f, err := l.dir.fs.Open(s.path(dataSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	l.active = newActive(s, newHandle(l.dir, f), time.Time{})
	l.unsynced.names++
	l.view.Store(&View{
		Start: start, End: start, Durable: start,
		log: l, segments: []*segment{s}, tail: l.active.tail(),
	})
	return nil
}

// removeSnapshots forgets all producers, on disk too.
func (l *Log) removeSnapshots() error {
	l.producers.Reset()
	l.loadedAt = kafka.NoOffset
	l.snapshotAt = kafka.NoOffset
	offsets, err := ListSnapshots(l.dir.fs, l.Path())
	if err != nil {
		return err
	}
	for _, offset := range slices.Backward(offsets) {
		if err := RemoveSnapshot(l.dir.fs, l.Path(), offset); err != nil {
			return err
		}
	}
	return nil
}

// AdvanceStart moves the log start: records below are no longer served (DeleteRecords, retention, a leader that deleted
// them). Segments below it go with the next Retain. It is durable with the next checkpoint of the directory. A start
// beyond the log end is OffsetOutOfRange; one at or below the current start changes nothing.
func (l *Log) AdvanceStart(start kafka.Offset) error {
	if l.failed != nil {
		return l.failed
	}
	v := *l.View()
	if start > v.End {
		return kafka.OffsetOutOfRange
	}
	if start <= v.Start {
		return nil
	}
	l.visible = l.epochs.TruncateStart(start)
	v.Start, v.epochs = start, l.visible
	l.view.Store(&v)
	return nil
}

// reloadProducersTo rebuilds the producer state as it was when the log ended at end.
func (l *Log) reloadProducersTo(v *View, end kafka.Offset) error {
	cut := *v
	cut.End = end
	return l.reloadProducers(&cut, time.Time{})
}

// reloadProducers rebuilds the producer state from the newest snapshot at or below v's end and the batches after it.
func (l *Log) reloadProducers(v *View, now time.Time) error {
	if l.options.NoProducers {
		return nil
	}
	from, err := l.producers.Reload(l.dir.fs, l.Path(), v.End, now, l.producerTTL())
	if err != nil {
		return err
	}
	l.snapshotAt, l.loadedAt = from, from
	return l.replayProducers(v, max(from, v.segments[0].base))
}

// replayProducers tells the producer state the batches of v from offset from on.
func (l *Log) replayProducers(v *View, from kafka.Offset) error {
	if from >= v.End {
		return nil
	}
	for i := v.find(from); i < len(v.segments); i++ {
		if err := l.replaySegment(v, i, from); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(v *View, i int, from kafka.Offset) error {
	data, err := v.segments[i].acquire(dataFile)
	if err != nil {
		return err
	}
	defer data.release()
	pos, err := v.locate(i, from, data)
	if err != nil {
		return err
	}
	return v.replayInto(&l.producers, i, pos, v.End)
}
