package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Versions of OffsetFetch at which something begins.
const (
	fetchBatch = 8  // a list of groups (KIP-709)
	fetchByID  = 10 // topics by id
)

// offsetFetch tells committed offsets. What nobody committed is -1 without an error, and so is everything of a group that
// does not exist.
func (m *Machine) offsetFetch(p *coordinator.Pending, r *kmsg.OffsetFetchRequest) coordinator.Result {
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	if r.Version >= fetchBatch {
		if len(r.Groups) != 1 {
			return failed(p, "", kafka.InvalidRequest)
		}
		asked := &r.Groups[0]
		if g := m.groups[asked.Group]; g != nil {
			if err := g.kind.checkFetch(asked.MemberID, asked.MemberEpoch); err != nil {
				return failed(p, asked.Group, err)
			}
		}
		f := &fetch{pending: p, group: asked.Group, byID: r.Version >= fetchByID, stable: r.RequireStable}
		resp.Groups = []kmsg.OffsetFetchResponseGroup{{Group: asked.Group, Topics: m.fetch(f, asked.Topics)}}
		if f.full {
			return failed(p, asked.Group, errTooManyOffsets())
		}
		return coordinator.Result{Scope: asked.Group, Replies: answer(p, resp)}
	}
	var topics []kmsg.OffsetFetchRequestGroupTopic
	if r.Topics != nil || r.Version < 2 { // before version 2 there was no way to ask for all
		topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(r.Topics))
	}
	for i, t := range r.Topics {
		topics[i].Topic, topics[i].Partitions = t.Topic, t.Partitions
	}
	f := &fetch{pending: p, group: r.Group, stable: r.RequireStable}
	for _, t := range m.fetch(f, topics) {
		out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, x := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition(x))
		}
		resp.Topics = append(resp.Topics, out)
	}
	if f.full {
		return failed(p, r.Group, errTooManyOffsets())
	}
	return coordinator.Result{Scope: r.Group, Replies: answer(p, resp)}
}

// fetch is how offsets of a group are asked for.
type fetch struct {
	pending *coordinator.Pending
	group   string
	byID    bool
	stable  bool // what an open transaction may change is an error (KIP-447)
	full    bool // the answer would be too large, and is not made
}

func errTooManyOffsets() error {
	return kafka.Errorf(kafka.PolicyViolation, "the answer would be too large; ask about fewer offsets at once")
}

// notePerEntry is how many bytes of the notes beside offsets count as another entry.
const notePerEntry = 128

// spend takes entries from what the answers may hold, and says whether there were as many.
func (f *fetch) spend(n int) bool {
	if room := f.pending.Call.Room; room != nil && !f.full {
		f.full = room.Add(-int64(n)) < 0
	}
	return !f.full
}

// fetch tells the offsets of topics, or all that the group has for nil.
func (m *Machine) fetch(f *fetch, topics []kmsg.OffsetFetchRequestGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	g := m.groups[f.group]
	if topics == nil {
		return m.fetchAll(f, g)
	}
	out := make([]kmsg.OffsetFetchResponseGroupTopic, len(topics)) // not larger than the request was
	for i, t := range topics {
		if !f.spend(1 + len(t.Partitions)) {
			return nil
		}
		name, err := t.Topic, error(nil)
		if r := m.resolve(f.pending, f.byID, t.Topic, t.TopicID); r.err == nil {
			name = r.topic.Name
		} else if kafka.CodeOf(r.err) != kafka.UnknownTopicOrPartition { // an absent name just has no offsets
			err = r.err
		}
		out[i] = kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
		out[i].Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		for j, partition := range t.Partitions {
			x := &out[i].Partitions[j]
			if *x = noOffset(partition); err != nil {
				x.ErrorCode = int16(kafka.CodeOf(err))
			} else if g != nil {
				m.fetchOne(f, g, name, x)
			}
		}
	}
	return out
}

// fetchOne fills in one partition of a group.
func (m *Machine) fetchOne(f *fetch, g *group, topic string, x *kmsg.OffsetFetchResponseGroupTopicPartition) {
	if f.stable && m.unstable(g, topic, x.Partition) {
		x.ErrorCode = int16(kafka.UnstableOffsetCommit)
		return
	}
	if c, ok := g.offsets.get(topic, x.Partition); ok && !m.stale(topic, c) {
		f.spend(len(c.metadata) / notePerEntry)
		x.Offset, x.LeaderEpoch, x.Metadata = int64(c.offset), int32(c.leaderEpoch), kmsg.StringPtr(c.metadata)
	}
}

// fetchAll tells everything that is committed, of the topics that the caller may know.
func (m *Machine) fetchAll(f *fetch, g *group) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	if g == nil {
		return out
	}
	for i := range g.offsets.topics {
		t := &g.offsets.topics[i]
		name := t.topic.Value()
		if !f.spend(1 + len(t.partitions)) {
			return nil
		}
		of := kmsg.OffsetFetchResponseGroupTopic{Topic: name}
		if f.byID {
			known, ok := m.image.Topic(name)
			if !ok {
				continue
			}
			of.Topic, of.TopicID = "", known.ID
		}
		if f.pending.Call.May != nil && !f.pending.Call.May(name) {
			continue
		}
		for j := range t.partitions {
			if m.stale(name, &t.partitions[j]) {
				continue
			}
			x := noOffset(t.partitions[j].partition)
			m.fetchOne(f, g, name, &x)
			of.Partitions = append(of.Partitions, x)
		}
		if len(of.Partitions) > 0 {
			out = append(out, of)
		}
	}
	return out
}

func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	return kmsg.OffsetFetchResponseGroupTopicPartition{
		Partition: partition, Offset: int64(kafka.NoOffset), LeaderEpoch: int32(kafka.NoEpoch), Metadata: kmsg.StringPtr(""),
	}
}

// stale says whether an offset was committed to a topic that has been deleted. The image is never older than a commit in
// this shard's log: who wrote it led the shard by an image from before the one that made this node its leader.
func (m *Machine) stale(topic string, c *committed) bool {
	if c.topicID.IsZero() {
		return false
	}
	t, ok := m.image.Topic(topic)
	return !ok || t.ID != c.topicID
}
