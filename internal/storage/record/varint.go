package record

import (
	"encoding/binary"
	"math/bits"
)

// Varints are those of protocol buffers, signed ones zigzag coded. Encodings longer than needed are read
// (Kafka reads them), but not those that run past the type's length or lose bits, which clients disagree
// about.

const (
	maxVarintLen32 = 5
	maxVarintLen64 = binary.MaxVarintLen64
)

// uvarint32 decodes an unsigned varint of at most 32 bits. n is the number of bytes read; 0 if b is too
// short, negative if the encoding is too long.
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

// shortVarintAt decodes a signed varint of one byte, if there is one at b[i:]; the caller steps over it. It is small
// enough to be compiled into its callers, which varint32At is not.
func shortVarintAt(b []byte, i int) (int32, bool) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return unzigzag32(uint32(b[i])), true
	}
	return 0, false
}

// varint32At decodes a signed varint at b[i:] and returns where it ends; -1 if there is none. A negative i
// gives -1 again, so that a caller can decode several and look once. Most varints of a record have one or two
// bytes.
func varint32At(b []byte, i int) (int32, int) {
	if uint(i) < uint(len(b)) {
		v := uint32(b[i])
		if v < 0x80 {
			return unzigzag32(v), i + 1
		}
		if i+1 < len(b) && b[i+1] < 0x80 {
			return unzigzag32(v&0x7f | uint32(b[i+1])<<7), i + 2
		}
	}
	return longVarint32At(b, i)
}

func longVarint32At(b []byte, i int) (int32, int) {
	if uint(i) >= uint(len(b)) {
		return 0, -1
	}
	v, n := uvarint32(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return unzigzag32(v), i + n
}

// varint64At is varint32At for 64 bits.
func varint64At(b []byte, i int) (int64, int) {
	if uint(i) >= uint(len(b)) {
		return 0, -1
	}
	v, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return unzigzag64(v), i + n
}

// bytesAt returns the n bytes at b[i:] and where they end; -1 if there are not so many. A negative n is null.
func bytesAt(b []byte, i int, n int32) ([]byte, int) {
	if n < 0 {
		return nil, i
	}
	if i < 0 || int(n) > len(b)-i {
		return nil, -1
	}
	end := i + int(n)
	return b[i:end:end], end
}
