package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

// describeGroupsRow shows groups of the classic protocol with their members. A group of another kind is not found here.
func (b *Broker) describeGroupsRow() server.API {
	return server.API{Key: int16(kmsg.DescribeGroups), Min: 0, Max: 6, Listener: server.BrokerListener,
		Handle: b.handleDescribeGroups}
}

func (b *Broker) handleDescribeGroups(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeGroupsRequest)
	version, operations := req.Version, operationsIf(req.IncludeAuthorizedOperations, allGroupOperations)
	part := func(id string) kmsg.Request {
		one := kmsg.NewPtrDescribeGroupsRequest()
		one.Version, one.Groups = version, []string{id}
		return one
	}
	return eachGroup(b, c, req.Groups, part, func(ids []string, answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, 0, len(ids))
		for i, a := range answers {
			resp.Groups = append(resp.Groups, describedGroup(ids[i], a, operations))
		}
		return resp
	})
}

func describedGroup(id string, a coordinator.Answer, operations int32) kmsg.DescribeGroupsResponseGroup {
	g := kmsg.NewDescribeGroupsResponseGroup()
	if body, ok := a.Body.(*kmsg.DescribeGroupsResponse); ok && len(body.Groups) > 0 {
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
