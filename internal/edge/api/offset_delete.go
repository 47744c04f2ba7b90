package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// offsetDeleteRow forgets offsets of a group, of topics that it does not consume at the moment (KIP-496).
func (b *Broker) offsetDeleteRow() server.API {
	return server.API{Key: int16(kmsg.OffsetDelete), Min: 0, Max: 0, Listener: server.BrokerListener,
		Handle: b.handleOffsetDelete}
}

func (b *Broker) handleOffsetDelete(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.OffsetDeleteRequest)
	return coordinate(b, c, req.Group, req, func(_ *kmsg.OffsetDeleteRequest, err error) kmsg.Response {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = int16(kafka.CodeOf(err))
		return resp
	})
}
