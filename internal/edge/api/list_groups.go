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
	return eachShard(b.Groups, c, r.(*kmsg.ListGroupsRequest), listedGroups)
}

func listedGroups(parts []coordinator.Answer) (kmsg.Response, kafka.Code) {
	resp := kmsg.NewPtrListGroupsResponse()
	code := joinShards(parts, func(body *kmsg.ListGroupsResponse) int16 {
		resp.Groups = append(resp.Groups, body.Groups...)
		return body.ErrorCode
	})
	if code != kafka.None {
		resp.ErrorCode, resp.Groups = int16(code), nil
	}
	return resp, code
}
