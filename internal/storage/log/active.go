package log

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

const (
	// indexBuffer is how many index entries of a kind gather in memory before they are written, so that an append is
	// one system call: with Kafka's defaults at least 256 KiB of data.
	indexBuffer = 64
	// keptEnds is how many batch ends are remembered at most; half of them survive when the list is renewed.
	keptEnds = 64
)

// active is the appender of the last segment. It exists from the first append until Idle, a roll or a cut.
type active struct {
	seg        *segment
	data       *handle // referenced
	size       int64
	sinceIndex int64 // bytes since the last batch that got an index entry
	// firstTimestamp is the max timestamp of the segment's first batch: the age of the segment counts from there.
	firstTimestamp int64
	created        time.Time // the age counts from here when the first batch has no timestamp
	ends           []batchEnd
	index          tailIndex
	indexDirty     bool // index files were written and are not synced
	used           bool // since the last Idle
}

// activate opens the last segment for appending. The end of the log is checked against the bytes of the file: a clean
// start took it from names and sizes alone.
func (l *Log) activate(now time.Time) (*active, error) {
	if l.active != nil {
		l.active.used = true
		return l.active, nil
	}
	v := l.View()
	s := v.last()
	data, err := s.acquire(dataFile) // a missing file is lost records, and not to be made anew
	if err != nil {
		return nil, storageError("open segment", err)
	}
	a := &active{seg: s, data: data, size: v.tail.size, firstTimestamp: unknownTimestamp, created: now, used: true}
	if err := a.load(l, v); err != nil {
		data.release()
		return nil, storageError("open segment", err)
	}
	l.active = a
	return a, nil
}

// load fills in what can be read back from the files.
func (a *active) load(l *Log, v *View) error {
	size, err := a.data.file.Size()
	if err != nil {
		return err
	}
	if size != a.size {
		return fmt.Errorf("%s has %d bytes, expected %d", a.seg.path(dataSuffix), size, a.size)
	}
	b := l.dir.block()
	defer l.dir.putBlock(b)
	if a.index, err = v.lastIndex(b); err != nil {
		return err
	}
	if err := a.trimIndexes(); err != nil {
		return err
	}
	indexed, err := a.lastIndexed(b)
	if err != nil {
		return err
	}
	a.sinceIndex = a.size - indexed
	return a.scanTail(l, v.End, indexed, b)
}

// trimIndexes cuts off what the index files hold beyond the entries that count, such as Kafka's preallocated zeros.
func (a *active) trimIndexes() error {
	x := a.index.inFile
	for k, size := range map[fileKind]int64{
		offsetIndexFile: int64(x.offsets) * offsetEntrySize, timeIndexFile: int64(x.times) * timeEntrySize,
	} { // the order does not show
		h, err := a.seg.acquire(k)
		if isGone(err) {
			continue
		}
		if err != nil {
			return err
		}
		have, err := h.file.Size()
		if err == nil && have > size {
			err = h.file.Truncate(size)
		}
		h.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// lastIndexed gives the position of the last batch that has an index entry, 0 when there is none.
func (a *active) lastIndexed(b *block) (int64, error) {
	if n := len(a.index.offsets); n > 0 {
		return int64(a.index.offsets[n-1].pos), nil
	}
	n := int64(a.index.inFile.offsets)
	if n == 0 {
		return 0, nil
	}
	h, err := a.seg.acquire(offsetIndexFile)
	if err != nil {
		return 0, err
	}
	defer h.release()
	if err := readFull(h.file, b[:offsetEntrySize], (n-1)*offsetEntrySize); err != nil {
		return 0, err
	}
	return int64(decodeOffsetEntry(b[:]).pos), nil
}

// lastIndex gives the state of the last segment's index, from the files if it is not known. A time index that the log
// does not confirm is abandoned: its entries count as none, and new ones overwrite them.
func (v *View) lastIndex(b *block) (tailIndex, error) {
	x := v.tail.index
	if x.loaded {
		return x, nil
	}
	i := len(v.segments) - 1
	var err error
	x = noIndex()
	if x.inFile, err = v.last().indexCounts(b); err != nil {
		return x, err
	}
	if x.newest, err = v.newestOf(i, b); err != nil {
		return x, err
	}
	e, ok, err := v.last().lastTimeEntry(x.inFile, b)
	if err != nil || !ok {
		return x, err
	}
	x.made, x.indexed = true, e.timestamp
	if e != x.newest {
		x.inFile.times, x.indexed = 0, record.NoTimestamp
		v.last().setIndexCounts(x.inFile)
	}
	return x, nil
}

// scanTail walks the batches after the last indexed one: it learns their ends and timestamps and proves that the log
// ends where it is believed to. An index entry that points between batches fails here too, and the walk starts over from
// the segment's first byte.
func (a *active) scanTail(l *Log, end kafka.Offset, from int64, b *block) error {
	h := headers{file: a.data.file, pos: from, end: a.size, block: b}
	last := kafka.NoOffset
	a.ends = nil
	if from == 0 {
		a.pushEnd(a.seg.base, 0)
	}
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errBadBatch) && from > 0 {
			l.dir.badIndexes.Add(1)
			return a.scanTail(l, end, 0, b)
		}
		if err != nil {
			return err
		}
		if x.base < last || x.base < a.seg.base {
			return fmt.Errorf("%w: offset %d after %d", errBadBatch, x.base, last)
		}
		last = x.last
		if x.pos == 0 {
			a.firstTimestamp = x.maxTimestamp
		}
		a.noteTimestamp(x.maxTimestamp, x.last)
		a.pushEnd(x.last+1, h.pos)
	}
	if last >= end {
		return fmt.Errorf("%s ends with offset %d, but the log ends at %d", a.seg.path(dataSuffix), last, end)
	}
	if from > 0 {
		return a.loadFirst(b)
	}
	return nil
}

