package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) electLeadersRow() server.API {
	return server.API{Key: int16(kmsg.ElectLeaders), Min: 0, Max: 2, Listener: server.BothListeners, Forward: true,
		Handle: b.electLeaders}
}

// electLeaders is the controller's business.
func (b *Broker) electLeaders(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ElectLeadersRequest)
	return forward(b, c, req, millis(req.TimeoutMillis), refuseElectLeaders)
}

// refuseElectLeaders puts the error beside every partition too: version 0 has no other place.
func refuseElectLeaders(req *kmsg.ElectLeadersRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrElectLeadersResponse()
	code, message := codeAndMessage(err)
	resp.ErrorCode = code
	for i := range req.Topics {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, index := range req.Topics[i].Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = index, code, message
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
