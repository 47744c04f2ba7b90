package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// offsetForLeaderEpochRow answers where leader epochs end, by which readers find out that a log was cut
// (KIP-320). An epoch that the log never had is no error.
func (b *Broker) offsetForLeaderEpochRow() server.API {
	return server.API{Key: int16(kmsg.OffsetForLeaderEpoch), Min: 2, Max: 4, Listener: server.BrokerListener,
		Handle: b.handleOffsetForLeaderEpoch}
}

func (b *Broker) handleOffsetForLeaderEpoch(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.OffsetForLeaderEpochRequest)
	image := b.Image()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, 0, len(req.Topics))
	var first kafka.Code
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.OffsetForLeaderEpochResponseTopic{Topic: strings.Clone(t.Topic),
			Partitions: make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, 0, len(t.Partitions))}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			epoch, end := kafka.NoEpoch, kafka.NoOffset
			part, err := b.partition(image, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if err == nil {
				epoch, end, err = part.EndOffsetForEpoch(kafka.LeaderEpoch(p.CurrentLeaderEpoch),
					kafka.LeaderEpoch(p.LeaderEpoch))
			}
			if err != nil {
				epoch, end = kafka.NoEpoch, kafka.NoOffset
			}
			code := kafka.CodeOf(err)
			if first == 0 {
				first = code
			}
			out.Partitions = append(out.Partitions, kmsg.OffsetForLeaderEpochResponseTopicPartition{
				ErrorCode: int16(code), Partition: p.Partition, LeaderEpoch: int32(epoch), EndOffset: int64(end)})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return answer(server.Reply{Body: resp, Code: first})
}
