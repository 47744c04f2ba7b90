package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) brokerRegistrationRow() server.API {
	return server.API{Key: int16(kmsg.BrokerRegistration), Min: 0, Max: 4, Listener: server.ControllerListener, Internal: true,
		Handle: b.brokerRegistration}
}

// brokerRegistration is the controller's business.
func (b *Broker) brokerRegistration(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return forward(b, c, r.(*kmsg.BrokerRegistrationRequest), b.requestTimeout(), refuseBrokerRegistration)
}

func refuseBrokerRegistration(_ *kmsg.BrokerRegistrationRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrBrokerRegistrationResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}
