package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

// consumerGroupHeartbeatRow is the whole membership of the consumer protocol (KIP-848): joining, telling what is owned,
// hearing what is assigned, and leaving.
func (b *Broker) consumerGroupHeartbeatRow() server.API {
	return server.API{Key: int16(kmsg.ConsumerGroupHeartbeat), Min: 0, Max: 1, Listener: server.BrokerListener,
		Handle: b.handleConsumerGroupHeartbeat}
}

func (b *Broker) handleConsumerGroupHeartbeat(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ConsumerGroupHeartbeatRequest)
	return coordinate(b, c, req.Group, req, func(_ *kmsg.ConsumerGroupHeartbeatRequest, err error) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		return resp
	})
}
