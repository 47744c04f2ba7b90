package group

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// The records of a consumer group (KIP-848). A key is the record type and strings of the old encoding; a value is a
// version, always 0, and a body of the flexible encoding. Within a batch their order matters to every replay: a member,
// then the group's epoch, the target of each member, the target's epoch, what each member has now; and on the way out the
// other way round.

// consumerKey makes a key: the group, then the member or pattern of those types that have one.
func consumerKey(kind uint16, parts ...string) []byte {
	key := binary.BigEndian.AppendUint16(nil, kind)
	for _, p := range parts {
		key = kbin.AppendString(key, p)
	}
	return key
}

func tombstone(kind uint16, parts ...string) coordinator.Record {
	return coordinator.Record{Key: consumerKey(kind, parts...)}
}

// valueV0 is the begin of every value: its version.
func valueV0() []byte { return []byte{0, 0} }

// noTags ends a struct without tagged fields.
func noTags(b []byte) []byte { return append(b, 0) }

// appendTag writes the head of the only tagged field of a struct, numbered 0, and the field.
func appendTag(b, field []byte) []byte {
	b = append(b, 1, 0)
	b = kbin.AppendUvarint(b, uint32(len(field)))
	return append(b, field...)
}

func epochRecord(group string, epoch int32, hash uint64) coordinator.Record {
	v := kbin.AppendInt32(valueV0(), epoch)
	if hash == 0 {
		v = noTags(v)
	} else {
		v = appendTag(v, binary.BigEndian.AppendUint64(nil, hash))
	}
	return coordinator.Record{Key: consumerKey(keyConsumerGroup, group), Value: v}
}

func memberRecord(group string, m *consumerMember) coordinator.Record {
	v := kbin.AppendCompactNullableString(valueV0(), m.instance)
	v = kbin.AppendCompactNullableString(v, m.rack)
	v = kbin.AppendCompactString(v, m.clientID)
	v = kbin.AppendCompactString(v, m.clientHost)
	v = kbin.AppendCompactArrayLen(v, len(m.topics))
	for _, t := range m.topics {
		v = kbin.AppendCompactString(v, t)
	}
	v = kbin.AppendCompactString(v, m.regex)
	v = kbin.AppendInt32(v, m.rebalanceTimeoutMs)
	v = kbin.AppendCompactNullableString(v, m.assignor)
	v = appendTag(v, m.classic.append(nil)) // not being there is not its default, so it is always written
	return coordinator.Record{Key: consumerKey(keyConsumerMember, group, m.id), Value: v}
}

func (c *classicFace) append(b []byte) []byte {
	if c == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = kbin.AppendInt32(b, c.sessionTimeoutMs)
	b = kbin.AppendCompactArrayLen(b, len(c.protocols))
	for _, p := range c.protocols {
		b = kbin.AppendCompactString(b, p.name)
		b = kbin.AppendCompactBytes(b, p.metadata)
		b = noTags(b)
	}
	return noTags(b)
}

func targetMetadataRecord(group string, epoch int32, timestampMs int64) coordinator.Record {
	v := kbin.AppendInt32(valueV0(), epoch)
	if timestampMs == 0 {
		v = noTags(v)
	} else {
		v = appendTag(v, kbin.AppendInt64(nil, timestampMs))
	}
	return coordinator.Record{Key: consumerKey(keyTargetMetadata, group), Value: v}
}

func targetRecord(group, member string, target partitions) coordinator.Record {
	v := kbin.AppendCompactArrayLen(valueV0(), len(target))
	for _, topic := range target.topics() {
		v = appendPartitions(v, topic, target[topic])
		v = noTags(v)
	}
	return coordinator.Record{Key: consumerKey(keyTargetMember, group, member), Value: noTags(v)}
}

func currentRecord(group string, m *consumerMember) coordinator.Record {
	v := kbin.AppendInt32(valueV0(), m.epoch)
	v = kbin.AppendInt32(v, m.previous)
	v = append(v, byte(m.state))
	v = m.assigned.append(v)
	v = m.revoking.append(v)
	return coordinator.Record{Key: consumerKey(keyCurrentMember, group, m.id), Value: noTags(v)}
}

// append writes partitions with the epochs they were assigned at (KIP-1251).
func (h held) append(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(h))
	for _, topic := range h.topics() {
		numbers := h.numbers(topic)
		b = appendPartitions(b, topic, numbers)
		epochs := kbin.AppendCompactArrayLen(nil, len(numbers))
		for _, n := range numbers {
			epochs = kbin.AppendInt32(epochs, h[topic][n])
		}
		b = appendTag(b, epochs)
	}
	return b
}

