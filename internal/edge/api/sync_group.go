package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// syncGroupRow gives a member its assignment, once the leader of the group has sent everybody's.
func (b *Broker) syncGroupRow() server.API {
	return server.API{Key: int16(kmsg.SyncGroup), Min: 0, Max: 5, Listener: server.BrokerListener, Handle: b.handleSyncGroup}
}

func (b *Broker) handleSyncGroup(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.SyncGroupRequest)
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) { // what group it is does not matter then
		return answer(server.Reply{Body: refuseSync(req, kafka.InconsistentGroupProtocol), Code: kafka.InconsistentGroupProtocol})
	}
	return coordinate(b, c, req.Group, req, refuseSync)
}

func refuseSync(_ *kmsg.SyncGroupRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = int16(kafka.CodeOf(err)), []byte{}
	return resp
}
