package record

import (
	"encoding/binary"
	"hash/crc32"

	"moldau/internal/kafka"
)

// Layout of a message of format v0 and v1. The checksum is CRC-32 (IEEE) from the magic byte to the end.
const (
	posLegacyCRC        = 12
	posLegacyAttributes = 17
	posLegacyTimestamp  = 18 // v1 only

	minLegacyV1Size = minLegacySize + 8
)

// NoTimestamp is the timestamp of a record that has none.
const NoTimestamp int64 = -1

// Legacy is a view over one entry of format v0 or v1: a message, or a compressed wrapper around several. Such
// entries stand in the logs of clusters that were upgraded; they are scanned, checked and passed on, never
// written or opened.
type Legacy []byte

// SplitLegacy cuts the first entry off b, which must have an old format (Split answers ErrLegacy for it).
func SplitLegacy(b []byte) (first Legacy, rest []byte, err error) {
	size, magic, err := EntrySize(b)
	switch {
	case err != nil:
		return nil, b, err
	case len(b) < size:
		return nil, b, ErrTruncated
	case magic > 1, magic == 1 && size < LogOverhead+minLegacyV1Size:
		return nil, b, ErrCorrupt
	}
	return Legacy(b[:size:size]), b[size:], nil
}

// LastOffset is the offset of the message, of a wrapper's last message. Format v0 and v1 do not tell a
// wrapper's first.
func (l Legacy) LastOffset() kafka.Offset {
	return kafka.Offset(binary.BigEndian.Uint64(l[posBaseOffset:]))
}

// Size is the size of the whole entry in bytes.
func (l Legacy) Size() int { return len(l) }

// Magic is the format: 0 or 1.
func (l Legacy) Magic() int8 { return int8(l[posMagic]) }

// Codec is the wrapper's codec, Uncompressed for a plain message.
func (l Legacy) Codec() Codec { return Codec(l[posLegacyAttributes] & attrCodec) }

// IsLogAppendTime says whether the broker set the timestamp (v1 only).
func (l Legacy) IsLogAppendTime() bool {
	return l.Magic() == 1 && l[posLegacyAttributes]&attrLogAppendTime != 0
}

// MaxTimestamp is the message's timestamp, the largest inside a wrapper; NoTimestamp in format v0.
func (l Legacy) MaxTimestamp() int64 {
	if l.Magic() == 0 {
		return NoTimestamp
	}
	return int64(binary.BigEndian.Uint64(l[posLegacyTimestamp:]))
}

// CheckCRC checks the entry's checksum. It fails with ErrCorrupt.
func (l Legacy) CheckCRC() error {
	if binary.BigEndian.Uint32(l[posLegacyCRC:]) != crc32.ChecksumIEEE(l[posMagic:]) {
		return ErrCorrupt
	}
	return nil
}
