package log

import (
	"moldau/internal/kafka"
)

// Aborted lists the aborted transactions that a read_committed reader of [from, upper) must know, in marker order; upper
// is UpperBound of what was read. They may stand in any later segment. Lock-free.
func (v *View) Aborted(from, upper kafka.Offset) ([]AbortedTxn, error) {
	var out []AbortedTxn
	for i := v.find(from); i < len(v.segments); i++ {
		index, err := v.segments[i].txnIndex(false)
		if err != nil {
			return nil, storageError("read transaction index", err)
		}
		if index == nil {
			continue
		}
		var done bool
		if out, done, err = index.Overlapping(out, from, upper); err != nil {
			return nil, storageError("read transaction index", err)
		}
		if done {
			break
		}
	}
	return out, nil
}

// txnIndex gives the segment's transaction index; nil when it has none and must not be made.
func (s *segment) txnIndex(make bool) (*TxnIndex, error) {
	if x := s.txns.Load(); x != nil {
		return x, nil
	}
	if !s.hasTxns.Load() && !make {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.txns.Load(); x != nil {
		return x, nil
	}
	x, err := OpenTxnIndex(s.log.dir.fs, s.path(TxnIndexSuffix))
	if err != nil {
		return nil, err
	}
	s.txns.Store(x)
	s.hasTxns.Store(true)
	return x, nil
}

// addAborted notes an aborted transaction in the segment that holds its marker.
func (s *segment) addAborted(a AbortedTxn) error {
	x, err := s.txnIndex(true)
	if err != nil {
		return err
	}
	return x.Append(a)
}

// UpperBound gives an offset that no record of e reaches: the limit for Aborted. It is as close as the index allows.
func (v *View) UpperBound(e *Extents) (kafka.Offset, error) {
	if e.size == 0 {
		return e.From, nil
	}
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
	return s.base + kafka.Offset(decodeOffsetEntry(b[:]).last), true, nil
}
