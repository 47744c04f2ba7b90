package log

import (
	"encoding/binary"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// markerKind says what a control batch does to a transaction.
type markerKind int8

const (
	markerNone markerKind = iota // not a marker: emptied by compaction, or a control type of something else
	markerCommit
	markerAbort
)

// Control record types of a transaction marker's key (KIP-98).
const (
	controlAbort  = 0
	controlCommit = 1
)

// marker is the decoded record of a transaction marker batch.
type marker struct {
	kind             markerKind
	coordinatorEpoch int32
	timestamp        int64 // ms
}

// parseMarker reads the one record of a marker batch. It is read here in place and not through the record iterator
// because it stands on the append path and must not allocate. Markers are never compressed.
func parseMarker(b record.Batch) (marker, error) {
	if b.Count() == 0 {
		return marker{}, nil // compaction removed the whole transaction
	}
	bad := func(what string) (marker, error) {
		return marker{}, kafka.Errorf(kafka.CorruptMessage, "control batch of producer %d at offset %d: %s",
			b.ProducerID(), b.BaseOffset(), what)
	}
	if b.Codec() != record.Uncompressed {
		return bad("compressed")
	}
	r := markerReader{rest: b[record.HeaderSize:]}
	length := r.varint()
	if r.failed || length < 0 || length > int64(len(r.rest)) {
		return bad("record length")
	}
	r.rest = r.rest[:length]
	r.take(1) // attributes
	delta := r.varint()
	r.varint() // offset delta
	key := r.take(r.varint())
	value := r.take(r.varint())
	if r.failed || len(key) < 4 {
		return bad("record")
	}
	m := marker{timestamp: b.BaseTimestamp() + delta}
	if b.IsLogAppendTime() {
		m.timestamp = b.MaxTimestamp()
	}
	switch binary.BigEndian.Uint16(key[2:]) {
	case controlAbort:
		m.kind = markerAbort
	case controlCommit:
		m.kind = markerCommit
	default:
		return marker{}, nil
	}
	if len(value) < 6 || int16(binary.BigEndian.Uint16(value)) < 0 {
		return bad("marker value")
	}
	m.coordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return m, nil
}

// markerReader cuts fields off a record; after the first failure it stays failed and gives nothing.
type markerReader struct {
	rest   []byte
	failed bool
}

func (r *markerReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *markerReader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.rest)) {
		r.failed = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}
