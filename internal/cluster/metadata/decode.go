package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"moldau/internal/kafka"
)

// ErrBadRecord is the class of every error of Decode.
var ErrBadRecord = errors.New("bad metadata record")

// maxTextBytes is the longest string of the protocol: longer ones are refused by Kafka's readers as well.
const maxTextBytes = math.MaxInt16

// Decode reads the value of a record of the metadata log. The record owns its memory: nothing aliases b. Refused are
// another frame version than 1, unknown types and versions, tagged fields in a version that does not have them yet,
// and bytes left over. Unknown tagged fields are skipped. Errors are ErrBadRecord.
func Decode(b []byte) (Record, error) {
	r, _, err := DecodeVersioned(b)
	return r, err
}

// DecodeVersioned is Decode for callers that need the version the record was written in.
func DecodeVersioned(b []byte) (Record, int16, error) {
	d := decoder{b: b}
	frame, typ, version := d.uvarint(), d.uvarint(), d.uvarint()
	if d.err != nil {
		return nil, 0, d.err
	}
	if frame != frameVersion {
		return nil, 0, fmt.Errorf("%w: frame version %d, only %d is known", ErrBadRecord, frame, frameVersion)
	}
	row, ok := RecordType(min(typ, math.MaxInt16)).row()
	if !ok {
		return nil, 0, fmt.Errorf("%w: unknown record type %d", ErrBadRecord, typ)
	}
	if version > uint32(row.maxVersion) {
		return nil, 0, fmt.Errorf("%w: %s version %d, versions up to %d are known", ErrBadRecord, row.name, version,
			row.maxVersion)
	}
	r := row.create()
	d.version = int16(version)
	d.begin()
	r.fields(&d, d.version)
	d.end()
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes left over", len(d.b))
	}
	if d.err != nil {
		return nil, 0, fmt.Errorf("%s version %d: %w", row.name, version, d.err)
	}
	return r, d.version, nil
}

// decoder is the visitor that reads the flexible encoding. After its first error it reads only zeroes. What it
// allocates is at most some 16 times the input (an array of empty strings): no length is believed that the remaining
// bytes cannot hold.
type decoder struct {
	b       []byte // what is left
	version int16
	err     error
	tags    []declaredTag // of all open structs
	opened  []int         // per open struct: where its tags begin
}

type declaredTag struct {
	tag   uint32
	since int16
	body  func()
}

func (*decoder) reads() bool { return true }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrBadRecord}, args...)...)
	}
	d.b = nil
}

// take cuts n bytes off. It gives nil when there are fewer, and always after an error.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		d.fail("%d bytes wanted, %d left", n, len(d.b))
		return nil
	}
	var b []byte
	b, d.b = d.b[:n], d.b[n:]
	return b
}

// uvarint reads an unsigned 32 bit varint, the only kind there is in the format.
func (d *decoder) uvarint() uint32 {
	n, size := binary.Uvarint(d.b)
	if d.err != nil || size <= 0 || size > 5 || n > math.MaxUint32 {
		d.fail("bad varint")
		return 0
	}
	d.b = d.b[size:]
	return uint32(n)
}

// length reads a compact length: -1 is null. Lengths that the remaining bytes cannot hold are errors, read as -1.
func (d *decoder) length(elementSize int) int {
	n := int64(d.uvarint()) - 1
	if n*int64(elementSize) > int64(len(d.b)) {
		d.fail("length %d, %d bytes left", n, len(d.b))
		return -1
	}
	return int(n)
}

func (d *decoder) integer(_ string, w width, _ int64) int64 {
	size := max(w, -w)
	b := d.take(int(size))
	if b == nil {
		return 0
	}
	switch w {
	case width8:
		return int64(int8(b[0]))
	case width16:
		return int64(int16(binary.BigEndian.Uint16(b)))
	case widthU16:
		return int64(binary.BigEndian.Uint16(b))
	case width32:
		return int64(int32(binary.BigEndian.Uint32(b)))
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (d *decoder) float(name string, _ float64) float64 {
	return math.Float64frombits(uint64(d.integer(name, width64, 0)))
}

func (d *decoder) boolean(name string, _ bool) bool { return d.integer(name, width8, 0) != 0 }

func (d *decoder) text(name, _ string) string {
	s, null := d.string(name)
	if null {
		d.fail("%s is null", name)
	}
	return s
}

func (d *decoder) nullableText(name string, _ *string) *string {
	s, null := d.string(name)
	if null || d.err != nil {
		return nil
	}
	return &s
}

func (d *decoder) string(name string) (s string, null bool) {
	n := d.length(1)
	if n > maxTextBytes {
		d.fail("%s has %d bytes", name, n)
	}
	if n < 0 {
		return "", true
	}
	return string(d.take(n)), false
}

func (d *decoder) blob(name string, _ []byte) []byte {
	n := d.length(1)
	if n < 0 {
		d.fail("%s is null", name)
		return nil
	}
	if n == 0 {
		return nil
	}
	return append([]byte(nil), d.take(n)...)
}

func (d *decoder) uuid(string, kafka.UUID) kafka.UUID {
	if b := d.take(16); b != nil {
		return kafka.UUID(b)
	}
	return kafka.UUID{}
}

func (d *decoder) array(name string, _ int, nullable bool, minSize int) int {
	n := d.length(minSize)
	if n < 0 && !nullable {
		d.fail("%s is null", name)
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (*decoder) endArray() {}

func (d *decoder) begin() { d.opened = append(d.opened, len(d.tags)) }

func (d *decoder) tagged(tag uint32, since int16, _ bool, body func()) {
	d.tags = append(d.tags, declaredTag{tag, since, body})
}

// end reads the tag section of the struct that was opened last.
func (d *decoder) end() {
	first := d.opened[len(d.opened)-1]
	d.opened = d.opened[:len(d.opened)-1]
	declared := d.tags[first:]
	for range d.uvarint() {
		tag := d.uvarint()
		value := d.take(int(d.uvarint()))
		if d.err != nil {
			return
		}
		d.readTag(declared, tag, value)
	}
	d.tags = d.tags[:first]
}

func (d *decoder) readTag(declared []declaredTag, tag uint32, value []byte) {
	for _, t := range declared {
		if t.tag != tag {
			continue
		}
		if d.version < t.since {
			d.fail("tag %d is not valid in version %d", tag, d.version)
			return
		}
		rest := d.b
		d.b = value
		t.body()
		if d.err == nil && len(d.b) > 0 {
			d.fail("tag %d: %d bytes left over", tag, len(d.b))
		}
		if d.err == nil {
			d.b = rest
		}
		return
	}
}
