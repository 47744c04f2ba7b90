package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) controllerRegistrationRow() server.API {
	return server.API{Key: int16(kmsg.ControllerRegistration), Min: 0, Max: 0, Listener: server.ControllerListener, Internal: true,
		Handle: b.controllerRegistration}
}

// controllerRegistration is the controller's business.
func (b *Broker) controllerRegistration(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.ControllerRegistrationRequest), b.requestTimeout(), refuseControllerRegistration)
}

func refuseControllerRegistration(_ *kmsg.ControllerRegistrationRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrControllerRegistrationResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
