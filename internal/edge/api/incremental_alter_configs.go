package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) incrementalAlterConfigsRow() server.API {
	return server.API{Key: int16(kmsg.IncrementalAlterConfigs), Min: 0, Max: 1, Listener: server.BothListeners,
		Forward: true, Handle: b.incrementalAlterConfigs}
}

// incrementalAlterConfigs carries out what concerns this broker alone (loggers) and passes the rest to the controller.
func (b *Broker) incrementalAlterConfigs(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.IncrementalAlterConfigsRequest))
	if err != nil {
		return answer(server.Reply{None: true, Close: true, Code: kafka.CodeOf(err)})
	}
	c.Lease.Release()
	all := make([]alteration, len(req.Resources))
	for i, x := range req.Resources {
		all[i].resource = resource{x.ResourceType, x.ResourceName}
	}
	b.screen(c, all)
	rest := *req
	rest.Resources = nil
	for i := range all {
		switch x := &req.Resources[i]; {
		case all[i].done:
		case x.ResourceType == kmsg.ConfigResourceTypeBrokerLogger:
			all[i].settle(b.alterLoggers(x.Configs, req.ValidateOnly))
		default:
			rest.Resources = append(rest.Resources, *x)
		}
	}
	if len(rest.Resources) == 0 {
		return answer(joinIncremental(all, nil, nil))
	}
	return promise.Map(b.controlWithin(c, &rest, b.requestTimeout()), func(r ControlReply) server.Reply {
		resp, _ := r.Body.(*kmsg.IncrementalAlterConfigsResponse)
		return joinIncremental(all, resp, r.Err)
	})
}

// joinIncremental lists the outcomes in the order of the request: the broker's own, the controller's, or why that gave
// none.
func joinIncremental(all []alteration, resp *kmsg.IncrementalAlterConfigsResponse, err error) server.Reply {
	out := kmsg.NewPtrIncrementalAlterConfigsResponse()
	told := map[resource]alteration{}
	if resp != nil {
		out.ThrottleMillis = resp.ThrottleMillis
		for _, x := range resp.Resources {
			r := resource{x.ResourceType, x.ResourceName}
			told[r] = alteration{r, true, x.ErrorCode, x.ErrorMessage}
		}
	}
	code := settleRest(all, told, err)
	for _, a := range all {
		x := kmsg.NewIncrementalAlterConfigsResponseResource()
		x.ResourceType, x.ResourceName, x.ErrorCode, x.ErrorMessage = a.kind, a.name, a.code, a.message
		out.Resources = append(out.Resources, x)
	}
	return server.Reply{Body: out, Code: code}
}
