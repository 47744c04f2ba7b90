package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) createPartitionsRow() server.API {
	return server.API{Key: int16(kmsg.CreatePartitions), Min: 0, Max: 3, Listener: server.BothListeners, Forward: true,
		Handle: b.createPartitions}
}

// createPartitions is the controller's business.
func (b *Broker) createPartitions(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.CreatePartitionsRequest)
	return forward(b, c, req, millis(req.TimeoutMillis), refuseCreatePartitions)
}

func refuseCreatePartitions(req *kmsg.CreatePartitionsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for i := range req.Topics {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = req.Topics[i].Topic
		t.ErrorCode, t.ErrorMessage = codeAndMessage(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
