package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// offsetCommitRow stores how far a group has come. Version 10 names topics by id, so that a topic that was deleted and
// made again does not inherit offsets (KIP-848).
func (b *Broker) offsetCommitRow() server.API {
	return server.API{Key: int16(kmsg.OffsetCommit), Min: 2, Max: 10, Listener: server.BrokerListener,
		Handle: b.handleOffsetCommit}
}

func (b *Broker) handleOffsetCommit(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.OffsetCommitRequest)
	return coordinate(b, c, req.Group, req, refuseCommit)
}

// refuseCommit answers every partition with the same error: the response has none of its own.
func refuseCommit(req *kmsg.OffsetCommitRequest, err error) kmsg.Response {
	code := int16(kafka.CodeOf(err))
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID,
			Partitions: make([]kmsg.OffsetCommitResponseTopicPartition, 0, len(t.Partitions))}
		for j := range t.Partitions {
			out.Partitions = append(out.Partitions,
				kmsg.OffsetCommitResponseTopicPartition{Partition: t.Partitions[j].Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
