package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// heartbeatRow keeps the session of a member of the classic protocol alive and tells it of rebalances. While the
// coordinator still loads nothing is known about the member, and it is told that all is well.
func (b *Broker) heartbeatRow() server.API {
	return server.API{Key: int16(kmsg.Heartbeat), Min: 0, Max: 4, Listener: server.BrokerListener, Handle: b.handleHeartbeat}
}

func (b *Broker) handleHeartbeat(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.HeartbeatRequest)
	return coordinate(b, c, req.Group, req, func(_ *kmsg.HeartbeatRequest, err error) kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		if code := kafka.CodeOf(err); code != kafka.CoordinatorLoadInProgress {
			resp.ErrorCode = int16(code)
		}
		return resp
	})
}