func appendPartitions(b []byte, topic kafka.UUID, numbers []int32) []byte {
	b = kbin.AppendUuid(b, topic)
	b = kbin.AppendCompactArrayLen(b, len(numbers))
	for _, n := range numbers {
		b = kbin.AppendInt32(b, n)
	}
	return b
}

func regexRecord(group, pattern string, r *resolvedRegex) coordinator.Record {
	v := kbin.AppendCompactArrayLen(valueV0(), len(r.topics))
	for _, t := range r.topics {
		v = kbin.AppendCompactString(v, t)
	}
	v = kbin.AppendInt64(v, r.version)
	v = kbin.AppendInt64(v, r.timestampMs)
	return coordinator.Record{Key: consumerKey(keyConsumerRegex, group, pattern), Value: noTags(v)}
}

// valueReader reads the flexible body of a value. It stays failed once it has failed.
type valueReader struct{ kbin.Reader }

// newValueReader checks the version, the only one there is being 0.
func newValueReader(value []byte) (*valueReader, error) {
	r := &valueReader{kbin.Reader{Src: value}}
	if v := r.Int16(); v != 0 || !r.Ok() {
		return nil, kafka.Errorf(kafka.CorruptMessage, "a value of version %d", v)
	}
	return r, nil
}

// length reads an array length; each element takes at least size bytes, so a length that the rest cannot hold fails.
func (r *valueReader) length(size int) int {
	n := int(r.CompactArrayLen())
	if n > len(r.Src)/size {
		r.Span(len(r.Src) + 1)
		return 0
	}
	return max(n, 0)
}

func (r *valueReader) strings() []string {
	out := make([]string, r.length(1))
	for i := range out {
		out[i] = r.CompactString()
	}
	return out
}

func (r *valueReader) int32s() []int32 {
	out := make([]int32, r.length(4))
	for i := range out {
		out[i] = r.Int32()
	}
	return out
}

// tags reads the tagged fields of a struct: number 0 is handed to f, those of a newer program are passed over.
func (r *valueReader) tags(f func(*valueReader)) {
	for range r.Uvarint() {
		number, size := r.Uvarint(), int(r.Uvarint())
		field := &valueReader{kbin.Reader{Src: r.Span(size)}}
		if !r.Ok() {
			return
		}
		if number != 0 || f == nil {
			continue
		}
		if f(field); !field.Ok() {
			r.Span(len(r.Src) + 1)
		}
	}
}

func (r *valueReader) done() error {
	if !r.Ok() {
		return kafka.Errorf(kafka.CorruptMessage, "a value that ends too early")
	}
	return nil
}

func (r *valueReader) target() partitions {
	n := r.length(18)
	out := make(partitions, n)
	for range n {
		topic := kafka.UUID(r.Uuid())
		out.add(topic, r.int32s())
		r.tags(nil)
	}
	return out
}

// held reads partitions of a member. Without epochs, as before KIP-1251, they count as assigned at the given one.
func (r *valueReader) held(otherwise int32) held {
	n := r.length(18)
	out := make(held, n)
	for range n {
		topic := kafka.UUID(r.Uuid())
		numbers := r.int32s()
		var epochs []int32
		r.tags(func(f *valueReader) { epochs = f.int32s() })
		for i, number := range numbers {
			epoch := otherwise
			if len(epochs) == len(numbers) {
				epoch = epochs[i]
			}
			out.put(topic, number, epoch)
		}
	}
	return out
}

// readMember reads the part of a member that its subscription record holds into m.
func (r *valueReader) readMember(m *consumerMember) {
	m.instance = r.CompactNullableString()
	m.rack = r.CompactNullableString()
	m.clientID = r.CompactString()
	m.clientHost = r.CompactString()
	m.topics = r.strings()
	if regex := r.CompactNullableString(); regex != nil {
		m.regex = *regex
	}
	m.rebalanceTimeoutMs = r.Int32()
	m.assignor = r.CompactNullableString()
	m.classic = nil
	r.tags(func(f *valueReader) {
		if f.Int8() != 1 {
			return
		}
		c := &classicFace{sessionTimeoutMs: f.Int32()}
		c.protocols = make([]classicProtocol, f.length(3))
		for i := range c.protocols {
			c.protocols[i] = classicProtocol{name: f.CompactString(), metadata: f.CompactBytes()}
			f.tags(nil)
		}
		f.tags(nil)
		m.classic = c
	})
}
