package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// leaveGroupRow takes members out of a group of the classic protocol: the sender, or from version 3 on a list of members,
// static ones by their instance id (KIP-345).
func (b *Broker) leaveGroupRow() server.API {
	return server.API{Key: int16(kmsg.LeaveGroup), Min: 0, Max: 5, Listener: server.BrokerListener, Handle: b.handleLeaveGroup}
}

func (b *Broker) handleLeaveGroup(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.LeaveGroupRequest)
	return coordinate(b, c, req.Group, req, func(_ *kmsg.LeaveGroupRequest, err error) kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = int16(kafka.CodeOf(err))
		return resp
	})
}
