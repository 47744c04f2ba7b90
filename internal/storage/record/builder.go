package record

import (
	"encoding/binary"
	"math"
	"slices"

	"moldau/internal/kafka"
)

// Options is what a batch says about itself. The zero value is a plain, uncompressed batch at offset 0 of
// epoch 0.
type Options struct {
	BaseOffset  kafka.Offset
	LeaderEpoch kafka.LeaderEpoch
	Codec       Codec
	Level       int // of the codec; 0: its default

	Producer      *Producer // nil: a plain batch
	Transactional bool
	Control       bool // set by ControlBatch

	LogAppendTime bool  // records have the time AppendTimeMs
	AppendTimeMs  int64 // milliseconds since the epoch, with LogAppendTime

	// DeleteHorizonMs is when compaction may drop the batch's tombstones or markers (KIP-534), in
	// milliseconds since the epoch; 0: no such time is set.
	DeleteHorizonMs int64

	SizeHint int // expected size of the records in bytes, 0: unknown
	// Buffer is room to build in, if it is large enough; its contents are lost. An uncompressed batch lies in it.
	Buffer []byte
}

// Producer is the producer state that a batch carries.
type Producer struct {
	ID       kafka.ProducerID
	Epoch    kafka.ProducerEpoch
	Sequence int32 // of the first record; kafka.NoSequence in transaction markers
}

// OptionsOf gives the options that build a batch like b, for rewriting it with some of its records.
func OptionsOf(b Batch) Options {
	o := Options{
		BaseOffset:    b.BaseOffset(),
		LeaderEpoch:   b.LeaderEpoch(),
		Codec:         b.Codec(),
		Transactional: b.IsTransactional(),
		Control:       b.IsControl(),
		LogAppendTime: b.IsLogAppendTime(),
		SizeHint:      len(b) - HeaderSize,
	}
	if b.HasProducer() {
		o.Producer = &Producer{b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()}
	}
	if o.LogAppendTime {
		o.AppendTimeMs = b.MaxTimestamp()
	}
	if b.HasDeleteHorizon() {
		o.DeleteHorizonMs = b.BaseTimestamp()
	}
	return o
}

// Builder makes one batch. Its zero value is not usable; see NewBuilder.
type Builder struct {
	opts  Options
	buf   []byte // room for the header, then the records, uncompressed
	count int32
	next  kafka.Offset // of the next appended record
	last  kafka.Offset // what the header will say; base - 1 while there is none
	base  int64        // base timestamp
	max   int64        // largest timestamp
	err   error
}

// NewBuilder starts a batch.
func NewBuilder(o Options) *Builder {
	b := &Builder{}
	b.Reset(o)
	return b
}

// Reset starts another batch. The batch built before keeps its bytes.
func (b *Builder) Reset(o Options) {
	*b = Builder{opts: o, next: o.BaseOffset, last: o.BaseOffset - 1, base: o.DeleteHorizonMs}
	b.max = NoTimestamp
	b.buf = slices.Grow(o.Buffer[:0], HeaderSize+max(o.SizeHint, 256))[:HeaderSize] // Build fills all of the header
}

// Append adds a record at the next offset. ts is in milliseconds since the epoch, or NoTimestamp; a nil key
// or value is null. What cannot be encoded is reported by Build.
func (b *Builder) Append(ts int64, key, value []byte, headers []Header) {
	if !b.begin(b.next, ts, key, value, headersSize(headers)) {
		return
	}
	b.buf = binary.AppendVarint(b.buf, int64(len(headers)))
	for _, h := range headers {
		b.buf = binary.AppendVarint(b.buf, int64(len(h.Key)))
		b.buf = append(b.buf, h.Key...)
		b.buf = appendNullable(b.buf, h.Value)
	}
}

// AppendRecord adds a record at its own offset, which must not be lower than the next one; a gap may remain
// before it. Its headers are copied as they are.
func (b *Builder) AppendRecord(r Record) {
	n := varintSize(int64(r.Headers.count)) + len(r.Headers.raw)
	if !b.begin(r.Offset, r.Timestamp, r.Key, r.Value, n) {
		return
	}
	b.buf = binary.AppendVarint(b.buf, int64(r.Headers.count))
	b.buf = append(b.buf, r.Headers.raw...)
}

