package metadata

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"moldau/internal/kafka"
)

// topicDelta accumulates the changes of one topic.
type topicDelta struct {
	old, new *Topic
	// partitions holds what changed while the topic stayed. It is empty for topics that came or went, and for
	// replaced ones: for those the partitions of old and new say it all.
	partitions changes[int32, Partition]
	// replaced: the topic went and came again under the same id.
	replaced bool
}

// topic finds or makes the delta of a topic that is about to change; before is the topic as it is now, nil for none.
func (d *Diff) topic(id kafka.UUID, before *Topic) *topicDelta {
	if t, ok := d.topics[id]; ok {
		return t
	}
	if d.topics == nil {
		d.topics = make(map[kafka.UUID]*topicDelta)
	}
	t := &topicDelta{old: before, new: before}
	d.topics[id] = t
	return t
}

// setTopic notes that a topic is now after: created, changed or removed (nil).
func (d *Diff) setTopic(id kafka.UUID, before, after *Topic) {
	t := d.topic(id, before)
	if t.new == nil && after != nil && t.old != nil {
		t.replaced = true
	}
	t.new = after
	if after == nil {
		t.partitions = nil
	}
	if t.old == nil && t.new == nil {
		delete(d.topics, id)
	}
}

// setPartition notes a changed or new partition of a topic. setTopic has been called before.
func (d *Diff) setPartition(id kafka.UUID, index int32, before, after *Partition) {
	if t := d.topics[id]; t.old != nil && !t.replaced {
		t.partitions.note(index, before, after)
	}
}

// addTopic puts a later delta of a topic on top.
func (d *Diff) addTopic(id kafka.UUID, later *topicDelta) {
	earlier, ok := d.topics[id]
	if !ok {
		t := d.topic(id, later.old)
		t.new, t.replaced = later.new, later.replaced
		t.partitions = maps.Clone(later.partitions)
		return
	}
	earlier.replaced = earlier.replaced || later.replaced || (earlier.old != nil && earlier.new == nil)
	earlier.new = later.new
	switch {
	case earlier.old == nil && earlier.new == nil:
		delete(d.topics, id)
	case earlier.old == nil || earlier.new == nil || earlier.replaced:
		earlier.partitions = nil
	default:
		earlier.partitions.merge(later.partitions)
	}
}

// TopicChange is a topic that came (nil Old), went (nil New) or whose partitions changed.
type TopicChange struct {
	ID       kafka.UUID
	Old, New *Topic

	delta *topicDelta
}

// Name is the topic's name.
func (c TopicChange) Name() string {
	if c.New != nil {
		return c.New.Name
	}
	return c.Old.Name
}

// Created says whether the topic is new.
func (c TopicChange) Created() bool { return c.Old == nil }

// Removed says whether the topic is gone.
func (c TopicChange) Removed() bool { return c.New == nil }

// Partitions goes through the partitions that changed, by index: all of them for a topic that came or went.
func (c TopicChange) Partitions() iter.Seq2[int32, Change[Partition]] {
	if c.Old != nil && c.New != nil && !c.delta.replaced {
		return sorted(c.delta.partitions)
	}
	return func(yield func(int32, Change[Partition]) bool) {
		if c.Old != nil {
			for index, p := range c.Old.Partitions() {
				change := Change[Partition]{Old: p}
				if c.New != nil {
					change.New, _ = c.New.Partition(index)
				}
				if !yield(index, change) {
					return
				}
			}
		}
		if c.New == nil {
			return
		}
		for index, p := range c.New.Partitions() {
			if c.Old != nil {
				if _, seen := c.Old.Partition(index); seen {
					continue
				}
			}
			if !yield(index, Change[Partition]{New: p}) {
				return
			}
		}
	}
}

// Topics goes through the topics that changed, by name; of two topics of one name the one that went comes first.
func (d *Diff) Topics() iter.Seq[TopicChange] {
	return func(yield func(TopicChange) bool) {
		d := d.orEmpty()
		all := make([]TopicChange, 0, len(d.topics))
		for id, t := range d.topics {
			all = append(all, TopicChange{id, t.old, t.new, t})
		}
		slices.SortFunc(all, func(a, b TopicChange) int {
			return cmp.Or(cmp.Compare(a.Name(), b.Name()), compareRemoved(a, b), compareUUIDs(a.ID, b.ID))
		})
		for _, c := range all {
			if !yield(c) {
				return
			}
		}
	}
}

func compareRemoved(a, b TopicChange) int {
	switch {
	case a.Removed() && !b.Removed():
		return -1
	case b.Removed() && !a.Removed():
		return 1
	}
	return 0
}

// PartitionChange is one partition that came, went or changed. Topic is the topic after the change, or the topic as it
// was if it is gone.
type PartitionChange struct {
	Topic    *Topic
	Index    int32
	Old, New *Partition
}

// Partitions goes through the partitions that changed of all topics, in the order of Topics and by index.
func (d *Diff) Partitions() iter.Seq[PartitionChange] {
	return func(yield func(PartitionChange) bool) {
		for t := range d.Topics() {
			topic := t.New
			if topic == nil {
				topic = t.Old
			}
			for index, c := range t.Partitions() {
				if !yield(PartitionChange{topic, index, c.Old, c.New}) {
					return
				}
			}
		}
	}
}
