package log

import (
	"errors"
	"os"
	"time"

	"moldau/internal/kafka"
)

// roll is a new last segment that is on disk but not yet part of the log.
type roll struct {
	active      *active
	hasSnapshot bool
}

// Roll closes the last segment and begins a new one at the log end. An empty last segment stays.
func (l *Log) Roll(now time.Time) error {
	if l.failed != nil {
		return l.failed
	}
	a, err := l.activate(now)
	if err != nil || (a.size == 0 && a.seg.base == l.View().End) {
		return err
	}
	l.finished = false
	r, err := l.prepareRoll(a, l.View().End, now)
	if err != nil {
		return err
	}
	l.installRoll(a, r)
	return nil
}

// prepareRoll completes the indexes of the last segment and makes the files of the next one, with the producer snapshot
// that a recovery from there starts with. Nothing is synced: the next flush does that. An error changes nothing.
func (l *Log) prepareRoll(a *active, base kafka.Offset, now time.Time) (*roll, error) {
	a.addTimeEntry()
	if err := a.writeIndexes(); err != nil {
		return nil, storageError("roll", err)
	}
	s := newSegment(l, base, 0)
	f, err := l.dir.fs.Open(s.path(dataSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, storageError("roll", err)
	}
	r := &roll{active: newActive(s, newHandle(l.dir, f), now)}
	if !l.options.NoProducers {
		if err := l.producers.WriteSnapshot(l.dir.fs, l.Path(), base, false); err != nil {
			return nil, storageError("roll", errors.Join(err, l.discardRoll(r)))
		}
		r.hasSnapshot = true
	}
	return r, nil
}

// newActive makes the appender of an empty segment.
func newActive(s *segment, data *handle, now time.Time) *active {
	s.adopt(dataFile, data)
	data.refs.Add(1)
	a := &active{seg: s, data: data, firstTimestamp: unknownTimestamp, created: now, used: true, index: noIndex()}
	a.pushEnd(s.base, 0)
	return a
}

// discardRoll removes what prepareRoll made. A snapshot that stays would claim to know a log end that other batches may
// reach later, so failing here stops the log.
func (l *Log) discardRoll(r *roll) error {
	r.active.seg.retire()
	r.active.close()
	err := l.dir.fs.Remove(r.active.seg.path(dataSuffix))
	if r.hasSnapshot {
		err = errors.Join(err, RemoveSnapshot(l.dir.fs, l.Path(), r.active.seg.base))
	}
	if err != nil {
		l.failed = storageError("undo a roll", err)
	}
	return err
}

// installRoll makes r the last segment. The one before is closed when its sync is done.
func (l *Log) installRoll(a *active, r *roll) {
	v := *l.View()
	a.seg.size = a.size
	newest := a.index.newest
	a.seg.newest.Store(&newest)
	l.noteSealed(a, r)
	l.dir.rolled.Add(1)
	if r.hasSnapshot {
		l.snapshotAt = r.active.seg.base
	}
	a.close()
	l.active = r.active
	v.sealed += a.size
	v.segments = append(v.segments[:len(v.segments):len(v.segments)], r.active.seg)
	v.tail = r.active.tail()
	v.End = max(v.End, r.active.seg.base)
	l.view.Store(&v)
}

// noteSealed lists for the next flush what belongs to a segment that was just closed.
func (l *Log) noteSealed(a *active, r *roll) {
	u := &l.unsynced
	if l.View().End > l.View().Durable || u.cut {
		a.data.refs.Add(1)
		u.add(syncItem{file: a.data})
	}
	for _, k := range []fileKind{offsetIndexFile, timeIndexFile} {
		if h := a.seg.surrender(k); h != nil {
			u.add(syncItem{file: h})
		}
	}
	if a.seg.txns.Load() != nil {
		u.add(syncItem{name: segmentName(a.seg.base, TxnIndexSuffix)})
	}
	if r.hasSnapshot {
		u.add(syncItem{name: SnapshotName(r.active.seg.base)})
	}
	u.cut = false
	u.names++
}
