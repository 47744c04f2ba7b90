package log

import (
	"errors"
	"io"
	"math"
	"time"

	"moldau/internal/kafka"
)

// Aborted lists the aborted transactions that a read_committed reader of [from, upper) must know, in marker order; upper
// is UpperBound of what was read. They may stand in any later segment. Lock-free.
func (v *View) Aborted(from, upper kafka.Offset) ([]AbortedTxn, error) {
	var out []AbortedTxn
	for i := v.find(from); i < len(v.segments); i++ {
		index, err := v.txnIndex(i)
		if err != nil {
			return nil, v.readError(err)
		}
		if index == nil {
			continue
		}
		var done bool
		if out, done, err = index.Overlapping(out, from, upper); err != nil {
			return nil, v.readError(err)
		}
		if done {
			break
		}
	}
	return out, nil
}

// txnIndex gives the transaction index of segment i; nil when it has none. A damaged one is made anew from the log when
// it is first opened.
func (v *View) txnIndex(i int) (*TxnIndex, error) {
	s := v.segments[i]
	if x := s.txns.Load(); x != nil || !s.hasTxns.Load() {
		return x, nil
	}
	data, err := s.acquire(dataFile)
	if err != nil {
		return nil, err
	}
	defer data.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.txns.Load(); x != nil {
		return x, nil
	}
	x, err := v.openTxnIndex(i)
	if _, damaged := errors.AsType[*FormatError](err); damaged {
		v.log.dir.badIndexes.Add(1)
		x, err = v.rebuildTxnIndex(i, data.file)
	}
	if err != nil {
		return nil, err
	}
	s.txns.Store(x)
	return x, nil
}

func (v *View) openTxnIndex(i int) (*TxnIndex, error) {
	s, next := v.segments[i], kafka.Offset(math.MaxInt64)
	if i < len(v.segments)-1 {
		next = v.endOf(i)
	}
	x, err := OpenTxnIndex(s.log.dir.fs, s.path(TxnIndexSuffix))
	if err != nil {
		return nil, err
	}
	return x, x.Check(s.base, next)
}

// rebuildTxnIndex makes the index of segment i anew. Which transactions were open when the segment began, its producer
// snapshot knows.
func (v *View) rebuildTxnIndex(i int, data io.ReaderAt) (*TxnIndex, error) {
	s, fsys := v.segments[i], v.log.dir.fs
	var producers Producers
	err := producers.LoadSnapshot(fsys, s.log.Path(), s.base, time.Time{}, 0)
	if _, damaged := errors.AsType[*FormatError](err); err != nil && !damaged && !isGone(err) {
		return nil, err
	}
	if err := fsys.Remove(s.path(TxnIndexSuffix)); err != nil {
		return nil, err
	}
	x, err := OpenTxnIndex(fsys, s.path(TxnIndexSuffix))
	if err != nil {
		return nil, err
	}
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h := headers{file: data, end: v.sizeOf(i), block: b}
	for {
		y, err := h.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errBadBatch) {
			return x, nil
		}
		if err != nil {
			return nil, err
		}
		ended, err := producers.replay(data, y, h.bytes(y))
		if err == nil && ended.Aborted {
			err = x.Append(ended.Entry())
		}
		if err != nil {
			return nil, err
		}
	}
}

// addAborted notes an aborted transaction in the segment that holds its marker: the last one, or one that is about to be.
func (l *Log) addAborted(s *segment, a AbortedTxn) error {
	if v := l.View(); v != nil && v.last() == s {
		if _, err := v.txnIndex(len(v.segments) - 1); err != nil {
			return err
		}
	}
	x := s.txns.Load()
	if x == nil {
		var err error
		if x, err = OpenTxnIndex(l.dir.fs, s.path(TxnIndexSuffix)); err != nil {
			return err
		}
		s.txns.Store(x)
		s.hasTxns.Store(true)
	}
	return x.Append(a)
}

// UpperBound gives an offset that no record of e reaches: the limit for Aborted of the view that e is of. It is as close
// as the index allows.
func (v *View) UpperBound(e *Extents) (kafka.Offset, error) {
	if e.size == 0 {
		return e.From, nil
	}
	v = e.view
	upper, err := v.upperBound(e)
	if isChanged(err) { // compacted or deleted since
		return v.endOf(e.lastSegment), nil
	}
	return upper, err
}

func (v *View) upperBound(e *Extents) (kafka.Offset, error) {
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	i, end := e.lastSegment, e.endPos()
	if end >= v.sizeOf(i) {
		return v.endOf(i), nil
	}
	if i == len(v.segments)-1 {
		for _, x := range v.tail.ends {
			if x.pos >= end {
				return x.offset, nil
			}
		}
		for _, x := range v.tail.index.offsets {
			if int64(x.pos) >= end {
				return v.segments[i].base + kafka.Offset(x.last), nil
			}
		}
	}
	last, ok, err := v.firstIndexedAt(i, end, b)
	if err != nil || !ok {
		return v.endOf(i), err
	}
	return last, nil
}

// firstIndexedAt gives the last offset of the first indexed batch of segment i that begins at or after pos.
func (v *View) firstIndexedAt(i int, pos int64, b *block) (kafka.Offset, bool, error) {
	c, err := v.countsOf(i, b)
	if err != nil || c.offsets == 0 {
		return 0, false, err
	}
	s := v.segments[i]
	h, err := s.acquire(offsetIndexFile)
	if err != nil {
		return 0, false, err
	}
	defer h.release()
	_, n, err := lastEntry(h.file, offsetEntrySize, int(c.offsets), b, func(e []byte) bool {
		return int64(decodeOffsetEntry(e).pos) < pos
	})
	if err != nil || n+1 >= int(c.offsets) {
		return 0, false, err
	}
	if err := readFull(h.file, b[:offsetEntrySize], int64(n+1)*offsetEntrySize); err != nil {
		return 0, false, err
	}
	e := decodeOffsetEntry(b[:])
	ok, err := v.holds(i, e, b)
	return s.base + kafka.Offset(e.last), ok, err
}

// holds says whether the log agrees with an offset index entry of segment i.
func (v *View) holds(i int, e offsetEntry, b *block) (bool, error) {
	data, err := v.segments[i].acquire(dataFile)
	if err != nil {
		return false, err
	}
	defer data.release()
	h := headers{file: data.file, pos: int64(e.pos), end: v.sizeOf(i), block: b}
	x, err := h.next()
	if errors.Is(err, io.EOF) || errors.Is(err, errBadBatch) {
		return false, nil
	}
	return err == nil && x.last == v.segments[i].base+kafka.Offset(e.last), err
}
