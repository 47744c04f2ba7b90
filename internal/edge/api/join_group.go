package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// joinGroupRow lets a member join a group of the classic protocol; the answer comes when the rebalance that it takes part
// in has gathered the members.
func (b *Broker) joinGroupRow() server.API {
	return server.API{Key: int16(kmsg.JoinGroup), Min: 0, Max: 9, Listener: server.BrokerListener, Handle: b.handleJoinGroup}
}

func (b *Broker) handleJoinGroup(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.JoinGroupRequest)
	return coordinate(b, c, req.Group, req, refuseJoin)
}

func refuseJoin(req *kmsg.JoinGroupRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.MemberID = int16(kafka.CodeOf(err)), -1, req.MemberID
	return resp
}
