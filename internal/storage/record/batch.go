package record

import (
	"encoding/binary"

	"moldau/internal/kafka"
)

// Layout of the batch header. Offsets in bytes from the start of the batch, integers big-endian.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// HeaderSize is the size of a v2 batch header in bytes; records follow.
	HeaderSize = 61
	// LogOverhead is the size of base offset and length, which the length field does not count.
	LogOverhead = 12
	// Magic is the only format that is written.
	Magic = 2
)

// Attribute bits (int16).
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Codec is a compression codec as stored in a batch's attributes.
type Codec int8

// The codecs of the format. Values above Zstd are invalid.
const (
	Uncompressed Codec = 0
	Gzip         Codec = 1
	Snappy       Codec = 2
	LZ4          Codec = 3
	Zstd         Codec = 4
)

// Batch is a view over the bytes of exactly one v2 batch (header and records). Methods read the header in place and do
// not check anything: Split and Validate do. It aliases the buffer it was cut from.
type Batch []byte

func (b Batch) BaseOffset() kafka.Offset {
	return kafka.Offset(binary.BigEndian.Uint64(b[posBaseOffset:]))
}

// LastOffset is the offset of the last record the batch ever held: base + delta, not count.
func (b Batch) LastOffset() kafka.Offset { return b.BaseOffset() + kafka.Offset(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (b Batch) NextOffset() kafka.Offset { return b.LastOffset() + 1 }

// Size is the size of the whole batch in bytes as its length field says.
func (b Batch) Size() int { return int(int32(binary.BigEndian.Uint32(b[posLength:]))) + LogOverhead }

func (b Batch) LeaderEpoch() kafka.LeaderEpoch {
	return kafka.LeaderEpoch(binary.BigEndian.Uint32(b[posLeaderEpoch:]))
}
func (b Batch) Magic() int8            { return int8(b[posMagic]) }
func (b Batch) CRC() uint32            { return binary.BigEndian.Uint32(b[posCRC:]) }
func (b Batch) attributes() int16      { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }
func (b Batch) Codec() Codec           { return Codec(b.attributes() & attrCodec) }
func (b Batch) IsLogAppendTime() bool  { return b.attributes()&attrLogAppendTime != 0 }
func (b Batch) IsTransactional() bool  { return b.attributes()&attrTransactional != 0 }
func (b Batch) IsControl() bool        { return b.attributes()&attrControl != 0 }
func (b Batch) HasDeleteHorizon() bool { return b.attributes()&attrDeleteHorizon != 0 }
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// BaseTimestamp is in milliseconds since the epoch; it holds the delete horizon when HasDeleteHorizon.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp is in milliseconds since the epoch, -1 when no record has one.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }
func (b Batch) ProducerID() kafka.ProducerID {
	return kafka.ProducerID(binary.BigEndian.Uint64(b[posProducerID:]))
}
func (b Batch) ProducerEpoch() kafka.ProducerEpoch {
	return kafka.ProducerEpoch(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence of the last record; sequences wrap from 2147483647 to 0. -1 without producer.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == kafka.NoSequence {
		return kafka.NoSequence
	}
	return AddSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// Count is the number of records the header claims.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// HasProducer says whether the batch carries a producer id.
func (b Batch) HasProducer() bool { return b.ProducerID() > kafka.NoProducer }

// AddSequence adds n to a sequence number, wrapping from 2147483647 to 0.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & 0x7fffffff)
}

// SetBaseOffset and SetLeaderEpoch stamp a batch in place: both fields lie outside the CRC.
func (b Batch) SetBaseOffset(o kafka.Offset) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(o))
}

// SetLeaderEpoch stamps the leader epoch in place.
func (b Batch) SetLeaderEpoch(e kafka.LeaderEpoch) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e))
}
