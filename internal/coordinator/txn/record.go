package txn

import (
	"encoding/binary"
	"slices"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// The bytes of __transaction_state. The key is of version 0; values are of version 0, or 1 (flexible) once
// transaction.version is at least 1. Both are read.

// Tags of the value. Tag 3, the epoch of the next producer id, is written by nobody: it is 0.
const (
	tagPreviousProducerID = 0
	tagNextProducerID     = 1
	tagClientVersion      = 2
)

// record encodes the state of a transaction. Not flexible, it can tell nothing of transactions v2.
func (t *transaction) record(flexible bool) coordinator.Record {
	b := make([]byte, 0, 64+16*len(t.partitions))
	version := uint16(0)
	if flexible {
		version = 1
	}
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(t.producer.ID))
	b = binary.BigEndian.AppendUint16(b, uint16(t.producer.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(t.timeoutMs))
	b = append(b, byte(t.state))
	b = t.appendPartitions(b, flexible)
	b = binary.BigEndian.AppendUint64(b, uint64(t.updateMs))
	b = binary.BigEndian.AppendUint64(b, uint64(t.startMs))
	if flexible {
		b = t.appendTags(b)
	}
	return coordinator.Record{Key: key(t.id), Value: b}
}

// key encodes the key of a transactional id.
func key(id string) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	return append(b, id...)
}

// appendPartitions writes the partitions by topic: null for an id that never had a transaction.
func (t *transaction) appendPartitions(b []byte, flexible bool) []byte {
	if t.state == Empty {
		return appendLength(b, -1, flexible)
	}
	topics := 0
	for i, tp := range t.partitions {
		if i == 0 || tp.Topic != t.partitions[i-1].Topic {
			topics++
		}
	}
	b = appendLength(b, topics, flexible)
	for rest := t.partitions; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(tp kafka.TopicPartition) bool { return tp.Topic != rest[0].Topic })
		if n < 0 {
			n = len(rest)
		}
		if flexible {
			b = binary.AppendUvarint(b, uint64(len(rest[0].Topic)+1))
		} else {
			b = binary.BigEndian.AppendUint16(b, uint16(len(rest[0].Topic)))
		}
		b = append(b, rest[0].Topic...)
		b = appendLength(b, n, flexible)
		for _, tp := range rest[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
		}
		if flexible {
			b = append(b, 0) // no tags
		}
		rest = rest[n:]
	}
	return b
}

// appendLength writes the length of an array; -1 is null.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(int32(n)))
}

// appendTags writes the tagged fields that differ from their defaults.
func (t *transaction) appendTags(b []byte) []byte {
	var tags []byte
	n := 0
	add := func(tag, size int) {
		n++
		tags = append(binary.AppendUvarint(tags, uint64(tag)), byte(size))
	}
	if t.previousID != kafka.NoProducer {
		add(tagPreviousProducerID, 8)
		tags = binary.BigEndian.AppendUint64(tags, uint64(t.previousID))
	}
	if t.nextID != kafka.NoProducer {
		add(tagNextProducerID, 8)
		tags = binary.BigEndian.AppendUint64(tags, uint64(t.nextID))
	}
	if t.version != 0 {
		add(tagClientVersion, 2)
		tags = binary.BigEndian.AppendUint16(tags, uint16(t.version))
	}
	return append(binary.AppendUvarint(b, uint64(n)), tags...)
}

// parseKey reads the transactional id of a key.
func parseKey(b []byte) (string, error) {
	r := &reader{b: b}
	if v := r.int16(); v != 0 {
		return "", kafka.Errorf(kafka.CorruptMessage, "a key of type %d", v)
	}
	id := r.string(false)
	return id, r.end()
}

// parseValue reads the state of a transaction.
func parseValue(id string, b []byte) (transaction, error) {
	r := &reader{b: b}
	version := r.int16()
	if version < 0 || version > 1 {
		return transaction{}, kafka.Errorf(kafka.UnsupportedVersion, "a transaction record of version %d", version)
	}
	flexible := version == 1
	t := transaction{id: id, previousID: kafka.NoProducer, nextID: kafka.NoProducer}
	t.producer.ID = kafka.ProducerID(r.int64())
	t.producer.Epoch = kafka.ProducerEpoch(r.int16())
	t.timeoutMs = r.int32()
	t.state = State(r.int8())
	for range r.length(flexible) {
		topic := r.string(flexible)
		for range r.length(flexible) {
			t.partitions = append(t.partitions, kafka.TopicPartition{Topic: topic, Partition: r.int32()})
		}
		if flexible {
			r.tags(func(int, *reader) {})
		}
	}
	t.updateMs, t.startMs = r.int64(), r.int64()
	if flexible {
		r.tags(func(tag int, v *reader) {
			switch tag {
			case tagPreviousProducerID:
				t.previousID = kafka.ProducerID(v.int64())
			case tagNextProducerID:
				t.nextID = kafka.ProducerID(v.int64())
			case tagClientVersion:
				t.version = v.int16()
			}
		})
	}
	if err := r.end(); err != nil {
		return transaction{}, err
	}
	if t.state < Empty || t.state > CompleteAbort {
		return transaction{}, kafka.Errorf(kafka.CorruptMessage, "a transaction in state %d", t.state)
	}
	slices.SortFunc(t.partitions, comparePartitions)
	return t, nil
}

// reader reads a record; after the first failure it yields zeros, and end tells.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.failed, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint(n int) uint64 {
	var v uint64
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *reader) int8() int8   { return int8(r.uint(1)) }
func (r *reader) int16() int16 { return int16(r.uint(2)) }
func (r *reader) int32() int32 { return int32(r.uint(4)) }
func (r *reader) int64() int64 { return int64(r.uint(8)) }

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<31-1 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// length reads an array's length; null is none. An element takes at least four bytes.
func (r *reader) length(flexible bool) int {
	n := 0
	if flexible {
		n = r.uvarint() - 1
	} else {
		n = int(r.int32())
	}
	if n > len(r.b)/4 {
		r.failed, r.b = true, nil
		return 0
	}
	return max(n, 0)
}

func (r *reader) string(flexible bool) string {
	if flexible {
		return string(r.take(r.uvarint() - 1))
	}
	return string(r.take(int(r.int16())))
}

func (r *reader) tags(f func(tag int, v *reader)) {
	for range r.uvarint() {
		if r.failed {
			return
		}
		tag := r.uvarint()
		v := &reader{b: r.take(r.uvarint())}
		f(tag, v)
		r.failed = r.failed || v.failed
	}
}

func (r *reader) end() error {
	if r.failed || len(r.b) > 0 {
		return kafka.Errorf(kafka.CorruptMessage, "a transaction record that is cut or too long")
	}
	return nil
}
