package coordinator

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// maxSplit bounds a batch of records that may be cut, so that a large result does not make one large batch, in bytes.
const maxSplit = 1 << 20

// write appends the records of a result and applies what was appended. On success it gives the last batch, for replies to
// wait for; an error, mapped for clients, says that the rest was not appended.
func (s *shard) write(now time.Time, res *Result, out *outbox) (*write, error) {
	config := s.part.Config()
	if config == nil {
		return nil, refusalOf(kafka.KafkaStorageError)
	}
	var w *write
	for rest := res.Records; len(rest) > 0; {
		n := len(rest)
		if res.Split {
			n = fitting(rest, int(min(config.SegmentBytes, int64(config.MaxMessageBytes), maxSplit)))
		}
		var err error
		if w, err = s.append(now, rest[:n], res, config, out); err != nil {
			s.r.o.Metrics.AppendErrors.Inc()
			return nil, refusalOf(err)
		}
		rest = rest[n:]
	}
	return w, nil
}

// recordOverhead is what a record takes beside key and value at most, in bytes.
const recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 1

// fitting gives how many of the records, at least one, fit into a batch of a size whatever the codec makes of them.
func fitting(records []Record, limit int) int {
	size := record.HeaderSize
	for i, x := range records {
		size += recordOverhead + len(x.Key) + len(x.Value)
		if size > limit {
			return max(i, 1)
		}
	}
	return len(records)
}

// append appends one batch and applies it.
func (s *shard) append(now time.Time, records []Record, res *Result, config *log.Config, out *outbox) (*write, error) {
	batch, err := s.build(now, records, res.Stamp, config)
	if err != nil {
		return nil, err
	}
	if len(batch) > int(config.MaxMessageBytes) {
		return nil, kafka.Errorf(kafka.MessageTooLarge, "a batch of %d bytes for %s, max.message.bytes is %d", len(batch), s.tp,
			config.MaxMessageBytes)
	}
	w := s.r.newWrite(s, res, now)
	first, err := s.appendBatch(now, batch, 0, w, out)
	if err != nil {
		return nil, err
	}
	at := Origin{Offset: first, TimestampMs: now.UnixMilli(), Producer: NoStamp}
	if res.Stamp != nil {
		at.Producer = *res.Stamp
	}
	for _, x := range records {
		if err := s.machine.Apply(x, at); err != nil {
			s.r.o.Log.Error("a coordinator does not understand its own record", "partition", s.tp.String(),
				"offset", at.Offset, "error", err)
		}
		at.Offset++
	}
	s.r.o.Metrics.Records.Add(len(records))
	return w, nil
}

// appendBatch appends one batch, which may be a marker, and notes that it is not committed. On an error w is gone.
func (s *shard) appendBatch(now time.Time, batch record.Batch, transactionVersion int16, w *write, out *outbox) (
	kafka.Offset, error) {
	e, err := s.part.Append(now, replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromCoordinator, TransactionVersion: transactionVersion},
		Verify:   s.verify, Guard: s.guard}, &w.AppendWaiter)
	out.add(e)
	if err != nil {
		s.r.putWrite(w)
		return 0, err
	}
	s.writes.add(w)
	s.r.o.Metrics.Appends.Inc()
	return w.Result.First, nil
}

// build makes a batch of records. It lies in s.buffer, which the append does not keep.
func (s *shard) build(now time.Time, records []Record, stamp *Stamp, config *log.Config) (record.Batch, error) {
	o := record.Options{Codec: s.r.o.Codec, Buffer: s.buffer}
	if !config.KeepCodec {
		o.Codec = config.Codec
	}
	if stamp != nil {
		o.Transactional = true
		o.Producer = &record.Producer{ID: stamp.ID, Epoch: stamp.Epoch, Sequence: kafka.NoSequence}
	}
	ts := now.UnixMilli()
	if config.LogAppendTime {
		o.LogAppendTime, o.AppendTimeMs = true, ts
	}
	s.builder.Reset(o)
	for _, x := range records {
		s.builder.Append(ts, x.Key, x.Value, nil)
	}
	batch, err := s.builder.Build()
	if o.Codec == record.Uncompressed && err == nil && cap(batch) <= s.r.o.KeepBytes() {
		s.buffer = batch[:0]
	}
	return batch, err
}