// begin writes a record up to its headers, of which it needs the size. It says whether it could.
func (b *Builder) begin(offset kafka.Offset, ts int64, key, value []byte, headersSize int) bool {
	offsetDelta := int64(offset - b.opts.BaseOffset)
	if b.count == 0 && b.opts.DeleteHorizonMs == 0 {
		b.base = ts
	}
	tsDelta := ts - b.base
	size := 1 + varintSize(tsDelta) + varintSize(offsetDelta)
	size += nullableSize(key) + nullableSize(value) + headersSize
	switch {
	case offset < b.next || offsetDelta > math.MaxInt32:
		b.fail(invalid("offset %d in a batch that continues at %d", offset, b.next))
	case len(b.buf)+size > math.MaxInt32-binary.MaxVarintLen32:
		b.fail(kafka.MessageTooLarge)
	}
	if b.err != nil {
		return false
	}
	b.buf = binary.AppendVarint(b.buf, int64(size))
	b.buf = append(b.buf, 0)
	b.buf = binary.AppendVarint(b.buf, tsDelta)
	b.buf = binary.AppendVarint(b.buf, offsetDelta)
	b.buf = appendNullable(b.buf, key)
	b.buf = appendNullable(b.buf, value)
	b.count++
	b.next, b.last = offset+1, max(b.last, offset)
	b.max = max(b.max, ts)
	return true
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// SetLastOffset makes the batch reach up to and including o although its last record may lie lower, as
// compaction needs it: a producer's last sequence follows from the last offset.
func (b *Builder) SetLastOffset(o kafka.Offset) { b.last = max(b.last, o) }

// Count is the number of records appended.
func (b *Builder) Count() int { return int(b.count) }

// Size is the size of the batch in bytes as it would be uncompressed.
func (b *Builder) Size() int { return len(b.buf) }

// Build finishes the batch. It may be without records if SetLastOffset gave it a range. The builder must be
// Reset before it is used again.
func (b *Builder) Build() (Batch, error) {
	if b.last < b.opts.BaseOffset || int64(b.last-b.opts.BaseOffset) > math.MaxInt32 {
		b.fail(invalid("batch from %d to %d", b.opts.BaseOffset, b.last))
	}
	if b.err != nil {
		return nil, b.err
	}
	if b.count == 0 {
		b.opts.Codec, b.opts.DeleteHorizonMs, b.base = Uncompressed, 0, NoTimestamp
	}
	if b.opts.LogAppendTime {
		b.max = b.opts.AppendTimeMs
	}
	out := Batch(b.buf)
	if b.opts.Codec != Uncompressed {
		s := newSink(0, len(b.buf)/2)
		if err := compressed(s, b.buf[HeaderSize:], b.opts.Codec, b.opts.Level); err != nil {
			return nil, err
		}
		out = s.b
	}
	b.buf = nil
	b.fill(out)
	return out, nil
}

// fill writes the header.
func (b *Builder) fill(out Batch) {
	o := &b.opts
	p := Producer{kafka.NoProducer, kafka.NoProducerEpoch, kafka.NoSequence}
	if o.Producer != nil {
		p = *o.Producer
	}
	out.SetBaseOffset(o.BaseOffset)
	out.put32(posLength, int32(len(out)-LogOverhead))
	out.SetLeaderEpoch(o.LeaderEpoch)
	out[posMagic] = Magic
	out.put16(posAttributes, o.attributes())
	out.put32(posLastOffsetDelta, int32(b.last-o.BaseOffset))
	out.put64(posBaseTimestamp, b.base)
	out.put64(posMaxTimestamp, b.max)
	out.put64(posProducerID, int64(p.ID))
	out.put16(posProducerEpoch, int16(p.Epoch))
	out.put32(posBaseSequence, p.Sequence)
	out.put32(posCount, b.count)
	out.UpdateCRC()
}

func (o *Options) attributes() int16 {
	a := int16(o.Codec)
	if o.LogAppendTime {
		a |= attrLogAppendTime
	}
	if o.Transactional {
		a |= attrTransactional
	}
	if o.Control {
		a |= attrControl
	}
	if o.DeleteHorizonMs != 0 {
		a |= attrDeleteHorizon
	}
	return a
}

func headersSize(headers []Header) int {
	n := varintSize(int64(len(headers)))
	for _, h := range headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
	}
	return n
}

func nullableSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
