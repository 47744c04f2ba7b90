package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) unregisterControllerRow() server.API {
	return server.API{Key: int16(kmsg.UnregisterController), Min: 0, Max: 0, Listener: server.BothListeners, Forward: true,
		Handle: b.unregisterController}
}

// unregisterController is the controller's business.
func (b *Broker) unregisterController(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.UnregisterControllerRequest), b.requestTimeout(), refuseUnregisterController)
}

func refuseUnregisterController(_ *kmsg.UnregisterControllerRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrUnregisterControllerResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
