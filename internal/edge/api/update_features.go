package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) updateFeaturesRow() server.API {
	return server.API{Key: int16(kmsg.UpdateFeatures), Min: 0, Max: 2, Listener: server.BothListeners, Forward: true,
		Handle: b.updateFeatures}
}

// updateFeatures is the controller's business.
func (b *Broker) updateFeatures(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.UpdateFeaturesRequest)
	timeout := millis(req.TimeoutMillis)
	if timeout == 0 {
		timeout = b.requestTimeout() // Kafka never heeds this timeout
	}
	return forward(b, c, req, timeout, refuseUpdateFeatures)
}

func refuseUpdateFeatures(_ *kmsg.UpdateFeaturesRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
