package record

import (
	"iter"
	"sync"

	"moldau/internal/kafka"
)

// Record is one record of a batch.
type Record struct {
	Offset    kafka.Offset
	Timestamp int64  // milliseconds since the epoch; the batch's when the broker set it; NoTimestamp if there is none
	Key       []byte // nil: null
	Value     []byte // nil: null, a tombstone
	Headers   Headers
}

// Header is one header of a record. Kafka allows the same key several times.
type Header struct {
	Key   string
	Value []byte // nil: null
}

// Headers is a record's headers, still encoded; the zero value is none.
type Headers struct {
	raw   []byte
	count int32
}

// Len is the number of headers.
func (h Headers) Len() int { return int(h.count) }

// All yields the headers in order. Values alias the batch as the record's own value does.
func (h Headers) All() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		w := walker{buf: h.raw}
		for range h.count {
			key := w.skip(int(w.varint()))
			value := w.nullable()
			if w.err != nil || !yield(Header{string(key), value}) {
				return
			}
		}
	}
}

// nullable reads a size and that many bytes, nil for a negative size.
func (w *walker) nullable() []byte {
	n := w.varint()
	if n < 0 {
		return nil
	}
	return w.skip(int(n))
}

// Limits bounds what reading a batch may cost. The zero value gives the defaults.
type Limits struct {
	// MaxExpandedBytes is how many bytes the records may take decompressed; 0: the larger of 64 MiB and 64 times
	// the compressed size.
	MaxExpandedBytes int64
}

const (
	minExpanded      = 64 << 20
	maxExpandedRatio = 64
)

func (l Limits) expanded(compressed int) int64 {
	if l.MaxExpandedBytes > 0 {
		return l.MaxExpandedBytes
	}
	return max(minExpanded, maxExpandedRatio*int64(compressed))
}

// Records yields the batch's records in order. A failure is yielded once, last, with an empty record: ErrInvalid for
// what is not a sequence of Count records, ErrTooLarge for what expands beyond the limits. The checksum is not checked.
//
// Key, Value and Headers of an uncompressed batch alias the batch. Those of a compressed one are valid only until the
// next record is asked for; one record at a time is held in memory.
func (b Batch) Records(limits Limits) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var w walker
		done, err := b.open(&w, limits.expanded(len(b)-HeaderSize))
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer done()
		w.hold = true
		var r raw
		for range b.Count() {
			if w.next(&r) != nil {
				break
			}
			if !yield(b.record(&r), nil) {
				return
			}
		}
		if err := w.end(); err != nil {
			yield(Record{}, err)
		}
	}
}

// record gives a raw record its place and time.
func (b Batch) record(r *raw) Record {
	ts := b.BaseTimestamp() + r.timestampDelta
	if b.IsLogAppendTime() {
		ts = b.MaxTimestamp()
	}
	return Record{
		Offset:    b.BaseOffset() + kafka.Offset(r.offsetDelta),
		Timestamp: ts,
		Key:       r.key,
		Value:     r.value,
		Headers:   Headers{r.headers, r.headerCount},
	}
}

// payload is the bytes behind the header: the records, maybe compressed.
func (b Batch) payload() []byte { return b[HeaderSize:] }

// windows keeps the walkers' windows between uses.
var windows = sync.Pool{New: func() any { return new([windowSize]byte) }}

// open points w at the batch's records. done must be called when w is no longer used.
func (b Batch) open(w *walker, maxExpanded int64) (done func(), err error) {
	if b.Codec() == Uncompressed {
		w.buf = b.payload()
		return func() {}, nil
	}
	x, err := expand(b.Codec(), b.payload(), maxExpanded)
	if err != nil {
		return nil, err
	}
	if x.stream == nil {
		w.buf = x.whole
		return x.done, nil
	}
	window := windows.Get().(*[windowSize]byte)
	w.buf, w.src, w.quota = window[:0], x.stream, maxExpanded
	return func() {
		windows.Put(window)
		x.done()
	}, nil
}
