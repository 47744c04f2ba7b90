package record

import (
	"encoding/binary"
	"math/bits"
)

// Varints are those of protocol buffers, signed ones zigzag coded. Encodings longer than needed are read (Kafka reads
// them), but not those that run past the type's length or lose bits, which clients disagree about.

const (
	maxVarintLen32 = 5
	maxVarintLen64 = binary.MaxVarintLen64
)

// uvarint32 decodes an unsigned varint of at most 32 bits. n is the number of bytes read; 0 if b is too short, negative
// if the encoding is too long.
func uvarint32(b []byte) (v uint32, n int) {
	for i, c := range b[:min(len(b), maxVarintLen32)] {
		if c < 0x80 {
			if i == maxVarintLen32-1 && c > 0x0f {
				return 0, -1
			}
			return v | uint32(c)<<(7*i), i + 1
		}
		v |= uint32(c&0x7f) << (7 * i)
	}
	if len(b) >= maxVarintLen32 {
		return 0, -1
	}
	return 0, 0
}

func unzigzag32(v uint32) int32 { return int32(v>>1) ^ -int32(v&1) }
func unzigzag64(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// varintSize is the number of bytes of v zigzag coded.
func varintSize(v int64) int {
	return (bits.Len64(uint64(v)<<1^uint64(v>>63)|1) + 6) / 7
}
