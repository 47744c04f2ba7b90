package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) assignReplicasToDirsRow() server.API {
	return server.API{Key: int16(kmsg.AssignReplicasToDirs), Min: 0, Max: 0, Listener: server.ControllerListener, Internal: true,
		Handle: b.assignReplicasToDirs}
}

// assignReplicasToDirs is the controller's business.
func (b *Broker) assignReplicasToDirs(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.AssignReplicasToDirsRequest), b.requestTimeout(), refuseAssignReplicasToDirs)
}

func refuseAssignReplicasToDirs(_ *kmsg.AssignReplicasToDirsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}
