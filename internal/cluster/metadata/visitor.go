package metadata

import (
	"unsafe"

	"moldau/internal/kafka"
)

// width is the wire size of an integer in bytes; widthU16 is the one unsigned kind.
type width int

const (
	width8   width = 1
	width16  width = 2
	width32  width = 4
	width64  width = 8
	widthU16 width = -2
)

// visitor is handed the fields of a record in wire order. Each method takes a field's value and returns what the field
// is after the visit: the same value when encoding or dumping, the decoded one when decoding. Elements of arrays have
// no name.
type visitor interface {
	// reads says whether the visit fills the record (decoding). If not, the record must not be written to: it may be
	// shared with other goroutines.
	reads() bool

	integer(name string, w width, value int64) int64
	float(name string, value float64) float64
	boolean(name string, value bool) bool
	text(name, value string) string
	nullableText(name string, value *string) *string
	blob(name string, value []byte) []byte
	uuid(name string, value kafka.UUID) kafka.UUID

	// array starts an array of n elements (-1: null, only if nullable), each at least minSize bytes long on the wire,
	// and returns the number of elements to visit. endArray ends it.
	array(name string, n int, nullable bool, minSize int) int
	endArray()

	// begin and end enclose the fields of a struct inside an array; end is where its tagged fields lie on the wire.
	begin()
	end()

	// tagged declares a tagged field, which exists since the given version. When it is written (present) or found on
	// the wire, body visits it: exactly one field. Decoding calls body later, from end.
	tagged(tag uint32, since int16, present bool, body func())
}

// integers are the signed integer types of records. Their size in Go is their size on the wire.
type integers interface {
	~int8 | ~int16 | ~int32 | ~int64
}

func number[T integers](v visitor, name string, p *T) {
	n := v.integer(name, width(unsafe.Sizeof(*p)), int64(*p))
	if v.reads() {
		*p = T(n)
	}
}

// optional visits a number whose value "absent" means that nothing is set.
func optional[T integers](v visitor, name string, p **T, absent T) {
	value := absent
	if *p != nil {
		value = **p
	}
	number(v, name, &value)
	if v.reads() {
		*p = nil
		if value != absent {
			*p = &value
		}
	}
}

func boolean(v visitor, name string, p *bool) {
	value := v.boolean(name, *p)
	if v.reads() {
		*p = value
	}
}

// byteFlag visits a flag that is an int8 on the wire: 0 or 1. Any other number reads as an error of the decoder.
func byteFlag(v visitor, name string, p *bool) {
	var n int8
	if *p {
		n = 1
	}
	number(v, name, &n)
	if !v.reads() {
		return
	}
	*p = n == 1
	if d, ok := v.(*decoder); ok && n != 0 && n != 1 {
		d.fail("%s is %d, not 0 or 1", name, n)
	}
}

func text(v visitor, name string, p *string) {
	value := v.text(name, *p)
	if v.reads() {
		*p = value
	}
}

func nullableText(v visitor, name string, p **string) {
	value := v.nullableText(name, *p)
	if v.reads() {
		*p = value
	}
}

func blob(v visitor, name string, p *[]byte) {
	value := v.blob(name, *p)
	if v.reads() {
		*p = value
	}
}

func uuid(v visitor, name string, p *kafka.UUID) {
	value := v.uuid(name, *p)
	if v.reads() {
		*p = value
	}
}

// list visits an array that is never null. An empty one decodes to nil.
func list[T any](v visitor, name string, minSize int, p *[]T, each func(*T)) {
	n := v.array(name, len(*p), false, minSize)
	elements(v, n, p, each)
	if v.reads() && n == 0 {
		*p = nil
	}
}

// nullableList visits an array that may be null. Null decodes to nil, an empty one to an empty slice.
func nullableList[T any](v visitor, name string, minSize int, p *[]T, each func(*T)) {
	n := len(*p)
	if *p == nil {
		n = -1
	}
	n = v.array(name, n, true, minSize)
	elements(v, n, p, each)
	if v.reads() && n < 0 {
		*p = nil
	}
}

func elements[T any](v visitor, n int, p *[]T, each func(*T)) {
	if v.reads() && n >= 0 {
		*p = make([]T, n)
	}
	for i := range n {
		each(&(*p)[i])
	}
	v.endArray()
}

func nodes(v visitor, name string, p *[]kafka.NodeID) {
	list(v, name, 4, p, func(e *kafka.NodeID) { number(v, "", e) })
}

func nullableNodes(v visitor, name string, p *[]kafka.NodeID) {
	nullableList(v, name, 4, p, func(e *kafka.NodeID) { number(v, "", e) })
}

func uuids(v visitor, name string, p *[]kafka.UUID) {
	list(v, name, 16, p, func(e *kafka.UUID) { uuid(v, "", e) })
}

func nullableUUIDs(v visitor, name string, p *[]kafka.UUID) {
	nullableList(v, name, 16, p, func(e *kafka.UUID) { uuid(v, "", e) })
}
