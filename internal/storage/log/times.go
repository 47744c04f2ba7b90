package log

import (
	"errors"
	"io"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// TimestampOffset is a record found by time.
type TimestampOffset struct {
	Timestamp   int64 // of the record, in ms
	Offset      kafka.Offset
	LeaderEpoch kafka.LeaderEpoch // of its batch
}

// OffsetForTime finds the first record at or after the log start whose timestamp is at or after the given one, in ms.
// Timestamps need not rise; first means the lowest offset. found is false when there is none. limits bounds what a
// compressed batch may expand to. Lock-free.
func (v *View) OffsetForTime(timestamp int64, limits record.Limits) (at TimestampOffset, found bool, err error) {
	return v.retried(func(v *View) (TimestampOffset, bool, error) { return v.offsetForTime(timestamp, limits) })
}

// retried asks again where segments of the view were compacted, deleted, or cut and written anew meanwhile.
func (v *View) retried(ask func(*View) (TimestampOffset, bool, error)) (TimestampOffset, bool, error) {
	for {
		at, found, err := ask(v)
		newest := v.log.View()
		changed := errors.Is(err, kafka.CorruptMessage) ||
			errors.Is(err, kafka.NotLeaderOrFollower) && !v.log.cutting.Load()
		if newest == v || !changed {
			return at, found, err
		}
		v = newest
	}
}

func (v *View) offsetForTime(timestamp int64, limits record.Limits) (at TimestampOffset, found bool, err error) {
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	for i := v.find(v.Start); i < len(v.segments); i++ {
		newest, err := v.newestOf(i, b)
		if err != nil {
			return at, false, v.readError(err)
		}
		if newest.timestamp < max(timestamp, 0) {
			continue
		}
		if at, found, err = v.searchTime(i, timestamp, limits, b); found || err != nil {
			return at, found, err
		}
	}
	return at, false, nil
}

// searchTime looks in one segment. Batches before the last time index entry at or below timestamp hold nothing newer
// than it, except the one that the entry names.
func (v *View) searchTime(i int, timestamp int64, limits record.Limits, b *block) (TimestampOffset, bool, error) {
	s := v.segments[i]
	from := max(v.Start, s.base)
	e, ok, err := v.lookupTime(i, timestamp, b)
	if err != nil {
		return TimestampOffset{}, false, v.readError(err)
	}
	if ok {
		if ok, err = v.confirms(i, e); err != nil {
			return TimestampOffset{}, false, v.readError(err)
		}
	}
	if ok {
		from = max(from, s.base+kafka.Offset(e.last))
	}
	data, err := s.acquire(dataFile)
	if err != nil {
		return TimestampOffset{}, false, v.readError(err)
	}
	defer data.release()
	pos, err := v.locate(i, from, data)
	if err != nil {
		return TimestampOffset{}, false, v.readError(err)
	}
	h := headers{file: data.file, pos: pos, end: v.sizeOf(i), block: b}
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) {
			return TimestampOffset{}, false, nil
		}
		if err != nil {
			return TimestampOffset{}, false, v.readError(err)
		}
		if x.maxTimestamp < timestamp {
			continue
		}
		at, found, err := v.recordSince(data.file, x, timestamp, v.Start, limits)
		if found || err != nil {
			return at, found, err
		}
	}
}

// MaxTimestamp finds the record with the largest timestamp, the first one of several; found is false when no record has
// one. Lock-free.
func (v *View) MaxTimestamp(limits record.Limits) (at TimestampOffset, found bool, err error) {
	return v.retried(func(v *View) (TimestampOffset, bool, error) { return v.maxTimestamp(limits) })
}

func (v *View) maxTimestamp(limits record.Limits) (at TimestampOffset, found bool, err error) {
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	best, newest := -1, timeEntry{timestamp: -1}
	for i := v.find(v.Start); i < len(v.segments); i++ {
		e, err := v.newestOf(i, b)
		if err != nil {
			return at, false, v.readError(err)
		}
		if e.timestamp > newest.timestamp {
			best, newest = i, e
		}
	}
	if best < 0 {
		return at, false, nil
	}
	s := v.segments[best]
	data, err := s.acquire(dataFile)
	if err != nil {
		return at, false, v.readError(err)
	}
	defer data.release()
	pos, err := v.locate(best, s.base+kafka.Offset(newest.last), data)
	if err != nil {
		return at, false, v.readError(err)
	}
	h := headers{file: data.file, pos: pos, end: v.sizeOf(best), block: b}
	x, err := h.next()
	if err != nil {
		return at, false, v.readError(err)
	}
	return v.recordSince(data.file, x, newest.timestamp, kafka.NoOffset, limits)
}

// recordSince gives the first record of a batch with at least this timestamp and offset. A batch of an old format is
// answered as a whole.
func (v *View) recordSince(
	f io.ReaderAt, h header, timestamp int64, from kafka.Offset, limits record.Limits,
) (TimestampOffset, bool, error) {
	at := TimestampOffset{Timestamp: h.maxTimestamp, Offset: max(h.base, from), LeaderEpoch: h.epoch}
	if h.magic < record.Magic {
		return at, h.last >= from, nil
	}
	b := make(record.Batch, h.size)
	if err := readFull(f, b, h.pos); err != nil {
		return at, false, v.readError(err)
	}
	for r, err := range b.Records(limits) {
		if err != nil {
			return at, false, err
		}
		if r.Timestamp >= timestamp && r.Offset >= from {
			at.Timestamp, at.Offset = r.Timestamp, r.Offset
			return at, true, nil
		}
	}
	return at, false, nil
}