// loadFirst reads the timestamp of the first batch.
func (a *active) loadFirst(b *block) error {
	first := headers{file: a.data.file, end: a.size, block: b}
	x, err := first.next()
	if err != nil {
		return err
	}
	a.firstTimestamp = x.maxTimestamp
	return nil
}

// pushEnd remembers a batch end. The array behind ends is shared with views and only appended to.
func (a *active) pushEnd(offset kafka.Offset, pos int64) {
	if len(a.ends) >= keptEnds {
		a.ends = append(make([]batchEnd, 0, keptEnds), a.ends[len(a.ends)-keptEnds/2:]...)
	}
	a.ends = append(a.ends, batchEnd{offset: offset, pos: pos})
}

// noteTimestamp remembers the largest timestamp of the segment and the first batch that holds it.
func (a *active) noteTimestamp(timestamp int64, last kafka.Offset) {
	if timestamp > a.index.newest.timestamp {
		a.index.newest = timeEntry{timestamp: timestamp, last: uint32(last - a.seg.base)}
	}
}

// noteBatch accounts for one batch that was written at pos: the batch's own index test comes before its bytes count.
func (a *active) noteBatch(x header, pos int64, c *Config) {
	if a.firstTimestamp == unknownTimestamp {
		a.firstTimestamp = x.maxTimestamp
	}
	a.noteTimestamp(x.maxTimestamp, x.last)
	if a.sinceIndex > int64(c.IndexIntervalBytes) && !a.indexFull(c) {
		a.index.offsets = append(a.index.offsets, offsetEntry{last: uint32(x.last - a.seg.base), pos: uint32(pos)})
		a.addTimeEntry()
		a.sinceIndex = 0
	}
	a.sinceIndex += x.size
	a.pushEnd(x.last+1, pos+x.size)
}

// addTimeEntry indexes the largest timestamp unless the newest entry says it already.
func (a *active) addTimeEntry() {
	x := &a.index
	if x.newest.timestamp > x.indexed {
		x.times = append(x.times, x.newest)
		x.indexed = x.newest.timestamp
	}
}

// indexFull says whether an index has no room for another pair of entries. One place of the time index is kept for the
// entry that closes the segment.
func (a *active) indexFull(c *Config) bool {
	offsets := int(a.index.inFile.offsets) + len(a.index.offsets)
	times := int(a.index.inFile.times) + len(a.index.times)
	return offsets >= int(c.SegmentIndexBytes)/offsetEntrySize || times >= int(c.SegmentIndexBytes)/timeEntrySize-1
}

// writeIndexes moves the gathered entries into the files, which are made if missing. After an error nothing is lost: the
// next call writes the same entries to the same places.
func (a *active) writeIndexes() error {
	x := &a.index
	if err := writeEntries(a.seg, offsetIndexFile, int64(x.inFile.offsets)*offsetEntrySize, x.offsets, appendOffsetEntry); err != nil {
		return err
	}
	if err := writeEntries(a.seg, timeIndexFile, int64(x.inFile.times)*timeEntrySize, x.times, appendTimeEntry); err != nil {
		return err
	}
	x.inFile.offsets += int32(len(x.offsets))
	x.inFile.times += int32(len(x.times))
	x.inFile.known, x.made = true, true
	x.offsets, x.times = nil, nil // views still read the old arrays
	a.indexDirty = true
	a.seg.setIndexCounts(x.inFile)
	return nil
}

func writeEntries[E any](s *segment, k fileKind, pos int64, entries []E, encode func([]byte, E) []byte) error {
	h, err := s.create(k)
	if err != nil {
		return err
	}
	defer h.release()
	if len(entries) == 0 {
		return nil
	}
	b := make([]byte, 0, len(entries)*timeEntrySize)
	for _, e := range entries {
		b = encode(b, e)
	}
	return writeFull(h.file, b, pos)
}

// close gives the file back. Callers see to it that it is synced or that a flush holds it.
func (a *active) close() { a.data.release() }

// tail gives the state that a view shows.
func (a *active) tail() tail {
	return tail{size: a.size, ends: slices.Clip(a.ends), index: a.index}
}
