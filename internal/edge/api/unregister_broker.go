package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) unregisterBrokerRow() server.API {
	return server.API{Key: int16(kmsg.UnregisterBroker), Min: 0, Max: 0, Listener: server.BothListeners, Forward: true,
		Handle: b.unregisterBroker}
}

// unregisterBroker is the controller's business.
func (b *Broker) unregisterBroker(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.UnregisterBrokerRequest), b.requestTimeout(), refuseUnregisterBroker)
}

func refuseUnregisterBroker(_ *kmsg.UnregisterBrokerRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
