package log

import (
	"errors"
	"io"

	"moldau/internal/kafka"
)

// Read finds the bytes from the batch that contains offset from up to limit, the first offset that must not be served
// (high watermark, last stable offset or log end); at most maxBytes of them, so the last batch may be cut, as Kafka's
// may be. The first one never is: with atLeastOneBatch it is there whatever maxBytes says, without it nothing is given if
// it does not fit (KIP-74). Nothing between from and limit gives an empty Extents. The caller releases the result.
//
// Errors: OffsetOutOfRange when from lies before the log start or beyond the log end, or is deleted by now;
// CorruptMessage when the log is damaged there; KafkaStorageError wrapping the cause when the disk fails. Lock-free.
func (v *View) Read(from, limit kafka.Offset, maxBytes int, atLeastOneBatch bool) (Extents, error) {
	for {
		out, err := v.read(from, limit, maxBytes, atLeastOneBatch)
		if err == nil {
			return out, nil
		}
		newest := v.log.View()
		if newest == v || !(isChanged(err) || errors.Is(err, errBadBatch)) {
			return out, v.readError(err)
		}
		v = newest // what was read was cut, perhaps written anew, or deleted meanwhile
	}
}

// isChanged says that files are not as a view has them, as happens when it is not the newest one any more.
func isChanged(err error) bool {
	return errors.Is(err, errSegmentGone) || errors.Is(err, io.ErrUnexpectedEOF) || isGone(err)
}

func (v *View) read(from, limit kafka.Offset, maxBytes int, atLeastOneBatch bool) (Extents, error) {
	if from < v.Start || from > v.End {
		return Extents{}, kafka.OffsetOutOfRange
	}
	out := Extents{From: from}
	limit = min(limit, v.End)
	if from >= limit || (maxBytes <= 0 && !atLeastOneBatch) {
		return out, nil
	}
	for i := v.find(from); i < len(v.segments) && v.segments[i].base < limit; i++ {
		out.view = v
		whole, err := v.readSegment(i, from, limit, maxBytes-out.size, atLeastOneBatch && out.size == 0, &out)
		if err != nil {
			out.Release()
			return Extents{}, err
		}
		if !whole || (out.size > 0 && out.size >= maxBytes) {
			break
		}
	}
	return out, nil
}

// readError gives the cause of a failed read the code that clients see. In the middle of a cut, which only followers make,
// the reader is sent to the leader.
func (v *View) readError(err error) error {
	switch {
	case isChanged(err) && (v.log.cutting.Load() || v.log.View() != v):
		return kafka.NotLeaderOrFollower
	case errors.Is(err, kafka.OffsetOutOfRange):
		return kafka.OffsetOutOfRange
	case errors.Is(err, errBadBatch):
		return kafka.Errorf(kafka.CorruptMessage, "read: %v", err)
	}
	return storageError("read", err)
}

// readSegment adds what segment i has of [from, limit), and says whether room was left for the next segment.
func (v *View) readSegment(i int, from, limit kafka.Offset, room int, whole bool, out *Extents) (bool, error) {
	s := v.segments[i]
	data, err := s.acquire(dataFile)
	if err != nil {
		return false, err
	}
	pos, err := v.locate(i, from, data)
	if err != nil {
		data.release()
		return false, err
	}
	end := v.sizeOf(i)
	if limit < v.endOf(i) {
		if end, err = v.locate(i, limit, data); err != nil {
			data.release()
			return false, err
		}
	}
	size := int64(room)
	if out.size == 0 && size < end-pos {
		first, err := v.batchSize(i, pos, data)
		if err != nil {
			data.release()
			return false, err
		}
		if whole {
			size = max(size, first)
		} else if size < first {
			size = 0
		}
	}
	fits := size >= end-pos
	size = min(size, end-pos)
	if size <= 0 {
		data.release()
		return fits, nil
	}
	out.add(extent{data: data, pos: pos, size: int(size)}, i)
	return fits, nil
}

// batchSize gives the size of the batch at pos of segment i.
func (v *View) batchSize(i int, pos int64, data *handle) (int64, error) {
	if i == len(v.segments)-1 {
		if n, ok := v.tail.batchAt(pos); ok {
			return n, nil
		}
	}
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h := headers{file: data.file, pos: pos, end: v.sizeOf(i), block: b}
	x, err := h.next()
	return x.size, err
}

// locate gives where the first batch of segment i whose last offset is >= offset begins; the end of the segment's bytes
// when there is none. data is the segment's open file.
func (v *View) locate(i int, offset kafka.Offset, data *handle) (int64, error) {
	s := v.segments[i]
	if offset <= s.base {
		return 0, nil
	}
	isLast := i == len(v.segments)-1
	if isLast {
		if offset >= v.End {
			return v.tail.size, nil
		}
		if pos, ok := v.tail.locate(offset); ok {
			return pos, nil
		}
	}
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h, err := v.scanFrom(i, offset, data, b)
	if err != nil {
		return 0, err
	}
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) {
			return v.sizeOf(i), nil
		}
		if err != nil || x.last >= offset {
			return x.pos, err
		}
	}
}

// scanFrom begins a walk over the batches of segment i that meets the one with offset: at the batch that the index names,
// if the index is right about it. A damaged index must not make readers skip records, and the log is the truth: then the
// walk begins at the segment's start and only the search gets slower.
func (v *View) scanFrom(i int, offset kafka.Offset, data *handle, b *block) (headers, error) {
	near, err := v.lookupOffset(i, offset, b)
	if err != nil {
		return headers{}, err
	}
	h := headers{file: data.file, pos: int64(near.pos), end: v.sizeOf(i), block: b}
	if near.pos == 0 {
		return h, nil
	}
	x, err := h.next()
	if err == nil && x.last == v.segments[i].base+kafka.Offset(near.last) {
		h.pos = x.pos
		return h, nil
	}
	if err != nil && !errors.Is(err, errBadBatch) && !errors.Is(err, io.EOF) {
		return headers{}, err
	}
	v.log.dir.badIndexes.Add(1)
	return headers{file: data.file, end: v.sizeOf(i), block: b}, nil
}

// locate gives the position of the batch that holds offset if that batch ended recently.
func (t *tail) locate(offset kafka.Offset) (int64, bool) {
	if len(t.ends) == 0 || offset < t.ends[0].offset {
		return 0, false
	}
	low, high := 0, len(t.ends)
	for high-low > 1 {
		middle := int(uint(low+high) >> 1)
		if t.ends[middle].offset <= offset {
			low = middle
		} else {
			high = middle
		}
	}
	return t.ends[low].pos, true
}

// batchAt gives the size of the batch at pos if it was appended recently.
func (t *tail) batchAt(pos int64) (int64, bool) {
	for i := len(t.ends) - 2; i >= 0 && t.ends[i].pos >= pos; i-- {
		if t.ends[i].pos == pos {
			return t.ends[i+1].pos - pos, true
		}
	}
	return 0, false
}
