package server

import "encoding/binary"

//go:generate go test -run TestSchemaTableIsCurrent -update .

// schema is the wire layout of one request over all its versions.
type schema struct {
	flexible int16 // first version with compact lengths and tags
	nodes    []node
}

// maxString is how long a string may be, in bytes. The compact encoding could hold longer ones, but Kafka reads none, and the
// records and older versions that a string may go into have two bytes for its length.
const maxString = 1<<15 - 1

const (
	neverFlexible int16 = 1<<15 - 1
	neverNull     int16 = 1<<15 - 1
)

// node is one field.
type node struct {
	kind kind
	// from is the first version with the field, until the first without it again; 0: no bound.
	from, until int16
	// n is the length of a fixed field, or the number of a tag.
	n int
	// null is the first version in which an array may be null.
	null int16
	// size is what the decoder allocates for one element of an array, for a nullable struct, or for a string
	// that it stores behind a pointer.
	size uintptr
	sub  []node
}

type kind uint8

const (
	kindFixed kind = iota
	kindString
	kindPlainString // never compact
	kindNullableString
	kindBytes
	kindNullableBytes
	kindArray
	kindPlainArray // never compact
	kindNullableStruct
	kindTags
	kindTag // one known tag of the enclosing kindTags
)

func schemaFor(key int16) *schema {
	s, ok := schemas[key]
	if !ok {
		return nil
	}
	return &s
}

// scanLimits bound what a request may contain.
type scanLimits struct {
	elements, tags int
}

// scan walks a request body of the given version without allocating. It gives the heap that decoding will
// take beyond the body's bytes, from above; ok is false where the decoder would fail, where Kafka would
// refuse what our decoder lets pass (null where there can be none), and beyond the limits. Bytes behind the
// end are no error, as in Kafka.
func (s *schema) scan(body []byte, version int16, limits scanLimits) (heap int64, ok bool) {
	w := walker{src: body, version: version, compact: version >= s.flexible, limits: limits}
	w.walk(s.nodes)
	return w.heap, !w.bad
}

// walker is the state of one scan. After a fault bad is set and src is empty, so that every loop ends soon.
type walker struct {
	src     []byte
	version int16
	compact bool
	bad     bool
	limits  scanLimits
	heap    int64
}

func (w *walker) walk(nodes []node) {
	for i := range nodes {
		n := &nodes[i]
		if w.version < n.from || n.until != 0 && w.version >= n.until {
			continue
		}
		w.field(n)
		if w.bad {
			return
		}
	}
}

func (w *walker) field(n *node) {
	switch n.kind {
	case kindFixed:
		w.skip(n.n)
	case kindString:
		w.heap += int64(n.size)
		w.skip(w.shortLength(w.compact))
	case kindPlainString:
		w.skip(w.shortLength(false))
	case kindNullableString:
		if l := w.shortLength(w.compact); l >= 0 {
			w.heap += 16 // the string that the pointer shows to
			w.skip(l)
		}
	case kindBytes:
		w.skip(w.length(w.compact))
	case kindNullableBytes:
		w.skip(max(w.length(w.compact), 0))
	case kindArray:
		w.array(n, w.compact)
	case kindPlainArray:
		w.array(n, false)
	case kindNullableStruct:
		if w.present() {
			w.heap += int64(n.size)
			w.walk(n.sub)
		}
	case kindTags:
		if w.compact {
			w.tags(n.sub)
		}
	case kindTag: // reached through tags only
	}
}

func (w *walker) fail() { w.bad, w.src = true, nil }

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.src) {
		w.fail()
		return
	}
	w.src = w.src[n:]
}

func (w *walker) present() bool {
	if len(w.src) == 0 {
		w.fail()
		return false
	}
	b := int8(w.src[0])
	w.src = w.src[1:]
	return b != -1
}

// shortLength reads the length of a string; negative: null.
func (w *walker) shortLength(compact bool) int {
	if compact {
		n := w.uvarint() - 1
		if n > maxString {
			w.fail()
		}
		return n
	}
	if len(w.src) < 2 {
		w.fail()
		return -1
	}
	n := int16(binary.BigEndian.Uint16(w.src))
	w.src = w.src[2:]
	return int(n)
}

// length reads the length of bytes or of an array; negative: null.
func (w *walker) length(compact bool) int {
	if compact {
		return w.uvarint() - 1
	}
	if len(w.src) < 4 {
		w.fail()
		return -1
	}
	n := int32(binary.BigEndian.Uint32(w.src))
	w.src = w.src[4:]
	return int(n)
}

// uvarint reads an unsigned varint of at most 32 bits.
func (w *walker) uvarint() int {
	var v uint64
	for i := 0; i < len(w.src) && i < 5; i++ {
		b := w.src[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			w.src = w.src[i+1:]
			return int(v)
		}
	}
	w.fail()
	return 0
}

func (w *walker) array(n *node, compact bool) {
	l := w.length(compact)
	if l < 0 {
		if w.version < n.null {
			w.fail()
		}
		return
	}
	// Every element takes at least one byte.
	if l > w.limits.elements || l > len(w.src) {
		w.fail()
		return
	}
	w.heap += allocated(int64(l) * int64(n.size))
	if len(n.sub) == 1 && n.sub[0].kind == kindFixed {
		w.skip(l * n.sub[0].n)
		return
	}
	for range l {
		if w.walk(n.sub); w.bad {
			return
		}
	}
}

// allocated is what the allocator really takes for n bytes, from above: its size classes waste up to an
// eighth, small ones up to 16 bytes.
func allocated(n int64) int64 {
	if n == 0 {
		return 0
	}
	return n + n/8 + 16
}

// tags walks a tag section. Unknown tags are kept by the decoder in a map.
func (w *walker) tags(known []node) {
	count := w.uvarint()
	if count > w.limits.tags || count > len(w.src) {
		w.fail()
		return
	}
	unknown := int64(0)
	for range count {
		key := w.uvarint()
		size := w.uvarint()
		if w.bad || size > len(w.src) {
			w.fail()
			return
		}
		t := knownTag(known, key)
		if t == nil {
			unknown++
			w.src = w.src[size:]
			continue
		}
		rest := w.src[size:]
		w.src = w.src[:size:size]
		w.walk(t.sub)
		if w.bad {
			return
		}
		w.src = rest
	}
	w.heap += tagHeap(unknown)
}

func knownTag(known []node, key int) *node {
	for i := range known {
		if known[i].n == key {
			return &known[i]
		}
	}
	return nil
}

// tagHeap is what a map of n unknown tags takes, with what its growing leaves to the garbage collector.
func tagHeap(n int64) int64 {
	if n == 0 {
		return 0
	}
	return 512 + n*160
}
