package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) listPartitionReassignmentsRow() server.API {
	return server.API{Key: int16(kmsg.ListPartitionReassignments), Min: 0, Max: 0, Listener: server.BothListeners,
		Forward: true, Handle: b.listPartitionReassignments}
}

// listPartitionReassignments asks the controller, so that who has just started a move sees it.
func (b *Broker) listPartitionReassignments(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ListPartitionReassignmentsRequest)
	timeout := millis(req.TimeoutMillis)
	if timeout == 0 {
		timeout = b.requestTimeout() // Kafka never heeds this timeout
	}
	return forward(b, c, req, timeout, refuseListReassignments)
}

func refuseListReassignments(_ *kmsg.ListPartitionReassignmentsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
