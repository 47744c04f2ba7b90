package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) brokerHeartbeatRow() server.API {
	return server.API{Key: int16(kmsg.BrokerHeartbeat), Min: 0, Max: 2, Listener: server.ControllerListener, Internal: true,
		Handle: b.brokerHeartbeat}
}

// brokerHeartbeat is the controller's business.
func (b *Broker) brokerHeartbeat(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.BrokerHeartbeatRequest), b.requestTimeout(), refuseBrokerHeartbeat)
}

func refuseBrokerHeartbeat(_ *kmsg.BrokerHeartbeatRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}
