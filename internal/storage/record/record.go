package record

import (
	"iter"
	"sync"

	"moldau/internal/kafka"
)

// Record is one record of a batch.
type Record struct {
	Offset    kafka.Offset
	Timestamp int64  // milliseconds since the epoch, the batch's when the broker set it; or NoTimestamp
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
		i := 0
		for range h.count {
			var key, value []byte
			key, value, i = headerAt(h.raw, i)
			if i < 0 || !yield(Header{string(key), value}) {
				return
			}
		}
	}
}

// headerAt decodes one header at b[i:] and returns where it ends; -1 if there is none. Only its value may be
// null.
func headerAt(b []byte, i int) (key, value []byte, end int) {
	size, i := varint32At(b, i)
	if size < 0 {
		return nil, nil, -1
	}
	key, i = bytesAt(b, i, size)
	size, i = varint32At(b, i)
	value, i = bytesAt(b, i, size)
	return key, value, i
}

// raw is one record as it stands in the batch, relative to the batch's base values.
type raw struct {
	timestampDelta int64
	offsetDelta    int32
	keySize        int32 // negative: null
	valueSize      int32
	headerCount    int32
	// The bytes of the fields; nil when null. A streaming walk that does not hold records may leave them out,
	// and they are gone once it goes on.
	key, value, headers []byte
}

// parse decodes a record of which b is exactly the body, and says whether it is one. Every record that is produced
// passes here, which is why the usual one-byte fields and the usual lack of headers come first.
func (r *raw) parse(b []byte) bool {
	i := 1 // attributes: none is defined
	if v, ok := shortVarintAt(b, i); ok {
		r.timestampDelta, i = int64(v), i+1
	} else {
		r.timestampDelta, i = varint64At(b, i)
	}
	if v, ok := shortVarintAt(b, i); ok {
		r.offsetDelta, i = v, i+1
	} else {
		r.offsetDelta, i = varint32At(b, i)
	}
	if v, ok := shortVarintAt(b, i); ok {
		r.keySize, i = v, i+1
	} else {
		r.keySize, i = varint32At(b, i)
	}
	r.key, i = bytesAt(b, i, r.keySize)
	r.valueSize, i = varint32At(b, i)
	r.value, i = bytesAt(b, i, r.valueSize)
	r.headers = nil
	if i >= 0 && i == len(b)-1 && b[i] == 0 {
		r.headerCount = 0
		return true
	}
	r.headerCount, i = varint32At(b, i)
	if r.headerCount != 0 {
		if i < 0 || r.headerCount < 0 || int(r.headerCount) > len(b)-i {
			return false
		}
		r.headers = b[i:]
		for range r.headerCount {
			_, _, i = headerAt(b, i)
		}
	}
	return i == len(b)
}

// Limits bounds what reading a batch may cost. The zero value gives the defaults.
type Limits struct {
	// MaxExpandedBytes is how many bytes the records may take decompressed; 0: the larger of 64 MiB and 64
	// times the compressed size.
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

// Records yields the batch's records in order. A failure is yielded once, last, with an empty record:
// ErrInvalid for what is not a sequence of Count records, ErrTooLarge for what expands beyond the limits. The
// checksum is not checked.
//
// Key, Value and Headers of an uncompressed batch alias the batch. Those of a compressed one are valid only
// until the next record is asked for; one record at a time is held in memory.
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
