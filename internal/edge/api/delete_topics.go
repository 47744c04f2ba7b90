package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) deleteTopicsRow() server.API {
	return server.API{Key: int16(kmsg.DeleteTopics), Min: 1, Max: 6, Listener: server.BothListeners, Forward: true,
		Handle: b.deleteTopics}
}

// deleteTopics is the controller's business.
func (b *Broker) deleteTopics(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DeleteTopicsRequest)
	return forward(b, c, req, millis(req.TimeoutMillis), refuseDeleteTopics)
}

// refuseDeleteTopics names topics as the request did: by name up to version 5, by name or id from then on (KIP-516).
func refuseDeleteTopics(req *kmsg.DeleteTopicsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = name, id
		t.ErrorCode, t.ErrorMessage = codeAndMessage(err)
		resp.Topics = append(resp.Topics, t)
	}
	if req.Version < 6 {
		for i := range req.TopicNames {
			add(&req.TopicNames[i], [16]byte{})
		}
		return resp
	}
	for i := range req.Topics {
		add(req.Topics[i].Topic, req.Topics[i].TopicID)
	}
	return resp
}
