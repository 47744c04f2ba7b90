package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// listOffsetsRow answers ListOffsets. Nothing here waits for other nodes or for tiered storage, so that the
// request's timeout (KIP-1075) never ends anything.
func (b *Broker) listOffsetsRow() server.API {
	return server.API{Key: int16(kmsg.ListOffsets), Min: 1, Max: 11, Listener: server.BrokerListener,
		Handle: b.handleListOffsets}
}

func (b *Broker) handleListOffsets(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ListOffsetsRequest)
	image := b.Image()
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, 0, len(req.Topics))
	named := newListOffsetsNamed(req)
	var first kafka.Code
	for i := range req.Topics {
		t := &req.Topics[i]
		known, ok := image.Topic(t.Topic)
		name := ""
		if ok {
			name = known.Name
		} else {
			name = strings.Clone(t.Topic)
		}
		out := kmsg.ListOffsetsResponseTopic{Topic: name,
			Partitions: make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(t.Partitions))}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			at, err := replica.OffsetAt{Offset: kafka.NoOffset, TimestampMs: -1, Epoch: kafka.NoEpoch}, error(nil)
			times := named.take(t.Topic, p.Partition)
			if times == 0 {
				continue // told already
			}
			switch {
			case times > 1:
				err = kafka.InvalidRequest
			case p.Timestamp < 0 && req.Version < specialTimestampSince(p.Timestamp):
				err = kafka.UnsupportedVersion // whether the partition is there or not
			case !ok:
				err = kafka.UnknownTopicOrPartition
			default:
				at, err = b.listOffset(known, req, p)
			}
			code := kafka.CodeOf(err)
			if first == 0 {
				first = code
			}
			out.Partitions = append(out.Partitions, listedOffset(p.Partition, at, code))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return answer(server.Reply{Body: resp, Code: first})
}

func (b *Broker) listOffset(
	t *metadata.Topic, req *kmsg.ListOffsetsRequest, p *kmsg.ListOffsetsRequestTopicPartition,
) (replica.OffsetAt, error) {
	none := replica.OffsetAt{Offset: kafka.NoOffset, TimestampMs: -1, Epoch: kafka.NoEpoch}
	part, err := b.partitionOf(t, p.Partition)
	if err != nil {
		return none, err
	}
	return part.ListOffset(replica.OffsetSpec{
		TimestampMs: p.Timestamp, Replica: replicaOf(req.ReplicaID), ReadCommitted: req.IsolationLevel == 1,
		LeaderEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch),
	})
}

// replicaOf turns a request's replica id into who asks: negative ids are consumers and tools.
func replicaOf(id int32) kafka.NodeID {
	if id < 0 {
		return kafka.NoNode
	}
	return kafka.NodeID(id)
}

// specialTimestampSince is the first version that knows a negative timestamp (KIP-734, 405, 1005, 1023).
func specialTimestampSince(timestamp int64) int16 {
	switch timestamp {
	case replica.LatestOffset, replica.EarliestOffset:
		return 1
	case replica.MaxTimestampOffset:
		return 7
	case replica.EarliestLocal:
		return 8
	case replica.LatestTiered:
		return 9
	case replica.EarliestPendingCopy:
		return 11
	}
	return 12 // none yet
}

// listedOffset makes the answer; version 0 and its list of offsets are gone.
func listedOffset(partition int32, at replica.OffsetAt, code kafka.Code) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.ErrorCode = partition, int16(code)
	out.Offset, out.Timestamp, out.LeaderEpoch = int64(at.Offset), at.TimestampMs, int32(at.Epoch)
	return out
}

// listOffsetsNamed counts how often a request names a partition: several times is an error, which is told
// once. It is nil for the ordinary request of one partition.
type listOffsetsNamed map[kafka.TopicPartition]int

func newListOffsetsNamed(req *kmsg.ListOffsetsRequest) listOffsetsNamed {
	if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 {
		return nil
	}
	out := listOffsetsNamed{}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			out[kafka.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]++
		}
	}
	return out
}

// take gives the count the first time a partition is asked for, and 0 from then on.
func (n listOffsetsNamed) take(topic string, partition int32) int {
	if n == nil {
		return 1
	}
	tp := kafka.TopicPartition{Topic: topic, Partition: partition}
	count := n[tp]
	n[tp] = 0
	return count
}
