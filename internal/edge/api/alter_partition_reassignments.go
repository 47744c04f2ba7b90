package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) alterPartitionReassignmentsRow() server.API {
	return server.API{Key: int16(kmsg.AlterPartitionAssignments), Min: 0, Max: 1, Listener: server.BothListeners,
		Forward: true, Handle: b.alterPartitionReassignments}
}

// alterPartitionReassignments is the controller's business.
func (b *Broker) alterPartitionReassignments(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.AlterPartitionAssignmentsRequest)
	return forward(b, c, req, millis(req.TimeoutMillis), refuseReassignments)
}

func refuseReassignments(req *kmsg.AlterPartitionAssignmentsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	code, message := codeAndMessage(err)
	resp.ErrorCode, resp.ErrorMessage = code, message
	for i := range req.Topics {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, asked := range req.Topics[i].Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = asked.Partition, code, message
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
