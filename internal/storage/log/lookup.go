package log

import (
	"errors"
	"io"
	"io/fs"
	"sort"

	"moldau/internal/kafka"
)

// indexCounts gives the numbers of index entries in the files. An index that cannot be one (Kafka after a crash leaves
// it padded with zeros) counts as empty: lookups then scan the log, which is slower and right.
func (s *segment) indexCounts(b *block) (indexCounts, error) {
	s.mu.Lock()
	c := s.entries
	s.mu.Unlock()
	if c.known {
		return c, nil
	}
	offsets, err := s.countEntries(offsetIndexFile, offsetEntrySize, b, func(e []byte) bool {
		return decodeOffsetEntry(e).last > 0
	})
	if err != nil {
		return c, err
	}
	times, err := s.countEntries(timeIndexFile, timeEntrySize, b, func(e []byte) bool {
		return decodeTimeEntry(e).timestamp >= 0
	})
	if err != nil {
		return c, err
	}
	c = indexCounts{offsets: offsets, times: times, known: true}
	s.setIndexCounts(c)
	return c, nil
}

func (s *segment) setIndexCounts(c indexCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = c
}

// countEntries gives the entries of an index file whose last one passes sane, or 0.
func (s *segment) countEntries(k fileKind, width int64, b *block, sane func([]byte) bool) (int32, error) {
	h, err := s.acquire(k)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer h.release()
	size, err := h.file.Size()
	if err != nil {
		return 0, err
	}
	n := size / width
	if n == 0 {
		return 0, nil
	}
	if err := readFull(h.file, b[:width], (n-1)*width); err != nil {
		return 0, err
	}
	if !sane(b[:width]) {
		s.log.dir.badIndexes.Add(1)
		return 0, nil
	}
	return int32(n), nil
}

// lastTimeEntry reads the last entry of the time index file.
func (s *segment) lastTimeEntry(c indexCounts, b *block) (timeEntry, bool, error) {
	if c.times == 0 {
		return timeEntry{}, false, nil
	}
	h, err := s.acquire(timeIndexFile)
	if err != nil {
		return timeEntry{}, false, err
	}
	defer h.release()
	if err := readFull(h.file, b[:timeEntrySize], int64(c.times-1)*timeEntrySize); err != nil {
		return timeEntry{}, false, err
	}
	return decodeTimeEntry(b[:]), true, nil
}

// countsOf gives how many entries of segment i are in its index files as far as this view is concerned.
func (v *View) countsOf(i int, b *block) (indexCounts, error) {
	if i == len(v.segments)-1 && v.tail.index.loaded {
		return v.tail.index.inFile, nil
	}
	return v.segments[i].indexCounts(b)
}

// lookupOffset gives the last index entry of segment i whose offset is <= offset; the segment's start when there is
// none.
func (v *View) lookupOffset(i int, offset kafka.Offset, b *block) (offsetEntry, error) {
	s := v.segments[i]
	if !fitsRelative(s.base, offset) {
		offset = s.base + maxRelative
	}
	relative := uint32(offset - s.base)
	if i == len(v.segments)-1 {
		pending := v.tail.index.offsets
		if n := sort.Search(len(pending), func(i int) bool { return pending[i].last > relative }); n > 0 {
			return pending[n-1], nil
		}
	}
	c, err := v.countsOf(i, b)
	if err != nil || c.offsets == 0 {
		return offsetEntry{}, err
	}
	h, err := s.acquire(offsetIndexFile)
	if err != nil {
		return offsetEntry{}, err
	}
	defer h.release()
	e, n, err := lastEntry(h.file, offsetEntrySize, int(c.offsets), b, func(e []byte) bool {
		return decodeOffsetEntry(e).last <= relative
	})
	if err != nil || n < 0 {
		return offsetEntry{}, err
	}
	found := decodeOffsetEntry(e)
	if int64(found.pos) >= v.sizeOf(i) {
		v.log.dir.badIndexes.Add(1)
		return offsetEntry{}, nil
	}
	return found, nil
}

// lookupTime gives the last time index entry of segment i whose timestamp is <= timestamp; false when there is none.
func (v *View) lookupTime(i int, timestamp int64, b *block) (timeEntry, bool, error) {
	s := v.segments[i]
	if i == len(v.segments)-1 {
		pending := v.tail.index.times
		if n := sort.Search(len(pending), func(i int) bool { return pending[i].timestamp > timestamp }); n > 0 {
			return pending[n-1], true, nil
		}
	}
	c, err := v.countsOf(i, b)
	if err != nil || c.times == 0 {
		return timeEntry{}, false, err
	}
	h, err := s.acquire(timeIndexFile)
	if err != nil {
		return timeEntry{}, false, err
	}
	defer h.release()
	e, n, err := lastEntry(h.file, timeEntrySize, int(c.times), b, func(e []byte) bool {
		return decodeTimeEntry(e).timestamp <= timestamp
	})
	if err != nil || n < 0 {
		return timeEntry{}, false, err
	}
	return decodeTimeEntry(e), true, nil
}

// newestOf gives the largest timestamp of segment i and the last offset of the first batch that holds it; timestamp -1
// when no record has one. That of a closed segment is the last entry of its time index, which is believed if the log
// agrees, because retention deletes by it; it is remembered.
func (v *View) newestOf(i int, b *block) (timeEntry, error) {
	s, isLast := v.segments[i], i == len(v.segments)-1
	if isLast && v.tail.index.loaded {
		return v.tail.index.newest, nil
	}
	if known := s.newest.Load(); known != nil && !isLast {
		return *known, nil
	}
	c, err := v.countsOf(i, b)
	if err != nil {
		return timeEntry{}, err
	}
	e, ok, err := s.lastTimeEntry(c, b)
	if err != nil {
		return e, err
	}
	if ok {
		if ok, err = v.confirms(i, e); err != nil {
			return e, err
		}
	}
	if !ok {
		if e, err = v.scanNewest(i, b); err != nil {
			return e, err
		}
	}
	if !isLast {
		s.newest.Store(&e)
	}
	return e, nil
}

// confirms says whether the batch that a time index entry names is there and has that timestamp.
func (v *View) confirms(i int, e timeEntry) (bool, error) {
	s := v.segments[i]
	data, err := s.acquire(dataFile)
	if err != nil {
		return false, err
	}
	defer data.release()
	last := s.base + kafka.Offset(e.last)
	pos, err := v.locate(i, last, data)
	if err != nil {
		return false, err
	}
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h := headers{file: data.file, pos: pos, end: v.sizeOf(i), block: b}
	x, err := h.next()
	if errors.Is(err, io.EOF) || errors.Is(err, errBadBatch) {
		err = nil
	}
	ok := err == nil && x.last == last && x.maxTimestamp == e.timestamp
	if !ok {
		v.log.dir.badIndexes.Add(1)
	}
	return ok, err
}

// scanNewest finds the largest timestamp of a segment without its time index.
func (v *View) scanNewest(i int, b *block) (timeEntry, error) {
	newest := timeEntry{timestamp: -1}
	s := v.segments[i]
	data, err := s.acquire(dataFile)
	if err != nil {
		return newest, err
	}
	defer data.release()
	h := headers{file: data.file, end: v.sizeOf(i), block: b}
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errBadBatch) {
			return newest, nil
		}
		if err != nil {
			return newest, err
		}
		if x.maxTimestamp > newest.timestamp {
			newest = timeEntry{timestamp: x.maxTimestamp, last: uint32(x.last - s.base)}
		}
	}
}
