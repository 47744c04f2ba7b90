package record

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// expansion is a compressed payload made readable: whole when stream is nil, else as a stream. done gives its
// buffers back, after which neither may be used.
type expansion struct {
	whole  []byte
	stream io.Reader
	done   func()
}

// expand starts to decompress src. Before anything large is allocated the codec's own framing is scanned, so
// that what is allocated follows from what is there and not from what a header claims. A stream may give more
// than limit bytes: its reader counts; whole never does.
func expand(c Codec, src []byte, limit int64) (expansion, error) {
	switch c {
	case Uncompressed:
		return expansion{whole: src, done: func() {}}, nil
	case Gzip:
		return expandGzip(src)
	case Snappy:
		return expandSnappy(src, limit)
	case LZ4:
		return expandLZ4(src)
	case Zstd:
		return expandZstd(src, limit)
	}
	return expansion{}, invalid("unknown compression codec %d", c)
}

// scratchMax is the largest buffer that is kept between uses, in bytes.
const scratchMax = 1 << 20

// scratches keeps buffers for whole expansions.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

type scratch struct{ b []byte }

func (s *scratch) release() {
	if cap(s.b) <= scratchMax {
		scratches.Put(s)
	}
}

// sized gives a buffer of n bytes with unspecified content.
func (s *scratch) sized(n int) []byte {
	if cap(s.b) < n {
		s.b = make([]byte, n)
	}
	return s.b[:n]
}

// gunzip is a pooled gzip reader with its source. It holds some 40 KiB, whatever the input says.
type gunzip struct {
	src bytes.Reader
	r   gzip.Reader
}

var gunzips = sync.Pool{New: func() any { return new(gunzip) }}

func expandGzip(src []byte) (expansion, error) {
	g := gunzips.Get().(*gunzip)
	g.src.Reset(src)
	if err := g.r.Reset(&g.src); err != nil {
		gunzips.Put(g)
		return expansion{}, badPayload(err)
	}
	return expansion{stream: &g.r, done: func() {
		g.src.Reset(nil)
		gunzips.Put(g)
	}}, nil
}
