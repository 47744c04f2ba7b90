package record

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic     = 0xfd2fb528
	zstdSkippable = 0x184d2a50 // the last four bits are free
	zstdMaxBlock  = 128 << 10
	zstdMinWindow = 1 << 10

	// zstdWholeBytes: what surely expands to no more than this is decoded in one go, without a window.
	zstdWholeBytes = 2 << 20
	// zstdMaxWindow is the largest window for which a stream's decoder may allocate, and the most that is
	// decoded in one go. Levels up to 19 use at most 8 MiB. The highest levels claim windows up to 128 MiB
	// however little they hold; such input is decoded in one go if it is small, and refused if not.
	zstdMaxWindow = 8 << 20
	// zstdDecoderWindow is what the decoder itself lets pass: our own bounds are checked before.
	zstdDecoderWindow = 128 << 20
)

var errZstd = invalid("broken zstd frame")

// unzstd is a pooled decoder with its source.
type unzstd struct {
	src bytes.Reader
	d   *zstd.Decoder
}

var unzstds = sync.Pool{New: func() any {
	// With a concurrency of one the decoder starts no goroutine, so that it may simply be dropped.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdDecoderWindow), zstd.WithDecoderMaxMemory(zstdDecoderWindow))
	if err != nil {
		return err // constant options: cannot happen
	}
	return &unzstd{d: d}
}}

func expandZstd(src []byte, limit int64) (expansion, error) {
	window, bound, err := scanZstd(src)
	if err != nil {
		return expansion{}, err
	}
	whole := bound <= zstdWholeBytes
	if window > zstdMaxWindow {
		if bound > zstdMaxWindow {
			return expansion{}, ErrTooLarge
		}
		whole = true
	}
	u := unzstds.Get().(*unzstd)
	if whole {
		defer unzstds.Put(u)
		return u.whole(src, limit)
	}
	u.src.Reset(src)
	if err := u.d.Reset(&u.src); err != nil {
		unzstds.Put(u)
		return expansion{}, badPayload(err)
	}
	return expansion{stream: u.d, done: func() {
		u.src.Reset(nil)
		u.d.Reset(nil)
		unzstds.Put(u)
	}}, nil
}

func (u *unzstd) whole(src []byte, limit int64) (expansion, error) {
	s := scratches.Get().(*scratch)
	out, err := u.d.DecodeAll(src, s.b[:0])
	if err == nil && int64(len(out)) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		s.release()
		return expansion{}, badPayload(err)
	}
	s.b = out
	return expansion{whole: out, done: s.release}, nil
}

// scanZstd reads the headers of all frames and blocks. It returns the largest window that a frame asks for
// and the most bytes that all of it can decode to.
func scanZstd(src []byte) (window, bound uint64, err error) {
	for len(src) > 0 {
		if len(src) < 8 {
			return 0, 0, errZstd
		}
		magic := binary.LittleEndian.Uint32(src)
		if magic&^0xf == zstdSkippable {
			n := uint64(binary.LittleEndian.Uint32(src[4:]))
			if src = src[8:]; n > uint64(len(src)) {
				return 0, 0, errZstd
			}
			src = src[n:]
			continue
		}
		if magic != zstdMagic {
			return 0, 0, errZstd
		}
		f, rest, ok := parseZstdHeader(src[4:])
		if !ok {
			return 0, 0, errZstd
		}
		n, rest, ok := f.scanBlocks(rest)
		if !ok || f.sized && f.content > n {
			return 0, 0, errZstd
		}
		if f.sized {
			n = f.content
		}
		window, bound, src = max(window, f.window), bound+n, rest
	}
	return window, bound, nil
}

// zstdFrame is what a frame's header says.
type zstdFrame struct {
	window   uint64
	content  uint64
	sized    bool // content is known
	checksum bool
}

// parseZstdHeader reads a frame header (RFC 8878, 3.1.1.1) behind its magic.
func parseZstdHeader(b []byte) (f zstdFrame, rest []byte, ok bool) {
	descriptor := b[0]
	single := descriptor&0x20 != 0
	dictionary := [4]int{0, 1, 2, 4}[descriptor&3]
	content := [4]int{0, 2, 4, 8}[descriptor>>6]
	if single && content == 0 {
		content = 1
	}
	windowSize := 1
	if single {
		windowSize = 0
	}
	if descriptor&0x08 != 0 || len(b) < 1+windowSize+dictionary+content {
		return f, nil, false
	}
	b = b[1:]
	if !single {
		f.window = 1 << (10 + b[0]>>3)
		f.window += f.window / 8 * uint64(b[0]&7)
	}
	b = b[windowSize+dictionary:]
	if content > 0 {
		var n [8]byte
		copy(n[:], b[:content])
		f.content, f.sized = binary.LittleEndian.Uint64(n[:]), true
		if content == 2 {
			f.content += 256
		}
	}
	if single {
		f.window = max(f.content, zstdMinWindow)
	}
	f.checksum = descriptor&0x04 != 0
	return f, b[content:], true
}

// scanBlocks passes over the frame's blocks and checksum and sums up what they can decode to.
func (f zstdFrame) scanBlocks(b []byte) (bound uint64, rest []byte, ok bool) {
	for last := false; !last; {
		if len(b) < 3 {
			return 0, nil, false
		}
		h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		b = b[3:]
		last = h&1 != 0
		stored, size := int(h>>3), uint64(h>>3)
		switch h >> 1 & 3 {
		case 0: // stored
		case 1: // one byte, repeated
			stored = 1
		case 2: // compressed
			size = zstdMaxBlock
		case 3:
			return 0, nil, false
		}
		if stored > len(b) || size > zstdMaxBlock {
			return 0, nil, false
		}
		bound += min(size, f.window)
		b = b[stored:]
	}
	if f.checksum {
		if len(b) < 4 {
			return 0, nil, false
		}
		b = b[4:]
	}
	return bound, b, true
}
