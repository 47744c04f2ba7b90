package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// listGroupsRow lists the groups that this broker coordinates, of all kinds, filtered by state (KIP-518) and type
// (KIP-848). A client asks every broker. While a part of the groups is being loaded the list would be short, so the
// answer is an error that clients repeat; a part that has just moved to another broker is listed there.
func (b *Broker) listGroupsRow() server.API {
	return server.API{Key: int16(kmsg.ListGroups), Min: 0, Max: 5, Listener: server.BrokerListener, Handle: b.handleListGroups}
}

func (b *Broker) handleListGroups(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.ListGroupsRequest))
	if err != nil {
		return answer(server.Reply{Body: listedGroups([]coordinator.Answer{{Err: err}}), Code: kafka.CodeOf(err)})
	}
	call := callOf(c)
	c.Lease.Release()
	parts := b.Groups.Each(func() *coordinator.Pending { return coordinator.NewPending(call, req) })
	return promise.Map(gather(parts), func(all []coordinator.Answer) server.Reply {
		resp := listedGroups(all)
		return server.Reply{Body: resp, Code: kafka.Code(resp.ErrorCode)}
	})
}

func listedGroups(parts []coordinator.Answer) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	for _, a := range parts {
		body, ok := a.Body.(*kmsg.ListGroupsResponse)
		switch code := kafka.CodeOf(a.Err); {
		case code == kafka.NotCoordinator:
			continue
		case a.Err == nil && ok && body.ErrorCode == 0:
			resp.Groups = append(resp.Groups, body.Groups...)
			continue
		case a.Err == nil && ok:
			resp.ErrorCode = body.ErrorCode
		case a.Err == nil:
			resp.ErrorCode = int16(kafka.UnknownServerError)
		default:
			resp.ErrorCode = int16(code)
		}
		resp.Groups = nil
		return resp
	}
	return resp
}
