package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// deleteRecordsRow moves the start of logs (KIP-107). The answer is the low watermark that the leader
// knows; it does not wait for followers yet, so the timeout never ends anything on a node that has none.
func (b *Broker) deleteRecordsRow() server.API {
	return server.API{Key: int16(kmsg.DeleteRecords), Min: 0, Max: 2, Listener: server.BrokerListener,
		Handle: b.handleDeleteRecords}
}

func (b *Broker) handleDeleteRecords(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, 0, len(req.Topics))
	var first kafka.Code
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.DeleteRecordsResponseTopic{Topic: strings.Clone(t.Topic),
			Partitions: make([]kmsg.DeleteRecordsResponseTopicPartition, 0, len(t.Partitions))}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			low, err := b.deleteRecords(c, t.Topic, p)
			code := kafka.CodeOf(err)
			if first == 0 {
				first = code
			}
			out.Partitions = append(out.Partitions, kmsg.DeleteRecordsResponseTopicPartition{
				Partition: p.Partition, LowWatermark: int64(low), ErrorCode: int16(code)})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return answer(server.Reply{Body: resp, Code: first})
}

func (b *Broker) deleteRecords(
	c *server.Call, topic string, p *kmsg.DeleteRecordsRequestTopicPartition,
) (kafka.Offset, error) {
	part, err := b.partition(b.Image(), kafka.TopicPartition{Topic: topic, Partition: p.Partition})
	switch {
	case err != nil:
		return kafka.NoOffset, err
	case isInternal(topic):
		return kafka.NoOffset, kafka.InvalidTopicException
	}
	low, e, err := part.DeleteRecords(c.Now, kafka.Offset(p.Offset))
	e.Run(b.Host)
	return low, err
}
