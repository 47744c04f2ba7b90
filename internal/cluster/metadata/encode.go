package metadata

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"moldau/internal/kafka"
)

// frameVersion is the version of the envelope around a record: the first number of its value.
const frameVersion = 1

// Encode appends the value of a record of the metadata log: frame version, type, record version, body. VersionFor
// picks the version; fields that the version does not have are not written.
func Encode(dst []byte, r Record, version int16) []byte {
	e := encoder{buf: dst, version: version}
	e.uvarint(frameVersion)
	e.uvarint(uint64(r.Type()))
	e.uvarint(uint64(version))
	e.begin()
	r.fields(&e, version)
	e.end()
	return e.buf
}

// encoder is the visitor that writes the flexible encoding: compact lengths, and a tag section at the end of every
// struct in which only fields that differ from their default are present.
type encoder struct {
	buf     []byte
	version int16
	tags    []encodedTag // of all open structs
	opened  []int        // per open struct: where its tags begin
}

type encodedTag struct {
	tag   uint32
	bytes []byte
}

func (*encoder) reads() bool { return false }

func (e *encoder) uvarint(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }

func (e *encoder) integer(_ string, w width, n int64) int64 {
	switch w {
	case width8:
		e.buf = append(e.buf, byte(n))
	case width16, widthU16:
		e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(n))
	case width32:
		e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(n))
	case width64:
		e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(n))
	}
	return n
}

func (e *encoder) float(_ string, f float64) float64 {
	e.buf = binary.BigEndian.AppendUint64(e.buf, math.Float64bits(f))
	return f
}

func (e *encoder) boolean(_ string, b bool) bool {
	if b {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
	return b
}

func (e *encoder) text(_, s string) string {
	e.uvarint(uint64(len(s)) + 1)
	e.buf = append(e.buf, s...)
	return s
}

func (e *encoder) nullableText(name string, s *string) *string {
	if s == nil {
		e.uvarint(0)
		return nil
	}
	e.text(name, *s)
	return s
}

func (e *encoder) blob(_ string, b []byte) []byte {
	e.uvarint(uint64(len(b)) + 1)
	e.buf = append(e.buf, b...)
	return b
}

func (e *encoder) uuid(_ string, u kafka.UUID) kafka.UUID {
	e.buf = append(e.buf, u[:]...)
	return u
}

func (e *encoder) array(_ string, n int, _ bool, _ int) int {
	e.uvarint(uint64(n + 1)) // null is -1
	return n
}

func (*encoder) endArray() {}

func (e *encoder) begin() { e.opened = append(e.opened, len(e.tags)) }

func (e *encoder) end() {
	first := e.opened[len(e.opened)-1]
	e.opened = e.opened[:len(e.opened)-1]
	tags := e.tags[first:]
	slices.SortFunc(tags, func(a, b encodedTag) int { return cmp.Compare(a.tag, b.tag) })
	e.uvarint(uint64(len(tags)))
	for _, t := range tags {
		e.uvarint(uint64(t.tag))
		e.uvarint(uint64(len(t.bytes)))
		e.buf = append(e.buf, t.bytes...)
	}
	e.tags = e.tags[:first]
}

func (e *encoder) tagged(tag uint32, since int16, present bool, body func()) {
	if !present || e.version < since {
		return
	}
	outer := e.buf
	e.buf = nil
	body()
	e.tags = append(e.tags, encodedTag{tag, e.buf})
	e.buf = outer
}
