package record

import (
	"encoding/binary"
	"fmt"

	"moldau/internal/kafka"
)

// ControlType is what a control record is about.
type ControlType int16

// The control records of Kafka. Unknown ones are skipped by readers.
const (
	ControlUnknown        ControlType = -1
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2 // these and the following stand in the metadata log only
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlKRaftVoters    ControlType = 6
)

// controlKeySize is int16 version (0) and int16 type.
const controlKeySize = 4

// ParseControlKey reads the key of a control record. Keys of later versions may be longer; a type that is not
// known is ControlUnknown.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize || int16(binary.BigEndian.Uint16(key)) < 0 {
		return ControlUnknown, invalid("control record key %x", key[:min(len(key), controlKeySize)])
	}
	t := ControlType(binary.BigEndian.Uint16(key[2:]))
	if t < ControlAbort || t > ControlKRaftVoters {
		return ControlUnknown, nil
	}
	return t, nil
}

// ControlRecord is a control record to be written: Value is the body in its own encoding, its version
// included.
type ControlRecord struct {
	Type  ControlType
	Value []byte
}

// ControlBatch builds an uncompressed batch of control records, all of time ts (milliseconds since the
// epoch).
func ControlBatch(o Options, ts int64, records ...ControlRecord) (Batch, error) {
	o.Control, o.Codec = true, Uncompressed
	b := NewBuilder(o)
	for _, r := range records {
		var key [controlKeySize]byte
		binary.BigEndian.PutUint16(key[2:], uint16(r.Type))
		b.Append(ts, key[:], r.Value, nil)
	}
	return b.Build()
}

// EndTxnMarker is the control record that ends a transaction on a partition.
type EndTxnMarker struct {
	Commit           bool
	CoordinatorEpoch int32 // of the transaction coordinator: an older one's markers are refused
}

// endTxnMarkerSize is int16 version (0) and int32 coordinator epoch.
const endTxnMarkerSize = 6

// Type is the marker's control type.
func (m EndTxnMarker) Type() ControlType {
	if m.Commit {
		return ControlCommit
	}
	return ControlAbort
}

// Record is the marker as a control record.
func (m EndTxnMarker) Record() ControlRecord {
	value := make([]byte, endTxnMarkerSize)
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))
	return ControlRecord{m.Type(), value}
}

// ParseEndTxnMarker reads a transaction marker. Values of later versions may be longer.
func ParseEndTxnMarker(key, value []byte) (EndTxnMarker, error) {
	t, err := ParseControlKey(key)
	if err != nil {
		return EndTxnMarker{}, err
	}
	if t != ControlAbort && t != ControlCommit {
		return EndTxnMarker{}, invalid("control record of type %d is no transaction marker", t)
	}
	if len(value) < endTxnMarkerSize || int16(binary.BigEndian.Uint16(value)) < 0 {
		return EndTxnMarker{}, invalid("transaction marker value of %d bytes", len(value))
	}
	return EndTxnMarker{t == ControlCommit, int32(binary.BigEndian.Uint32(value[2:]))}, nil
}

// MarkerBatch builds the batch that ends a producer's transaction, at offset 0 until the log stamps it. ts is
// in milliseconds since the epoch.
func MarkerBatch(id kafka.ProducerID, epoch kafka.ProducerEpoch, m EndTxnMarker, ts int64) (Batch, error) {
	o := Options{Producer: &Producer{id, epoch, kafka.NoSequence}, Transactional: true}
	return ControlBatch(o, ts, m.Record())
}

// first reads the batch's first record, without allocating unless it is compressed.
func (b Batch) first(r *raw) error {
	var w walker
	if b.Count() <= 0 {
		return invalid("no record")
	}
	if b.Codec() != Uncompressed {
		return fmt.Errorf("%w: compressed control batch", ErrInvalid)
	}
	w.buf = b.payload()
	return w.next(r)
}

// ControlType reads what a control batch is about, which its first record tells. A batch emptied by
// compaction has none and fails with ErrInvalid.
func (b Batch) ControlType() (ControlType, error) {
	var r raw
	if err := b.first(&r); err != nil {
		return ControlUnknown, err
	}
	return ParseControlKey(r.key)
}

// EndTxnMarker reads the marker of a transaction's control batch.
func (b Batch) EndTxnMarker() (EndTxnMarker, error) {
	var r raw
	if err := b.first(&r); err != nil {
		return EndTxnMarker{}, err
	}
	return ParseEndTxnMarker(r.key, r.value)
}
