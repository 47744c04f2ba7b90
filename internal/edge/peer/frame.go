package peer

import (
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"

	"moldau/internal/kafka"
)

// Sizes of frames.
const (
	// trusted is how much memory a peer gets by a length alone, before its bytes are there.
	trusted = 1 << 20
	// pooledFrame is the smallest frame worth keeping for another answer, maxPooledFrame the largest that is kept.
	pooledFrame, maxPooledFrame = 64 << 10, 16 << 20
)

// frames reads answers, and keeps the memory of those that were released.
type frames struct {
	pool   sync.Pool // *[]byte
	poison bool      // released bytes are overwritten: for tests
}

// frame is the memory of one answer.
type frame struct {
	from  *frames
	bytes []byte
	gone  atomic.Bool
}

// owned makes a frame that can be released; nil for one that is not worth it.
func (f *frames) owned(b []byte) *frame {
	if cap(b) < pooledFrame || cap(b) > maxPooledFrame {
		return nil
	}
	return &frame{from: f, bytes: b}
}

func (x *frame) release() {
	if x == nil || x.gone.Swap(true) {
		return
	}
	b := x.bytes[:cap(x.bytes)]
	x.bytes = nil
	if x.from.poison {
		for i := range b {
			b[i] = 0xdb
		}
	}
	x.from.pool.Put(&b)
}

// read reads one answer. New memory grows with what arrives, not with what the length promises.
func (f *frames) read(in io.Reader, limit int) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(length[:])))
	if n < 4 || n > limit {
		return nil, kafka.Errorf(kafka.CorruptMessage, "an answer of %d bytes, limit %d", n, limit)
	}
	b := f.memory(n)
	for {
		at := len(b)
		b = b[:min(cap(b), n)]
		if _, err := io.ReadFull(in, b[at:]); err != nil {
			return nil, err
		}
		if len(b) == n {
			return b, nil
		}
		grown := make([]byte, len(b), min(4*len(b), n))
		copy(grown, b)
		b = grown
	}
}

// memory gives an empty slice, for n bytes or for the first of them.
func (f *frames) memory(n int) []byte {
	if n >= pooledFrame {
		if b, ok := f.pool.Get().(*[]byte); ok && cap(*b) >= n {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, min(n, trusted))
}
