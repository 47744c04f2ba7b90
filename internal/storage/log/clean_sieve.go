package log

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// sieve decides what stays of each batch. It is given the batches of a log from its first segment on, because what
// happens to a transaction's marker depends on whether any of its data is still there.
type sieve struct {
	keys *keyMap
	// from and end are what keys covers: from end on everything stays as it is.
	from, end kafka.Offset
	// nowMs is when the pass began, horizonMs until when tombstones and markers that are met for the first time stay
	// (delete.retention.ms, KIP-534).
	nowMs, horizonMs int64
	highWatermark    kafka.Offset
	// last is what the log knows of each producer's newest batch: that one must remain, or the producer's next batch
	// would be out of sequence after the state is rebuilt from the log.
	last map[kafka.ProducerID]lastBatch
	// met are the producers whose open transaction has data before the batch that is looked at.
	met map[kafka.ProducerID]struct{}

	aborted abortedTxns // that reach into the segment at hand
	kept    []AbortedTxn
	keep    []bool // of the batch at hand
	builder record.Builder
	done    Cleaned
}

// lastBatch is a producer's newest batch with data, or only its epoch when none is remembered.
type lastBatch struct {
	offset kafka.Offset
	epoch  kafka.ProducerEpoch
}

// abortedTxns finds out whether a batch belongs to an aborted transaction.
type abortedTxns map[kafka.ProducerID][]AbortedTxn

func newAbortedTxns(all []AbortedTxn) abortedTxns {
	if len(all) == 0 {
		return nil
	}
	x := make(abortedTxns, len(all))
	for _, a := range all {
		x[a.ProducerID] = append(x[a.ProducerID], a)
	}
	return x
}

// at gives the aborted transaction of a producer that spans offset.
func (x abortedTxns) at(id kafka.ProducerID, offset kafka.Offset) (AbortedTxn, bool) {
	for _, a := range x[id] {
		if a.First <= offset && offset <= a.Last {
			return a, true
		}
	}
	return AbortedTxn{}, false
}

func (x abortedTxns) has(b record.Batch) bool {
	if !b.IsTransactional() || len(x) == 0 {
		return false
	}
	_, ok := x.at(b.ProducerID(), b.BaseOffset())
	return ok
}

// note takes over the keys of a batch in the dirty part. It says whether the map is full; then end is where that was.
func (s *sieve) note(b record.Batch) (full bool, err error) {
	if b.IsControl() || b.Count() == 0 || s.aborted.has(b) {
		return false, nil
	}
	for r, err := range b.Records(record.Limits{}) {
		if err != nil {
			return false, err
		}
		if r.Offset < s.from || r.Key == nil || s.keys.tooLong(r.Key) {
			continue
		}
		if !s.keys.put(r.Key, r.Offset) {
			s.end = r.Offset
			return true, nil
		}
	}
	return false, nil
}

// sift gives what stays of b: b itself, another batch in its place, or nil. Offsets never change.
func (s *sieve) sift(b record.Batch) (record.Batch, error) {
	switch {
	case b.BaseOffset() >= s.end:
		return b, nil
	case b.IsControl():
		return s.siftMarker(b)
	}
	if b.IsTransactional() {
		s.met[b.ProducerID()] = struct{}{}
		if s.aborted.has(b) {
			s.done.RecordsDropped += int64(b.Count())
			return s.emptied(b), nil
		}
	}
	if b.Count() == 0 {
		return s.emptied(b), nil
	}
	return s.siftRecords(b)
}

