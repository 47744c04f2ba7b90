package quorum

import (
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// The batches of the metadata log are plain: no compression, no producer, no headers, one time for all
// records. Offsets and epoch are stamped when they are appended.

// dataBatch builds a batch of metadata records: values without keys.
func dataBatch(timestampMs int64, values [][]byte) (record.Batch, error) {
	size := 0
	for _, v := range values {
		size += len(v) + recordOverhead
	}
	b := record.NewBuilder(record.Options{SizeHint: size})
	for _, v := range values {
		b.Append(timestampMs, nil, v, nil)
	}
	return b.Build()
}

// controlBatch builds a batch of control records.
func controlBatch(timestampMs int64, bodies []ControlBody) (record.Batch, error) {
	records := make([]record.ControlRecord, len(bodies))
	for i, body := range bodies {
		records[i] = record.ControlRecord{Type: body.controlType(), Value: body.encode(nil)}
	}
	return record.ControlBatch(record.Options{}, timestampMs, records...)
}

// recordOverhead bounds what a record adds to its value: lengths, deltas and flags.
const recordOverhead = 22

// controlRecords reads the records of a control batch.
func controlRecords(b record.Batch) ([]ControlRecord, error) {
	var out []ControlRecord
	for r, err := range b.Records(record.Limits{}) {
		if err != nil {
			return nil, err
		}
		body, err := DecodeControl(r.Key, r.Value)
		if err != nil {
			return nil, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		out = append(out, ControlRecord{Offset: r.Offset, Body: body})
	}
	return out, nil
}

// dataValues reads the values of a batch of metadata records, in order. They alias an uncompressed batch.
func dataValues(b record.Batch) ([][]byte, error) {
	out := make([][]byte, 0, min(b.Count(), MaxBatchRecords))
	for r, err := range b.Records(record.Limits{}) {
		switch {
		case err != nil:
			return nil, err
		case r.Key != nil || len(r.Value) == 0 || r.Headers.Len() > 0:
			return nil, fmt.Errorf("offset %d: a metadata record has a key, headers or no value", r.Offset)
		}
		value := r.Value
		if b.Codec() != record.Uncompressed {
			value = append([]byte(nil), value...)
		}
		out = append(out, value)
	}
	return out, nil
}

// checkBatch says whether a batch may stand in the metadata log or a snapshot.
func checkBatch(b record.Batch) error {
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if b.LastOffsetDelta() != b.Count()-1 || b.Count() < 1 {
		return fmt.Errorf("batch at %d: %d records for %d offsets: %w", b.BaseOffset(), b.Count(),
			b.LastOffsetDelta()+1, kafka.CorruptMessage)
	}
	return nil
}

// stamped gives a batch its place, which lies outside its checksum.
func stamped(b record.Batch, base kafka.Offset, epoch kafka.LeaderEpoch) record.Batch {
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(epoch)
	return b
}
