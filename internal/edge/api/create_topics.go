package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) createTopicsRow() server.API {
	return server.API{Key: int16(kmsg.CreateTopics), Min: 2, Max: 7, Listener: server.BothListeners, Forward: true,
		Handle: b.createTopics}
}

// createTopics is the controller's business.
func (b *Broker) createTopics(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.CreateTopicsRequest)
	return forward(b, c, req, millis(req.TimeoutMillis), refuseCreateTopics)
}

func refuseCreateTopics(req *kmsg.CreateTopicsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	for i := range req.Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.Configs = req.Topics[i].Topic, []kmsg.CreateTopicsResponseTopicConfig{}
		t.NumPartitions, t.ReplicationFactor = -1, -1
		t.ErrorCode, t.ErrorMessage = codeAndMessage(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
