package log

import (
	"errors"
	"io"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// How far back completeWindows looks: this many bytes and this many index entries, whichever reaches further. Entries stand
// a few KiB apart, or one per batch where batches are large.
const (
	refillBytes   = 1 << 20
	refillEntries = 4 * producerWindow
)

// checkProducer judges a batch by the producer state.
//
// A snapshot keeps one batch of each producer, yet a client may have five in flight: when it saw none of their answers
// before the stop or the roll that wrote the snapshot, it sends all of them again. Refused as out of order, it would number
// its batches anew, and the log would hold them twice. So before the first batch is refused as that, the state is completed
// from the log, once; a start need not read what nobody may ask for.
func (l *Log) checkProducer(b record.Batch, c ProducerCheck) (Verdict, error) {
	v, err := l.producers.Check(b, c)
	if l.loadedAt == kafka.NoOffset || c.Origin != FromClient || kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
		return v, err
	}
	if err := l.producers.completeWindows(l.View(), l.loadedAt); err != nil {
		return Verdict{}, storageError("read what producers sent before", err)
	}
	l.loadedAt = kafka.NoOffset
	return l.producers.Check(b, c)
}

// completeWindows adds to a state that came from a snapshot of offset, and has followed the log since, the batches that
// end at offset, as far back as a client's batches in flight are likely to lie. They only add to what is known: a producer
// whose oldest known batch they do not show stays as it is.
func (p *Producers) completeWindows(v *View, offset kafka.Offset) error {
	if len(p.byID) == 0 || offset <= v.segments[0].base {
		return nil
	}
	var before Producers
	last := v.find(offset - 1)
	first, pos, err := v.backFrom(last, offset)
	if err != nil {
		return err
	}
	for i := first; i <= last; i++ {
		// Recovery and the scrubber are there to judge bytes that are no batch.
		if err := v.replayInto(&before, i, pos, offset); err != nil && !errors.Is(err, errBadBatch) {
			return err
		}
		pos = 0
	}
	for id, s := range p.byID {
		if b, ok := before.byID[id]; ok {
			s.continues(b)
		}
	}
	return nil
}

// continues puts before s's batches those of an earlier state that ends with the oldest of them.
func (s *producer) continues(before *producer) {
	if s.count == 0 || before.epoch != s.epoch || before.last() != s.nth(s.count-1) {
		return
	}
	for i := int(s.count) - 2; i >= 0; i-- {
		before.push(s.nth(uint8(i)))
	}
	s.newest, s.older, s.latest, s.count = before.newest, before.older, before.latest, before.count
}

// backFrom gives the segment and the position from which to read in order to see what lies before offset in segment i.
func (v *View) backFrom(i int, offset kafka.Offset) (segment int, pos int64, err error) {
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	near, err := v.lookupOffset(i, offset-1, b)
	if err != nil {
		return i, 0, err
	}
	end := int64(near.pos)
	for bytes, entries := int64(refillBytes), refillEntries; ; i-- {
		pos, n, err := v.entryBefore(i, end, bytes, entries, b)
		bytes, entries = bytes-end, entries-n
		if err != nil || pos > 0 || i == 0 || bytes <= 0 && entries <= 0 {
			return i, pos, err
		}
		end = v.sizeOf(i - 1)
	}
}

// entryBefore gives the position of the last entry of segment i's offset index that stands bytes and entries before end,
// 0 when there is none, and how many entries lie before end.
func (v *View) entryBefore(i int, end, bytes int64, entries int, b *block) (pos int64, before int, err error) {
	c, err := v.countsOf(i, b)
	if err != nil || c.offsets == 0 {
		return 0, 0, err
	}
	h, err := v.segments[i].acquire(offsetIndexFile)
	if err != nil {
		return 0, 0, err
	}
	defer h.release()
	upTo := func(count int, pos int64) ([]byte, int, error) {
		return lastEntry(h.file, offsetEntrySize, count, b, func(e []byte) bool { return int64(decodeOffsetEntry(e).pos) <= pos })
	}
	_, n, err := upTo(int(c.offsets), end)
	if before = n + 1; err != nil || before <= entries {
		return 0, before, err
	}
	e, n, err := upTo(before-max(entries, 0), end-max(bytes, 0))
	if err != nil || n < 0 {
		return 0, before, err
	}
	return int64(decodeOffsetEntry(e).pos), before, nil
}

// replayInto tells p the batches of segment i from pos on that begin before end; errBadBatch at bytes that are no batch.
func (v *View) replayInto(p *Producers, i int, pos int64, end kafka.Offset) error {
	data, err := v.segments[i].acquire(dataFile)
	if err != nil {
		return err
	}
	defer data.release()
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h := headers{file: data.file, pos: pos, end: v.sizeOf(i), block: b}
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || x.base >= end {
			return err
		}
		if _, err := p.replay(data.file, x, h.bytes(x)); err != nil {
			return err
		}
	}
}
