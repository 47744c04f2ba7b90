package diff

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// produce writes one batch, in one of the ways batch.go knows, to a topic.
func (g *gen) produce() Step {
	req := kmsg.NewPtrProduceRequest()
	g.version(req, 3, 13)
	req.Acks = often(g, int16(-1), 1, 0, 2, -2)
	req.TimeoutMillis = 5000
	name, part := g.topic(), g.partition()
	if name == "" {
		name = "missing"
	}
	b, kind := g.batch(name, part, req.Version)
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Partition = name, part
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return built(fmt.Sprintf("%q-%d acks %d %s", name, part, req.Acks, kind), req, func(w *World) {
		req.Topics[0].TopicID = w.id(name)
		req.Topics[0].Partitions[0].Records = b.build(w)
	})
}

func (g *gen) fetch() Step {
	req := kmsg.NewPtrFetchRequest()
	g.version(req, 4, 18)
	req.MaxWaitMillis, req.MinBytes = pick(g, int32(0), 20), pick(g, int32(0), 1, 100000)
	req.MaxBytes = often(g, int32(1<<20), 0, 1, 300)
	req.IsolationLevel = int8(g.IntN(2))
	req.SessionID, req.SessionEpoch = often(g, int32(0), 12345), often(g, int32(-1), 0, 3)
	name, p := g.topic(), kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset = g.partition(), often(g, int64(g.IntN(12)), -1, -2, 1<<40)
	p.PartitionMaxBytes = often(g, int32(1<<20), 0, 1, 200, -1)
	p.CurrentLeaderEpoch = often(g, int32(-1), 0, 7)
	p.LastFetchedEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = name, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	what := fmt.Sprintf("%q-%d at %d bytes %d/%d epoch %d session %d/%d", name, p.Partition, p.FetchOffset, req.MaxBytes,
		p.PartitionMaxBytes, p.CurrentLeaderEpoch, req.SessionID, req.SessionEpoch)
	return built(what, req, func(w *World) { req.Topics[0].TopicID = w.id(name) })
}

func (g *gen) listOffsets() Step {
	req := kmsg.NewPtrListOffsetsRequest()
	g.version(req, 1, 11)
	req.IsolationLevel = int8(g.IntN(2))
	req.ReplicaID = often(g, int32(-1), -2, 1)
	req.TimeoutMillis = 5000
	name, p := g.topic(), kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition = g.partition()
	p.Timestamp = pick(g, int64(-1), -2, -3, -4, -5, -6, -7, 0, stamp(0), stamp(3), stamp(100), 1<<60)
	p.CurrentLeaderEpoch = often(g, int32(-1), 0, 7)
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = name, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q-%d at %d epoch %d replica %d", name, p.Partition, p.Timestamp, p.CurrentLeaderEpoch, req.ReplicaID), req, false)
}

// stamp is the timestamp of the n-th minute of the data: fixed, so that seeds can be repeated.
func stamp(n int) int64 { return 1_700_000_000_000 + int64(n)*time.Minute.Milliseconds() }

func (g *gen) epochs() Step {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	g.version(req, 2, 4)
	req.ReplicaID = -2
	t, p := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	t.Topic, p.Partition = g.topic(), g.partition()
	p.LeaderEpoch, p.CurrentLeaderEpoch = pick(g, int32(0), 1, -1, 9), often(g, int32(-1), 0, 7)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q-%d epoch %d current %d", t.Topic, p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch), req, false)
}

func (g *gen) deleteRecords() Step {
	req := kmsg.NewPtrDeleteRecordsRequest()
	g.version(req, 0, 2)
	req.TimeoutMillis = 5000
	t, p := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	t.Topic, p.Partition = g.topic(), g.partition()
	p.Offset = often(g, int64(g.IntN(6)), -1, -2, 1<<40)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q-%d to %d", t.Topic, p.Partition, p.Offset), req, false)
}

func (g *gen) producers() Step {
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = g.topic(), []int32{g.partition()}
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q %v", t.Topic, t.Partitions), req, false)
}