// siftMarker keeps a transaction's marker for as long as a batch of the transaction was met before it, so that readers
// and whoever rebuilds producer state never see data without its end; then until its horizon passed.
func (s *sieve) siftMarker(b record.Batch) (record.Batch, error) {
	id := b.ProducerID()
	_, hasData := s.met[id]
	delete(s.met, id)
	if b.Count() == 0 {
		return s.emptied(b), nil
	}
	kind, err := b.ControlType()
	if err != nil {
		return nil, err
	}
	switch {
	case kind != record.ControlCommit && kind != record.ControlAbort:
		return b, nil
	case hasData:
		if a, ok := s.aborted.at(id, b.LastOffset()); ok && kind == record.ControlAbort {
			s.kept = append(s.kept, a)
		}
		return b, nil
	case !b.HasDeleteHorizon():
		o := record.OptionsOf(b)
		o.DeleteHorizonMs = s.horizonMs
		return s.rebuild(b, o, nil)
	case b.BaseTimestamp() > s.nowMs:
		return b, nil
	}
	s.done.RecordsDropped += int64(b.Count())
	return s.emptied(b), nil
}

// siftRecords keeps the newest record of each key.
func (s *sieve) siftRecords(b record.Batch) (record.Batch, error) {
	expired := b.HasDeleteHorizon() && b.BaseTimestamp() <= s.nowMs
	kept, tombstones := 0, false
	s.keep = s.keep[:0]
	for r, err := range b.Records(record.Limits{}) {
		if err != nil {
			return nil, err
		}
		stays := s.stays(&r, expired)
		s.keep = append(s.keep, stays)
		if stays {
			kept++
			tombstones = tombstones || (r.Value == nil && r.Offset < s.end)
		}
	}
	s.done.RecordsKept += int64(kept)
	s.done.RecordsDropped += int64(len(s.keep) - kept)
	needsHorizon := tombstones && !b.HasDeleteHorizon()
	switch {
	case kept == 0:
		return s.emptied(b), nil
	case kept == len(s.keep) && !needsHorizon:
		return b, nil
	}
	o := record.OptionsOf(b)
	if needsHorizon {
		o.DeleteHorizonMs = s.horizonMs
	}
	return s.rebuild(b, o, s.keep)
}

// stays says whether a record remains. One whose key is too long for the map always does, a tombstone too: there may be
// older records of that key. Records without a key are none that compaction could keep apart (they can only be from
// before the topic was compacted); they go, as in Kafka.
func (s *sieve) stays(r *record.Record, expired bool) bool {
	switch {
	case r.Offset >= s.end:
		return true
	case r.Key == nil:
		return false
	case s.keys.tooLong(r.Key):
		return true
	}
	if newest, ok := s.keys.newest(r.Key); ok && newest > r.Offset {
		return false
	}
	return r.Value != nil || !expired
}

// rebuild makes b anew with the records that keep names, nil meaning all.
func (s *sieve) rebuild(b record.Batch, o record.Options, keep []bool) (record.Batch, error) {
	s.builder.Reset(o)
	i := 0
	for r, err := range b.Records(record.Limits{}) {
		if err != nil {
			return nil, err
		}
		if keep == nil || keep[i] {
			s.builder.AppendRecord(r)
		}
		i++
	}
	s.builder.SetLastOffset(b.LastOffset())
	s.done.BatchesRewritten++
	return s.builder.Build()
}

// emptied gives what remains of a batch without records: nothing, unless its producer's state or the place of the high
// watermark still needs it.
func (s *sieve) emptied(b record.Batch) record.Batch {
	if !s.needed(b) {
		return nil
	}
	if b.Count() == 0 {
		return b
	}
	return b.Emptied()
}

func (s *sieve) needed(b record.Batch) bool {
	if b.NextOffset() == s.highWatermark {
		return true
	}
	x, ok := s.last[b.ProducerID()]
	if ok && x.offset == kafka.NoOffset {
		return b.IsControl() && x.epoch == b.ProducerEpoch()
	}
	return ok && x.offset == b.LastOffset()
}

// lastBatches gives the newest batch of each producer that lies before end or is not known.
func (p *Producers) lastBatches(end kafka.Offset) map[kafka.ProducerID]lastBatch {
	out := make(map[kafka.ProducerID]lastBatch)
	for id, s := range p.byID { // the order does not show
		if last := s.last(); last.lastOffset < end {
			out[id] = lastBatch{offset: last.lastOffset, epoch: s.epoch}
		}
	}
	return out
}
