package group

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unique"

	"moldau/internal/kafka"
)

// offsets are the committed offsets of one group, or those that one transaction would commit to it. They are sorted by
// topic and partition: a broker keeps many groups of a few offsets each, and slices of plain values are the smallest form.
type offsets struct{ topics []topicOffsets }

type topicOffsets struct {
	topic      unique.Handle[string] // thousands of groups name the same topics
	partitions []committed
}

// committed is one committed offset.
type committed struct {
	offset      kafka.Offset
	record      kafka.Offset // where the record lies that says so
	commitMs    int64        // when it was committed
	expireMs    int64        // when it expires if the commit asked for that; noExpiry otherwise
	topicID     kafka.UUID   // zero when the record names none
	metadata    string
	partition   int32
	leaderEpoch kafka.LeaderEpoch
}

// noExpiry is the expiry of an offset that goes by offsets.retention.minutes.
const noExpiry int64 = -1

func (o *offsets) find(topic string) (int, bool) {
	return slices.BinarySearchFunc(o.topics, topic, func(t topicOffsets, name string) int {
		return strings.Compare(t.topic.Value(), name)
	})
}

func (t *topicOffsets) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(t.partitions, partition, func(c committed, p int32) int {
		return cmp.Compare(c.partition, p)
	})
}

// get finds an offset; the pointer is good until the next change.
func (o *offsets) get(topic string, partition int32) (*committed, bool) {
	i, ok := o.find(topic)
	if !ok {
		return nil, false
	}
	t := &o.topics[i]
	j, ok := t.find(partition)
	if !ok {
		return nil, false
	}
	return &t.partitions[j], true
}

// put adds or replaces an offset. It keeps c.metadata, but not topic.
func (o *offsets) put(topic string, c committed) {
	i, ok := o.find(topic)
	if !ok {
		o.topics = slices.Insert(o.topics, i, topicOffsets{topic: unique.Make(topic)})
	}
	t := &o.topics[i]
	j, ok := t.find(c.partition)
	if ok {
		t.partitions[j] = c
		return
	}
	t.partitions = slices.Insert(t.partitions, j, c)
}

// remove takes an offset away.
func (o *offsets) remove(topic string, partition int32) {
	i, ok := o.find(topic)
	if !ok {
		return
	}
	t := &o.topics[i]
	j, ok := t.find(partition)
	if !ok {
		return
	}
	t.partitions = slices.Delete(t.partitions, j, j+1)
	if len(t.partitions) == 0 {
		o.topics = slices.Delete(o.topics, i, i+1)
	}
}

func (o *offsets) empty() bool { return len(o.topics) == 0 }

// all goes through the offsets by topic and partition.
func (o *offsets) all() iter.Seq2[string, *committed] {
	return func(yield func(string, *committed) bool) {
		for i := range o.topics {
			t := &o.topics[i]
			for j := range t.partitions {
				if !yield(t.topic.Value(), &t.partitions[j]) {
					return
				}
			}
		}
	}
}
