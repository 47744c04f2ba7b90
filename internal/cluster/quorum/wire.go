package quorum

import (
	"encoding/binary"

	"moldau/internal/kafka"
)

// Control records use the flexible encoding of the Kafka protocol (KIP-482). These are the few shapes they
// need.

func putInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func putInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func putInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func putLength(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

func putString(b []byte, s string) []byte { return append(putLength(b, len(s)), s...) }

// putNoTags ends a struct that has no tagged field.
func putNoTags(b []byte) []byte { return append(b, 0) }

// reader takes a body apart. The first mistake sticks; values read after it are zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uuid() kafka.UUID {
	if b := r.take(16); b != nil {
		return kafka.UUID(b)
	}
	return kafka.UUID{}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// length reads the length of a string or array; a null one, or one that cannot fit into what is left, is a
// mistake.
func (r *reader) length() int {
	n := r.uvarint()
	if r.bad || n == 0 || n-1 > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n - 1)
}

func (r *reader) string() string { return string(r.take(r.length())) }

// skipTags passes over tagged fields: none is known, and unknown ones are ignored (KIP-482).
func (r *reader) skipTags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.take(int(min(r.uvarint(), 1<<31)))
	}
}
