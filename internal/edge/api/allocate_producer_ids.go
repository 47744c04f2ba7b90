package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) allocateProducerIDsRow() server.API {
	return server.API{Key: int16(kmsg.AllocateProducerIDs), Min: 0, Max: 0, Listener: server.ControllerListener, Internal: true,
		Handle: b.allocateProducerIDs}
}

// allocateProducerIDs is the controller's business.
func (b *Broker) allocateProducerIDs(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.AllocateProducerIDsRequest), b.requestTimeout(), refuseAllocateProducerIDs)
}

func refuseAllocateProducerIDs(_ *kmsg.AllocateProducerIDsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}
