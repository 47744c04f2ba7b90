package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

// consumerGroupDescribeRow shows groups of the consumer protocol with their members (KIP-848). A group of another kind is
// not found here.
func (b *Broker) consumerGroupDescribeRow() server.API {
	return server.API{Key: int16(kmsg.ConsumerGroupDescribe), Min: 0, Max: 1, Listener: server.BrokerListener,
		Handle: b.handleConsumerGroupDescribe}
}

func (b *Broker) handleConsumerGroupDescribe(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ConsumerGroupDescribeRequest)
	version, operations := req.Version, operationsIf(req.IncludeAuthorizedOperations, allGroupOperations)
	part := func(id string) kmsg.Request {
		one := kmsg.NewPtrConsumerGroupDescribeRequest()
		one.Version, one.Groups = version, []string{id}
		return one
	}
	return eachGroup(b, c, req.Groups, part, func(ids []string, answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupDescribeResponse()
		resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, 0, len(ids))
		for i, a := range answers {
			resp.Groups = append(resp.Groups, describedConsumerGroup(ids[i], a, operations))
		}
		return resp
	})
}

func describedConsumerGroup(id string, a coordinator.Answer, operations int32) kmsg.ConsumerGroupDescribeResponseGroup {
	g := kmsg.NewConsumerGroupDescribeResponseGroup()
	if body, ok := a.Body.(*kmsg.ConsumerGroupDescribeResponse); ok && len(body.Groups) > 0 {
		g = body.Groups[0]
	} else {
		g.ErrorCode, g.ErrorMessage = codeAndMessage(a.Err)
	}
	g.Group, g.AuthorizedOperations = id, notAsked
	if g.ErrorCode == 0 {
		g.AuthorizedOperations = operations
	}
	return g
}
