package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

// deleteGroupsRow deletes groups without members, and their offsets. A group that is named twice is answered once.
func (b *Broker) deleteGroupsRow() server.API {
	return server.API{Key: int16(kmsg.DeleteGroups), Min: 0, Max: 3, Listener: server.BrokerListener,
		Handle: b.handleDeleteGroups}
}

func (b *Broker) handleDeleteGroups(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DeleteGroupsRequest)
	version := req.Version
	part := func(id string) kmsg.Request {
		one := kmsg.NewPtrDeleteGroupsRequest()
		one.Version, one.Groups = version, []string{id}
		return one
	}
	return eachGroup(b, c, distinct(req.Groups), part, func(ids []string, answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, 0, len(ids))
		for i, a := range answers {
			g := kmsg.NewDeleteGroupsResponseGroup()
			if body, ok := a.Body.(*kmsg.DeleteGroupsResponse); ok && len(body.Groups) > 0 {
				g = body.Groups[0]
			} else {
				g.ErrorCode, g.ErrorMessage = codeAndMessage(a.Err)
			}
			g.Group = ids[i]
			resp.Groups = append(resp.Groups, g)
		}
		return resp
	})
}

// distinct leaves out what stands there again.
func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}
