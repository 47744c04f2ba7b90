package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) alterPartitionRow() server.API {
	return server.API{Key: int16(kmsg.AlterPartition), Min: 2, Max: 3, Listener: server.ControllerListener, Internal: true,
		Handle: b.alterPartition}
}

// alterPartition is the controller's business.
func (b *Broker) alterPartition(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.AlterPartitionRequest), b.requestTimeout(), refuseAlterPartition)
}

func refuseAlterPartition(_ *kmsg.AlterPartitionRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrAlterPartitionResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}
