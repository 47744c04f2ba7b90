package log

import (
	"errors"
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

// newestOf gives the largest timestamp of segment i and the last offset of the first batch that holds it; false when no
// record has a timestamp. That of a closed segment is the last entry of its time index.
func (v *View) newestOf(i int, b *block) (timeEntry, bool, error) {
	if i == len(v.segments)-1 && v.tail.index.loaded {
		return v.tail.index.newest, v.tail.index.newestKnown, nil
	}
	c, err := v.countsOf(i, b)
	if err != nil {
		return timeEntry{}, false, err
	}
	return v.segments[i].lastTimeEntry(c, b)
}

// largestTimestamp gives the largest timestamp of segment i in ms, -1 when there is none. It is remembered, because
// retention asks again and again.
func (v *View) largestTimestamp(i int, b *block) (int64, error) {
	s := v.segments[i]
	isLast := i == len(v.segments)-1
	if known := s.maxTimestamp.Load(); !isLast && known != unknownTimestamp {
		return known, nil
	}
	e, ok, err := v.newestOf(i, b)
	if err != nil {
		return 0, err
	}
	if !ok {
		e.timestamp = -1
	}
	if !isLast {
		s.maxTimestamp.Store(e.timestamp)
	}
	return e.timestamp, nil
}
