package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"moldau/internal/kafka"
)

// now is the clock of these tests.
var now = time.UnixMilli(1_800_000_000_000)

// spec writes a batch field by field, rightly or wrongly, without using the package's own builder.
type spec struct {
	base             int64
	epoch            int32
	magic            int8
	attributes       int16
	lastDelta, count int32 // unset: as there are records
	baseTime, max    int64
	pid              int64
	pepoch           int16
	sequence         int32
	keys             [][]byte // nil: null
	values           [][]byte
	timeDelta        int64  // between records
	records          []byte // replaces the records section
	badCRC           bool
	lengthDelta      int32
}

const unset = -1 << 31

func newSpec(values ...string) *spec {
	s := &spec{epoch: -1, magic: 2, lastDelta: unset, count: unset, pid: -1, pepoch: -1, sequence: -1, max: unset,
		baseTime: now.UnixMilli()}
	for _, v := range values {
		s.keys = append(s.keys, []byte("k"))
		s.values = append(s.values, []byte(v))
	}
	return s
}

// rec is a record of the given body.
func rec(body ...byte) []byte { return append(binary.AppendVarint(nil, int64(len(body))), body...) }

func nullable(b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(nil, -1)
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func (s *spec) recordBytes() []byte {
	var out []byte
	for i := range s.values {
		body := []byte{0}
		body = binary.AppendVarint(body, s.timeDelta*int64(i))
		body = binary.AppendVarint(body, int64(i))
		body = append(body, nullable(s.keys[i])...)
		body = append(body, nullable(s.values[i])...)
		body = binary.AppendVarint(body, 0)
		out = append(out, rec(body...)...)
	}
	return out
}

func (s *spec) batch() Batch {
	records := s.records
	if records == nil {
		records = s.recordBytes()
	}
	orElse := func(v, other int32) int32 {
		if v == unset {
			return other
		}
		return v
	}
	maxTime := s.max
	if maxTime == unset {
		maxTime = s.baseTime + s.timeDelta*int64(max(len(s.values)-1, 0))
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.base))
	b = binary.BigEndian.AppendUint32(b, uint32(49+int32(len(records))+s.lengthDelta))
	b = binary.BigEndian.AppendUint32(b, uint32(s.epoch))
	b = append(b, byte(s.magic), 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(s.attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(orElse(s.lastDelta, int32(len(s.values)-1))))
	b = binary.BigEndian.AppendUint64(b, uint64(s.baseTime))
	b = binary.BigEndian.AppendUint64(b, uint64(maxTime))
	b = binary.BigEndian.AppendUint64(b, uint64(s.pid))
	b = binary.BigEndian.AppendUint16(b, uint16(s.pepoch))
	b = binary.BigEndian.AppendUint32(b, uint32(s.sequence))
	b = binary.BigEndian.AppendUint32(b, uint32(orElse(s.count, int32(len(s.values)))))
	b = append(b, records...)
	Batch(b).UpdateCRC()
	if s.badCRC {
		b[posCRC]++
	}
	return b
}

// with gives the spec's records in a codec.
func (s *spec) with(c Codec) *spec {
	s.records = encode(c, s.recordBytes())
	s.attributes = s.attributes&^attrCodec | int16(c)
	return s
}

// rawRecords makes a batch of n records of which the bytes are given.
func rawRecords(n int32, c Codec, records []byte) *spec {
	s := newSpec()
	s.lastDelta, s.count, s.records, s.attributes = n-1, n, records, int16(c)
	return s
}

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func allCodecs() []Codec { return []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} }

// encode compresses with the libraries directly.
func encode(c Codec, b []byte) []byte {
	switch c {
	case Gzip:
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(b)
		w.Close()
		return out.Bytes()
	case Snappy:
		return s2.EncodeSnappy(nil, b)
	case LZ4:
		return encodeLZ4(b)
	case Zstd:
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return w.EncodeAll(b, nil)
	}
	return b
}

func encodeLZ4(b []byte, o ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(o...); err != nil {
		panic(err)
	}
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// xerial frames blocks as snappy-java does.
func xerial(blocks ...[]byte) []byte {
	out := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for _, b := range blocks {
		e := s2.EncodeSnappy(nil, b)
		out = binary.BigEndian.AppendUint32(out, uint32(len(e)))
		out = append(out, e...)
	}
	return out
}

// collected is a record that may be kept.
type collected struct {
	Offset     kafka.Offset
	Timestamp  int64
	Key, Value []byte
	Headers    []Header
}

func collect(t *testing.T, b Batch) []collected {
	t.Helper()
	var out []collected
	for r, err := range b.Records(Limits{}) {
		if err != nil {
			t.Fatalf("record %d: %v", len(out), err)
		}
		c := collected{r.Offset, r.Timestamp, bytes.Clone(r.Key), bytes.Clone(r.Value), nil}
		for h := range r.Headers.All() {
			c.Headers = append(c.Headers, Header{h.Key, bytes.Clone(h.Value)})
		}
		out = append(out, c)
	}
	return out
}

// readError is the error that iterating over the batch ends with.
func readError(b Batch, l Limits) (n int, err error) {
	for _, err := range b.Records(l) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
