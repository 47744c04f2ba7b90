package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) alterConfigsRow() server.API {
	return server.API{Key: int16(kmsg.AlterConfigs), Min: 0, Max: 2, Listener: server.BothListeners, Forward: true,
		Handle: b.alterConfigs}
}

// alterConfigs replaces whole configurations: the controller's business, but for what is asked of the wrong broker.
// Loggers have no whole configuration.
func (b *Broker) alterConfigs(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.AlterConfigsRequest))
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
			all[i].refuse(kafka.Errorf(kafka.InvalidRequest, "loggers are altered one by one, with IncrementalAlterConfigs"))
		default:
			rest.Resources = append(rest.Resources, *x)
		}
	}
	if len(rest.Resources) == 0 {
		return answer(joinReplaced(all, nil, nil))
	}
	return promise.Map(b.controlWithin(c, &rest, b.requestTimeout()), func(r ControlReply) server.Reply {
		resp, _ := r.Body.(*kmsg.AlterConfigsResponse)
		return joinReplaced(all, resp, r.Err)
	})
}

// joinReplaced lists the outcomes in the order of the request.
func joinReplaced(all []alteration, resp *kmsg.AlterConfigsResponse, err error) server.Reply {
	out := kmsg.NewPtrAlterConfigsResponse()
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
		x := kmsg.NewAlterConfigsResponseResource()
		x.ResourceType, x.ResourceName, x.ErrorCode, x.ErrorMessage = a.kind, a.name, a.code, a.message
		out.Resources = append(out.Resources, x)
	}
	return server.Reply{Body: out, Code: code}
}
