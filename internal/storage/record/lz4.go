package record

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// LZ4 is the frame format with the restrictions of Kafka's Java client: one frame, independent blocks, no
// dictionary.
//
//	uint32 magic, flags, block size, [uint64 content size], header checksum,
//	blocks: uint32 size (high bit: stored), bytes, [uint32 checksum]; uint32 0; [uint32 content checksum]

const (
	lz4Magic = 0x184d2204

	lz4VersionMask     = 0xc0
	lz4Version         = 0x40
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4FlagsReserved   = 0x03

	lz4Stored = 1 << 31
)

var errLZ4 = invalid("broken or unsupported lz4 frame")

// unlz4 is a pooled frame reader with its source. It holds one block, at most 4 MiB.
type unlz4 struct {
	src bytes.Reader
	r   *lz4.Reader
}

var unlz4s = sync.Pool{New: func() any { return &unlz4{r: lz4.NewReader(nil)} }}

func expandLZ4(src []byte) (expansion, error) {
	if err := scanLZ4(src); err != nil {
		return expansion{}, err
	}
	u := unlz4s.Get().(*unlz4)
	u.src.Reset(src)
	u.r.Reset(&u.src)
	return expansion{stream: u.r, done: func() {
		u.src.Reset(nil)
		u.r.Reset(&u.src)
		unlz4s.Put(u)
	}}, nil
}

// scanLZ4 checks that src is exactly one frame of the kind described above.
func scanLZ4(src []byte) error {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLZ4
	}
	flags, blockSize := src[4], src[5]
	if flags&lz4VersionMask != lz4Version || flags&lz4Independent == 0 || flags&lz4FlagsReserved != 0 {
		return errLZ4
	}
	if blockSize&0x8f != 0 || blockSize>>4 < 4 {
		return errLZ4
	}
	head, trailer, perBlock := 7, 0, 0
	if flags&lz4ContentSize != 0 {
		head += 8
	}
	if flags&lz4ContentChecksum != 0 {
		trailer = 4
	}
	if flags&lz4BlockChecksum != 0 {
		perBlock = 4
	}
	rest := src[min(head, len(src)):]
	for len(rest) >= 4 {
		n := int64(binary.LittleEndian.Uint32(rest) &^ lz4Stored)
		if rest = rest[4:]; n == 0 {
			if len(rest) != trailer {
				return errLZ4
			}
			return nil
		}
		if n += int64(perBlock); n > int64(len(rest)) {
			return errLZ4
		}
		rest = rest[n:]
	}
	return errLZ4
}
