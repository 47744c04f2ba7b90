package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// describeProducersRow lists the producer ids that partitions know (KIP-664).
func (b *Broker) describeProducersRow() server.API {
	return server.API{Key: int16(kmsg.DescribeProducers), Min: 0, Max: 0, Listener: server.BrokerListener,
		Handle: b.handleDescribeProducers}
}

func (b *Broker) handleDescribeProducers(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeProducersRequest)
	image := b.Image()
	resp := kmsg.NewPtrDescribeProducersResponse()
	resp.Topics = make([]kmsg.DescribeProducersResponseTopic, 0, len(req.Topics))
	var first kafka.Code
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.DescribeProducersResponseTopic{Topic: strings.Clone(t.Topic),
			Partitions: make([]kmsg.DescribeProducersResponseTopicPartition, 0, len(t.Partitions))}
		for _, index := range t.Partitions {
			p := b.describeProducers(image, kafka.TopicPartition{Topic: t.Topic, Partition: index})
			if first == 0 {
				first = kafka.Code(p.ErrorCode)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return answer(server.Reply{Body: resp, Code: first})
}

func (b *Broker) describeProducers(
	image *metadata.Image, tp kafka.TopicPartition,
) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = tp.Partition
	part, err := b.partition(image, tp)
	if err != nil {
		if bad := checkTopicName(tp.Topic); bad != nil {
			err = bad
		}
		out.ErrorCode = int16(kafka.CodeOf(err))
		return out
	}
	producers, err := part.Producers()
	if err != nil {
		out.ErrorCode = int16(kafka.CodeOf(err))
		return out
	}
	out.ActiveProducers = make([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, 0, len(producers))
	for _, p := range producers {
		out.ActiveProducers = append(out.ActiveProducers, kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
			ProducerID: int64(p.ProducerID), ProducerEpoch: int32(p.Epoch), LastSequence: p.LastSequence,
			LastTimestamp: p.LastTimestampMs, CoordinatorEpoch: p.CoordinatorEpoch,
			CurrentTxnStartOffset: int64(p.TxnStart),
		})
	}
	return out
}
