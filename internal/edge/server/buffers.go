package server

import (
	"math/bits"
	"sync"

	"moldau/internal/invariant"
)

const (
	minBufferBits = 9  // 512 B
	maxBufferBits = 21 // 2 MiB: longer frames are allocated and freed
	// maxPooled is the longest buffer that is kept.
	maxPooled  = 1 << maxBufferBits
	numBuffers = (maxBufferBits-minBufferBits)*4 + 1
)

// buffers keeps byte buffers by size class. There are four classes per doubling, so that a buffer is at most
// a quarter longer than what was asked for: a 256 KiB batch with its header would waste half of a power of
// two.
type buffers struct {
	classes [numBuffers]sync.Pool
	// scribble overwrites a buffer that comes back; tests replace it to find kept aliases in any build.
	scribble func([]byte)
}

// buffer is a pooled byte slice of its class's whole length.
type buffer struct {
	b     []byte
	class int // -1: not pooled
}

func newBuffers() *buffers { return &buffers{scribble: invariant.Poison} }

// sizeClass gives the class for n bytes and the length of its buffers; class -1: too long to be pooled.
func sizeClass(n int) (class, size int) {
	if n > maxPooled {
		return -1, n
	}
	if n <= 1<<minBufferBits {
		return 0, 1 << minBufferBits
	}
	// n lies in (2^e, 2^(e+1)]; the classes there are 2^e plus 1 to 4 quarters of it.
	e := bits.Len(uint(n-1)) - 1
	quarter := (1 << e) / 4
	q := (n - 1<<e + quarter - 1) / quarter
	return (e-minBufferBits)*4 + q, 1<<e + q*quarter
}

// get gives a buffer of at least n bytes with undefined contents.
func (p *buffers) get(n int) *buffer {
	class, size := sizeClass(n)
	if class < 0 {
		return &buffer{b: make([]byte, n), class: -1}
	}
	if b, ok := p.classes[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, size), class: class}
}

// put takes a buffer back. Nobody may read or write it any more.
func (p *buffers) put(b *buffer) {
	p.scribble(b.b)
	if b.class >= 0 {
		p.classes[b.class].Put(b)
	}
}
