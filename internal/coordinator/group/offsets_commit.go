package group

import (
	"errors"
	"math"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Request versions at which something begins.
const (
	commitByID          = 10 // OffsetCommit names topics by id (KIP-848's follow-up of KIP-516)
	commitGroupNotFound = 9  // OffsetCommit may answer GROUP_ID_NOT_FOUND (KIP-848)
	txnCommitByID       = 6  // TxnOffsetCommit names topics by id and has the errors of both (KIP-1319)
)

// maxMetadataBytes is what the length field of an offset's metadata can say in every version of the record.
const maxMetadataBytes = math.MaxInt16

// commit is an OffsetCommit, or a TxnOffsetCommit in its words.
type commit struct {
	check    commitCheck
	group    string
	byID     bool
	expireMs int64
	topics   []kmsg.OffsetCommitRequestTopic
}

// offsetCommit stores offsets. Each partition is judged on its own; what is wrong with the group or the member is told
// for every partition that exists.
func (m *Machine) offsetCommit(now time.Time, p *coordinator.Pending, r *kmsg.OffsetCommitRequest) coordinator.Result {
	c := commit{
		check: commitCheck{member: r.MemberID, instance: r.InstanceID, epoch: r.Generation, version: r.Version},
		group: r.Group, byID: r.Version >= commitByID, expireMs: noExpiry, topics: r.Topics,
	}
	if r.Version <= 4 && r.RetentionTimeMillis != -1 {
		c.expireMs = now.UnixMilli() + min(r.RetentionTimeMillis, math.MaxInt64-now.UnixMilli())
	}
	resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
	var result coordinator.Result
	resp.Topics, result = m.commit(now, p, c)
	result.Replies = answer(p, resp)
	return result
}

// txnOffsetCommit stores offsets that count once the producer's transaction commits (KIP-98, KIP-447).
func (m *Machine) txnOffsetCommit(now time.Time, p *coordinator.Pending, r *kmsg.TxnOffsetCommitRequest) coordinator.Result {
	c := commit{
		check: commitCheck{member: r.MemberID, instance: r.InstanceID, epoch: r.Generation, version: r.Version, txn: true},
		group: r.Group, byID: r.Version >= txnCommitByID, expireMs: noExpiry,
		topics: make([]kmsg.OffsetCommitRequestTopic, len(r.Topics)),
	}
	for i, t := range r.Topics {
		c.topics[i].Topic, c.topics[i].TopicID = t.Topic, t.TopicID
		for _, x := range t.Partitions {
			c.topics[i].Partitions = append(c.topics[i].Partitions, kmsg.OffsetCommitRequestTopicPartition{
				Partition: x.Partition, Offset: x.Offset, LeaderEpoch: x.LeaderEpoch, Metadata: x.Metadata,
			})
		}
	}
	resp := r.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	topics, result := m.commit(now, p, c)
	for _, t := range topics {
		out := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, x := range t.Partitions {
			out.Partitions = append(out.Partitions,
				kmsg.TxnOffsetCommitResponseTopicPartition{Partition: x.Partition, ErrorCode: x.ErrorCode})
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(result.Records) > 0 {
		result.Stamp = &coordinator.Stamp{ID: kafka.ProducerID(r.ProducerID), Epoch: kafka.ProducerEpoch(r.ProducerEpoch)}
	}
	result.Replies = answer(p, resp)
	return result
}

// commit decides on each partition. As in Kafka topics come before the group: a request of unknown topics only never
// meets the group's errors.
func (m *Machine) commit(now time.Time, p *coordinator.Pending, c commit) ([]kmsg.OffsetCommitResponseTopic, coordinator.Result) {
	result := coordinator.Result{Scope: c.group}
	topics, known := m.commitTopics(p, c)
	out := make([]kmsg.OffsetCommitResponseTopic, len(c.topics))
	var judge func(kafka.UUID, int32) error
	var refused error
	if known {
		judge, result.Timers, refused = m.checkCommit(now, c)
	}
	limit := m.o.Settings().OffsetMetadataMaxBytes
	for i, t := range c.topics {
		out[i] = kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		out[i].Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			x := &t.Partitions[j]
			err := topics[i].err
			if err == nil {
				err = checkPartition(topics[i].topic, x, limit, refused, judge)
			}
			if err == nil {
				o := committed{
					offset: kafka.Offset(x.Offset), commitMs: now.UnixMilli(), expireMs: c.expireMs,
					topicID: topics[i].topic.ID, partition: x.Partition, leaderEpoch: kafka.LeaderEpoch(x.LeaderEpoch),
				}
				if x.Metadata != nil {
					o.metadata = *x.Metadata
				}
				result.Records = append(result.Records, offsetRecord(c.group, topics[i].topic.Name, &o))
			}
			if errors.Is(err, kafka.StaleMemberEpoch) && c.generationsOnly() {
				err = kafka.IllegalGeneration
			}
			out[i].Partitions[j].Partition = x.Partition
			out[i].Partitions[j].ErrorCode = int16(kafka.CodeOf(err))
		}
	}
	return out, result
}

// resolved is a topic of a request, or why it cannot be used.
type resolved struct {
	topic *metadata.Topic
	err   error
}

// commitTopics resolves the topics; known says whether any partition of them exists.
func (m *Machine) commitTopics(p *coordinator.Pending, c commit) (topics []resolved, known bool) {
	topics = make([]resolved, len(c.topics))
	for i, t := range c.topics {
		topics[i] = m.resolve(p, c.byID, t.Topic, t.TopicID)
		for j := 0; j < len(t.Partitions) && !known && topics[i].err == nil; j++ {
			_, known = topics[i].topic.Partition(t.Partitions[j].Partition)
		}
	}
	return topics, known
}

// resolve finds a topic by the request's way to name it.
func (m *Machine) resolve(p *coordinator.Pending, byID bool, name string, id kafka.UUID) resolved {
	t, ok := m.image.Topic(name)
	missing := kafka.UnknownTopicOrPartition
	if byID {
		t, ok = m.image.TopicByID(id)
		missing = kafka.UnknownTopicID
		if ok {
			name = t.Name
		}
	}
	switch {
	case byID && !ok:
		return resolved{err: missing}
	case p.Call.May != nil && !p.Call.May(name): // before a name's absence, which is not told to everybody
		return resolved{err: kafka.TopicAuthorizationFailed}
	case !ok:
		return resolved{err: missing}
	}
	return resolved{topic: t}
}

// checkCommit asks the group whether the caller may commit to it. A group that does not exist takes commits of nobody in
// particular: they make it.
func (m *Machine) checkCommit(now time.Time, c commit) (func(kafka.UUID, int32) error, []coordinator.Timer, error) {
	if c.check.txn && c.group == "" || len(c.group) > math.MaxInt16 {
		return nil, nil, kafka.InvalidGroupID
	}
	g := m.groups[c.group]
	switch {
	case g == nil && c.check.epoch < 0:
		return nil, nil, nil
	case g == nil && c.generationsOnly():
		return nil, nil, kafka.IllegalGeneration
	case g == nil:
		return nil, nil, kafka.GroupIDNotFound
	}
	return g.kind.checkCommit(now, c.check)
}

// generationsOnly says whether the request is of a version that knows the errors of the classic protocol only.
func (c *commit) generationsOnly() bool {
	if c.check.txn {
		return c.check.version < txnCommitByID
	}
	return c.check.version < commitGroupNotFound
}

func checkPartition(t *metadata.Topic, x *kmsg.OffsetCommitRequestTopicPartition, metadataLimit int, refused error,
	judge func(kafka.UUID, int32) error) error {
	if _, ok := t.Partition(x.Partition); !ok {
		return kafka.UnknownTopicOrPartition
	}
	if refused != nil {
		return refused
	}
	if judge != nil {
		if err := judge(t.ID, x.Partition); err != nil {
			return err
		}
	}
	if x.Metadata != nil && len(*x.Metadata) > metadataLimit &&
		(len(*x.Metadata) > maxMetadataBytes || javaLength(*x.Metadata) > metadataLimit) {
		return kafka.OffsetMetadataTooLarge
	}
	return nil
}

// javaLength is the length of a string as Kafka counts it against its limits: in UTF-16 units.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// answer replies to a request.
func answer(p *coordinator.Pending, body kmsg.Response) []coordinator.Reply {
	return []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: body}}}
}
