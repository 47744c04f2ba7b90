package diff

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// batch is a record batch (format 2) with every header field free to be wrong.
type batch struct {
	base             int64
	magic            int8
	attributes       int16
	lastDelta, count int32
	first, max       int64
	producer         int // index into World.producers; -1 for none
	epochBy          int16
	sequence         int32
	records          []byte
	spoil            func([]byte) []byte // applied to the finished bytes
}

// Offsets of header fields.
const (
	atLength = 8
	atMagic  = 16
	atCRC    = 17
	atAttrs  = 21
	header   = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// build encodes the batch for a broker.
func (b batch) build(w *World) []byte {
	pid, epoch := int64(-1), int16(-1)
	if b.producer >= 0 && b.producer < len(w.producers) {
		pid, epoch = w.producers[b.producer].id, w.producers[b.producer].epoch+b.epochBy
	}
	out := make([]byte, 0, header+len(b.records))
	be := binary.BigEndian
	out = be.AppendUint64(out, uint64(b.base))
	out = be.AppendUint32(out, uint32(header-12+len(b.records)))
	out = be.AppendUint32(out, 0xffffffff) // partition leader epoch
	out = append(out, byte(b.magic))
	out = be.AppendUint32(out, 0)
	out = be.AppendUint16(out, uint16(b.attributes))
	out = be.AppendUint32(out, uint32(b.lastDelta))
	out = be.AppendUint64(out, uint64(b.first))
	out = be.AppendUint64(out, uint64(b.max))
	out = be.AppendUint64(out, uint64(pid))
	out = be.AppendUint16(out, uint16(epoch))
	out = be.AppendUint32(out, uint32(b.sequence))
	out = be.AppendUint32(out, uint32(b.count))
	out = append(out, b.records...)
	be.PutUint32(out[atCRC:], crc32.Checksum(out[atAttrs:], castagnoli))
	if b.spoil != nil {
		out = b.spoil(out)
	}
	return out
}

// record encodes one record; a negative length of key or value stands for null.
func record(dst []byte, delta int, stampDelta int64, key, value []byte) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, stampDelta)
	body = binary.AppendVarint(body, int64(delta))
	for _, f := range [][]byte{key, value} {
		if f == nil {
			body = binary.AppendVarint(body, -1)
		} else {
			body = append(binary.AppendVarint(body, int64(len(f))), f...)
		}
	}
	body = binary.AppendVarint(body, 0) // headers
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

// batch draws a batch for a partition: a good one, or one that is wrong in one way.
func (g *gen) batch(topic string, partition int32, _ int16) (batch, string) {
	n := 1 + g.IntN(3)
	minute := g.IntN(6)
	b := batch{magic: 2, lastDelta: int32(n - 1), count: int32(n), first: stamp(minute), max: stamp(minute), producer: -1,
		sequence: -1}
	var key []byte
	if g.IntN(3) > 0 {
		key = []byte("k")
	}
	for i := range n {
		b.records = record(b.records, i, 0, key, fmt.Appendf(nil, "value-%d", g.IntN(1000)))
	}
	kind := fmt.Sprintf("%d records keyed %v minute %d", n, key != nil, minute)
	switch g.IntN(3) {
	case 0:
		return b, kind
	case 1:
		return b, kind + g.idempotent(&b, fmt.Sprint(topic, partition), n)
	default:
		return b, kind + g.spoil(&b)
	}
}

// idempotent gives a batch a producer and a sequence number: the next, a repeated or a wrong one.
func (g *gen) idempotent(b *batch, partition string, n int) string {
	b.producer = g.IntN(2)
	at := fmt.Sprint(partition, "/", b.producer)
	next := g.seqs[at]
	b.sequence = often(g, next, next+3, max(0, next-1), 0, -1)
	// Not an older epoch: it would be -1, which Apache Kafka takes where it has no state of the producer.
	b.epochBy = often(g, int16(0), 1)
	if b.sequence == next && b.epochBy == 0 {
		// If the broker refuses the batch for another reason the sequence has a gap from here on, in both brokers.
		g.seqs[at] = next + int32(n)
	}
	return fmt.Sprintf(" producer %d sequence %d epoch %+d", b.producer, b.sequence, b.epochBy)
}

// spoil makes one thing about a batch wrong or odd and names it.
func (g *gen) spoil(b *batch) string {
	spoils := []struct {
		name string
		do   func()
	}{
		{"crc", func() { b.spoil = func(o []byte) []byte { o[atCRC]++; return o } }},
		{"magic 1", func() { b.magic = 1 }},
		{"magic 3", func() { b.magic = 3 }},
		{"count", func() { b.count++ }},
		{"count negative", func() { b.count = -1 }},
		{"last delta", func() { b.lastDelta += 2 }},
		{"base offset", func() { b.base = 99 }},
		{"truncated", func() { b.spoil = func(o []byte) []byte { return o[:len(o)-3] } }},
		{"trailing bytes", func() { b.spoil = func(o []byte) []byte { return append(o, 1, 2, 3) } }},
		{"length too small", func() {
			b.spoil = func(o []byte) []byte { binary.BigEndian.PutUint32(o[atLength:], 10); return o }
		}},
		{"two batches", func() { b.spoil = func(o []byte) []byte { return append(o, o...) } }},
		{"codec 5", func() { b.attributes = 5 }},
		{"control", func() { b.attributes = 1 << 5 }},
		{"transactional", func() { b.attributes = 1 << 4 }},
		{"log append time", func() { b.attributes = 1 << 3 }},
		{"unused attribute", func() { b.attributes = 1 << 7 }},
		{"max timestamp wrong", func() { b.max += 5000 }},
		{"timestamp none", func() { b.first, b.max = -1, -1 }},
		{"timestamp negative", func() { b.first, b.max = -5, -5 }},
		{"timestamp of the far future", func() { b.first, b.max = 1<<45, 1<<45 }},
	}
	s := spoils[g.IntN(len(spoils))]
	s.do()
	return " spoilt: " + s.name
}
