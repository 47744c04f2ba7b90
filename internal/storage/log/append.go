package log

import (
	"errors"
	"math"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// chunk is a run of whole batches that goes into one segment with one write.
type chunk struct {
	bytes        []byte
	first, last  kafka.Offset
	maxTimestamp int64
}

// Append writes b, one or more whole batches, to the page cache; it is durable after the next flush. Under s.Assign
// offsets and leader epoch are stamped into b in place (both lie outside the CRC). Batches are taken as they are: record
// validation comes before. b is not kept.
//
// Errors: those of Producers.Check; RecordListTooLarge for a leader's batch above segment.bytes; InvalidRequest for
// several batches with a producer id under s.Assign; OffsetOutOfRange for a replicated batch below the log end;
// CorruptMessage when b is no sequence of batches; FencedLeaderEpoch for an epoch below the newest in the log; KafkaStorageError wrapping the cause when the disk failed or is full
// (vfs.IsNoSpace). After an error the log is as before, except that of a replicated append that spans segments the
// batches of the earlier segments may stand: the log end says so.
func (l *Log) Append(b []byte, s Stamp, now time.Time) (Appended, error) {
	if err := l.writable(); err != nil {
		return Appended{}, err
	}
	v := l.View()
	out := Appended{First: v.End, Last: v.End - 1, LogAppendTimeMs: -1, LogStart: v.Start}
	if len(b) == 0 {
		return out, nil
	}
	c, err := l.prepare(b, v.End, s, &out)
	if err != nil || out.Duplicate {
		return out, err
	}
	a, err := l.activate(now)
	if err != nil {
		return out, err
	}
	l.finished = false
	config := l.Config()
	for rest := c; len(rest.bytes) > 0; {
		var part chunk
		part, rest = rest.split(config)
		rolled, err := l.appendChunk(a, part, config, now)
		out.Rolled = out.Rolled || rolled
		if err != nil {
			return out, err
		}
		a = l.active
	}
	return out, nil
}

// writable says why nothing may be written.
func (l *Log) writable() error {
	if l.failed != nil {
		return l.failed
	}
	if l.syncFailed.Load() {
		return storageError("append", ErrSyncFailed)
	}
	if l.dir.full.Load() && !l.options.UseReserve {
		return storageError("append", errReserve)
	}
	return nil
}

// prepare walks the batches, stamps or checks their offsets, and asks the producer state about them.
func (l *Log) prepare(b []byte, end kafka.Offset, s Stamp, out *Appended) (chunk, error) {
	c := chunk{bytes: b, first: end, maxTimestamp: -1}
	next, producers := end, 0
	newest, _ := l.epochs.Latest()
	for pos := 0; pos < len(b); {
		x, err := parseHeader(b[pos:], int64(pos), int64(len(b)-pos))
		if err != nil {
			return c, kafka.Errorf(kafka.CorruptMessage, "append: %v", err)
		}
		batch := record.Batch(b[pos : pos+int(x.size)])
		if s.Assign {
			if err := l.stamp(batch, x, next, s, &producers, out); err != nil || out.Duplicate {
				return c, err
			}
			x.base, x.last, x.epoch = batch.BaseOffset(), batch.LastOffset(), s.LeaderEpoch
		} else if x.base < next {
			return c, kafka.Errorf(kafka.OffsetOutOfRange, "append of offset %d to a log that ends at %d", x.base, next)
		}
		if x.epoch != kafka.NoEpoch && x.epoch < newest.Epoch {
			return c, kafka.Errorf(kafka.FencedLeaderEpoch, "append in epoch %d to a log in epoch %d", x.epoch, newest.Epoch)
		}
		newest.Epoch = max(newest.Epoch, x.epoch)
		if pos == 0 {
			c.first, out.First = x.base, x.base
			if x.magic == record.Magic && batch.IsLogAppendTime() {
				out.LogAppendTimeMs = x.maxTimestamp
			}
		}
		c.last, out.Last = x.last, x.last
		c.maxTimestamp = max(c.maxTimestamp, x.maxTimestamp)
		next = x.last + 1
		pos += int(x.size)
	}
	return c, nil
}

// stamp checks a leader's batch and gives it its place.
func (l *Log) stamp(b record.Batch, x header, next kafka.Offset, s Stamp, producers *int, out *Appended) error {
	if x.magic != record.Magic {
		return kafka.Errorf(kafka.CorruptMessage, "append of format %d", x.magic)
	}
	if x.size > l.Config().SegmentBytes {
		return kafka.Errorf(kafka.RecordListTooLarge, "batch of %d bytes, segment.bytes is %d", x.size, l.Config().SegmentBytes)
	}
	if b.HasProducer() && !l.options.NoProducers {
		if *producers++; *producers > 1 {
			return kafka.Errorf(kafka.InvalidRequest, "several batches with a producer id in one append")
		}
		verdict, err := l.checkProducer(b, s.Producer)
		if err != nil {
			return err
		}
		if verdict.Duplicate {
			out.Duplicate, out.First, out.Last = true, verdict.First, verdict.Last
			out.LogAppendTimeMs = verdict.TimestampMs
			return nil
		}
	}
	b.SetBaseOffset(next)
	b.SetLeaderEpoch(s.LeaderEpoch)
	return nil
}

// split cuts off what may go into one segment: everything, unless a replicated append is larger than a segment or its
// offsets span more than an index can say.
func (c chunk) split(config *Config) (part, rest chunk) {
	if int64(len(c.bytes)) <= config.SegmentBytes && fitsRelative(c.first, c.last) {
		return c, chunk{}
	}
	part = chunk{first: c.first, maxTimestamp: -1}
	pos := 0
	for pos < len(c.bytes) {
		x, err := parseHeader(c.bytes[pos:], int64(pos), int64(len(c.bytes)-pos))
		if err != nil {
			break // prepare has seen these bytes
		}
		if pos > 0 && (int64(pos)+x.size > config.SegmentBytes || !fitsRelative(c.first, x.last)) {
			rest = chunk{bytes: c.bytes[pos:], first: x.base, last: c.last, maxTimestamp: c.maxTimestamp}
			break
		}
		part.last = x.last
		part.maxTimestamp = max(part.maxTimestamp, x.maxTimestamp)
		pos += int(x.size)
	}
	part.bytes = c.bytes[:pos]
	return part, rest
}

// appendChunk writes c, into a new segment if it must be.
func (l *Log) appendChunk(a *active, c chunk, config *Config, now time.Time) (rolled bool, err error) {
	var next *roll
	target := a
	if l.shouldRoll(a, c, config, now) {
		if next, err = l.prepareRoll(a, l.rollBase(c), now); err != nil {
			return false, err
		}
		target = next.active
	}
	if err := l.write(target, c, now); err != nil {
		if next != nil {
			err = errors.Join(err, l.discardRoll(next))
		}
		return false, err
	}
	if next != nil {
		l.installRoll(a, next)
	}
	l.account(target, c, config)
	l.publishAppend(target, c.last+1)
	return next != nil, nil
}

// rollBase is where a segment for c begins: at the log end also when c leaves a gap, unless that is too wide for the
// indexes. So a segment that ends before the next one begins has lost something, or was compacted; recovery tells.
func (l *Log) rollBase(c chunk) kafka.Offset {
	if end := l.View().End; fitsRelative(end, c.last) {
		return end
	}
	return c.first
}

// write puts the bytes at the end of the file and then tells the producer state. What fails is undone, as if nothing had
// been tried; what cannot be undone makes the log refuse everything from now on.
func (l *Log) write(a *active, c chunk, now time.Time) error {
	if err := writeFull(a.data.file, c.bytes, a.size); err != nil {
		return storageError("append", l.cutBack(a, err))
	}
	if l.options.NoProducers {
		return nil
	}
	if err := l.updateProducers(a, c.bytes); err != nil {
		err = l.cutBack(a, err)
		if l.failed == nil {
			if reload := l.reloadProducers(l.View(), now); reload != nil {
				l.failed = storageError("reload producer state", reload)
			}
		}
		return storageError("append", err)
	}
	return nil
}

// cutBack removes what a failed append left behind a.size.
func (l *Log) cutBack(a *active, cause error) error {
	if err := a.data.file.Truncate(a.size); err != nil {
		l.failed = storageError("cut back a failed append", err)
		return errors.Join(cause, err)
	}
	return cause
}

// updateProducers tells the producer state what now stands in the log, and indexes aborted transactions.
func (l *Log) updateProducers(a *active, b []byte) error {
	for pos := 0; pos < len(b); {
		x, err := parseHeader(b[pos:], int64(pos), int64(len(b)-pos))
		if err != nil {
			return err
		}
		if x.magic == record.Magic {
			ended, ok := l.producers.Update(record.Batch(b[pos : pos+int(x.size)]))
			if ok && ended.Aborted {
				if err := l.addAborted(a.seg, ended.Entry()); err != nil {
					return err
				}
			}
		}
		pos += int(x.size)
	}
	return nil
}

// account brings indexes, epochs and ends up to date with what was written. Nothing here can fail: index entries that
// cannot be written stay in memory.
func (l *Log) account(a *active, c chunk, config *Config) {
	for pos := 0; pos < len(c.bytes); {
		x, err := parseHeader(c.bytes[pos:], int64(pos), int64(len(c.bytes)-pos))
		if err != nil {
			break // prepare has seen these bytes
		}
		a.noteBatch(x, a.size+int64(pos), config)
		if epochs, changed := l.epochs.Assign(x.epoch, x.base); changed {
			l.setEpochs(epochs)
		}
		pos += int(x.size)
	}
	a.size += int64(len(c.bytes))
	if len(a.index.offsets) >= indexBuffer {
		// An error leaves the entries in memory for the next attempt; the roll or the flush reports it if it lasts.
		_ = a.writeIndexes()
	}
}

// publishAppend shows readers the new end.
func (l *Log) publishAppend(a *active, end kafka.Offset) {
	v := *l.View()
	v.End = end
	v.tail = a.tail()
	v.epochs = l.visible
	l.view.Store(&v)
}

// shouldRoll says whether c begins a new segment: the last one would grow above segment.bytes, is older than segment.ms
// in message time, has a full index, or cannot express the offset. An empty segment is only left when it must be.
func (l *Log) shouldRoll(a *active, c chunk, config *Config, now time.Time) bool {
	if !fitsRelative(a.seg.base, c.last) {
		return true
	}
	if a.size == 0 {
		return false
	}
	grown := a.size + int64(len(c.bytes))
	if grown > config.SegmentBytes || grown > math.MaxInt32 || a.indexFull(config) {
		return true
	}
	if a.created.IsZero() {
		a.created = now
	}
	waited := now.UnixMilli() - a.created.UnixMilli()
	if a.firstTimestamp >= 0 {
		waited = c.maxTimestamp - a.firstTimestamp
	}
	return waited > config.rollMs()-l.jitterMs(a.seg.base, config)
}

// jitterMs spreads the rolls of partitions that were created together. It depends on the partition and segment only, so
// that a run can be repeated.
func (l *Log) jitterMs(base kafka.Offset, config *Config) int64 {
	most := min(config.SegmentJitterMs, config.rollMs())
	if most <= 0 {
		return 0
	}
	hash := uint64(14695981039346656037)
	for i := range len(l.tp.Topic) {
		hash = (hash ^ uint64(l.tp.Topic[i])) * 1099511628211
	}
	hash = (hash ^ uint64(l.tp.Partition)) * 1099511628211
	hash = (hash ^ uint64(base)) * 1099511628211
	return int64(hash % uint64(most))
}
