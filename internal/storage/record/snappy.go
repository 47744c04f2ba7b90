package record

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/s2"
)

// Snappy comes in two forms: the block framing of the Java library snappy-java ("xerial"), which Java,
// librdkafka and most clients write, and one bare block, which some clients write. Brokers and consumers read
// both.
//
//	xerial: 0x82 "SNAPPY" 0x00, int32 version, int32 lowest compatible version,
//	blocks: int32 size, snappy block

const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = len(xerialMagic) + 8
	// xerialBlockSize is how much goes into one block that we write, as in snappy-java.
	xerialBlockSize = 32 << 10
)

// snappyBlocks reads a sequence of blocks.
type snappyBlocks struct {
	rest []byte // sizes and blocks not yet read, each scanned before
	out  []byte // what is decoded and not yet read
	buf  []byte // room for the largest block
}

// expandSnappy measures every block before it allocates for the largest.
func expandSnappy(src []byte, limit int64) (expansion, error) {
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		n, err := snappySize(src, limit)
		if err != nil {
			return expansion{}, err
		}
		return expandSnappyBlock(src, n)
	}
	if int32(binary.BigEndian.Uint32(src[len(xerialMagic):])) < 1 {
		return expansion{}, invalid("snappy framing of an unknown version")
	}
	blocks, largest := src[xerialHeaderSize:], 0
	for rest := blocks; len(rest) > 0; {
		block, tail, err := xerialBlock(rest)
		if err != nil {
			return expansion{}, err
		}
		n, err := snappySize(block, limit)
		if err != nil {
			return expansion{}, err
		}
		if len(rest) == len(blocks) && len(tail) == 0 {
			return expandSnappyBlock(block, n)
		}
		rest, largest = tail, max(largest, n)
	}
	s := scratches.Get().(*scratch)
	return expansion{stream: &snappyBlocks{rest: blocks, buf: s.sized(largest)}, done: s.release}, nil
}

// expandSnappyBlock decodes one block of which the decoded size is known.
func expandSnappyBlock(block []byte, size int) (expansion, error) {
	s := scratches.Get().(*scratch)
	whole, err := s2.Decode(s.sized(size), block)
	if err != nil {
		s.release()
		return expansion{}, badPayload(err)
	}
	return expansion{whole: whole, done: s.release}, nil
}

func xerialBlock(b []byte) (block, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errSnappy
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, errSnappy
	}
	return b[:n], b[n:], nil
}

// Read implements io.Reader.
func (s *snappyBlocks) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if len(s.rest) == 0 {
			return 0, io.EOF
		}
		block, rest, err := xerialBlock(s.rest)
		if err != nil {
			return 0, err
		}
		if s.out, err = s2.Decode(s.buf, block); err != nil {
			return 0, err
		}
		s.rest = rest
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

var errSnappy = invalid("broken snappy block")

// snappySize walks over a block's elements and returns how many bytes they decode to. The size that the block
// claims must agree, so a lie costs nothing. Extensions of the format (S2) are refused, because consumers
// cannot read them.
func snappySize(b []byte, limit int64) (int, error) {
	claim, n := uvarint32(b)
	if n <= 0 {
		return 0, errSnappy
	}
	if int64(claim) > limit {
		return 0, ErrTooLarge
	}
	total := uint64(0)
	for b = b[n:]; len(b) > 0; {
		size, length, ok := snappyElement(b, total)
		if !ok || size > uint64(len(b)) {
			return 0, errSnappy
		}
		total += length
		b = b[size:]
	}
	if total != uint64(claim) {
		return 0, errSnappy
	}
	return int(claim), nil
}

// snappyElement measures the element at the front of b: its encoded size and how many bytes it decodes to. A
// copy must reach back to within what was decoded before.
func snappyElement(b []byte, decoded uint64) (size, length uint64, ok bool) {
	var e [5]byte
	copy(e[:], b)
	tag := uint64(e[0])
	offset := uint64(0)
	switch tag & 3 {
	case 0:
		length = tag >> 2
		extra := uint64(0)
		if length >= 60 {
			extra = length - 59
			length = uint64(binary.LittleEndian.Uint32(e[1:])) & (1<<(8*extra) - 1)
		}
		length++
		return 1 + extra + length, length, true
	case 1:
		size, length, offset = 2, 4+tag>>2&7, tag>>5<<8|uint64(e[1])
	case 2:
		size, length, offset = 3, 1+tag>>2, uint64(binary.LittleEndian.Uint16(e[1:]))
	case 3:
		size, length, offset = 5, 1+tag>>2, uint64(binary.LittleEndian.Uint32(e[1:]))
	}
	return size, length, offset > 0 && offset <= decoded
}

// xerialWriter compresses into the framed form.
type xerialWriter struct {
	dst   io.Writer
	block []byte // collects one block
	out   []byte
	begun bool
}

// Write implements io.Writer.
func (x *xerialWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), xerialBlockSize-len(x.block))
		x.block = append(x.block, p[:n]...)
		p = p[n:]
		if len(x.block) == xerialBlockSize {
			if err := x.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// Close writes the last block.
func (x *xerialWriter) Close() error {
	if len(x.block) == 0 && x.begun {
		return nil
	}
	return x.flush()
}

func (x *xerialWriter) flush() error {
	x.out = x.out[:0]
	if !x.begun {
		x.begun = true
		x.out = append(x.out, xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01"...)
	}
	at := len(x.out)
	need := at + 4 + s2.MaxEncodedLen(len(x.block))
	if cap(x.out) < need {
		x.out = append(make([]byte, 0, need), x.out...)
	}
	encoded := s2.EncodeSnappy(x.out[at+4:need], x.block)
	x.out = x.out[:at+4+len(encoded)]
	binary.BigEndian.PutUint32(x.out[at:], uint32(len(encoded)))
	x.block = x.block[:0]
	_, err := x.dst.Write(x.out)
	return err
}

// reset makes the writer ready for another stream.
func (x *xerialWriter) reset(dst io.Writer) {
	x.dst, x.block, x.begun = dst, x.block[:0], false
}
