package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// offsetFetchRow tells the offsets that groups have committed. Versions from 8 on ask for many groups (KIP-709), from 9 on
// in the name of a member, and version 10 names topics by id.
func (b *Broker) offsetFetchRow() server.API {
	return server.API{Key: int16(kmsg.OffsetFetch), Min: 1, Max: 10, Listener: server.BrokerListener,
		Handle: b.handleOffsetFetch}
}

func (b *Broker) handleOffsetFetch(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.OffsetFetchRequest)
	if req.Version < 8 {
		return coordinate(b, c, req.Group, req, refuseOffsets)
	}
	owned, err := own(req)
	if err != nil {
		return answer(server.Reply{Body: fetchedOffsets(req.Groups, nil, err), Code: kafka.CodeOf(err)})
	}
	ids := make([]string, 0, len(owned.Groups))
	for i := range owned.Groups {
		ids = append(ids, owned.Groups[i].Group)
	}
	next := 0
	part := func(string) kmsg.Request {
		one := kmsg.NewPtrOffsetFetchRequest()
		one.Version, one.RequireStable, one.Groups = owned.Version, owned.RequireStable, owned.Groups[next:next+1:next+1]
		next++
		return one
	}
	return eachGroup(b, c, ids, part, func(_ []string, answers []coordinator.Answer) kmsg.Response {
		return fetchedOffsets(owned.Groups, answers, nil)
	})
}

// fetchedOffsets joins the answers about single groups; without answers every group has the same error.
func fetchedOffsets(groups []kmsg.OffsetFetchRequestGroup, answers []coordinator.Answer, err error) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, 0, len(groups))
	for i := range groups {
		a := coordinator.Answer{Err: err}
		if answers != nil {
			a = answers[i]
		}
		g := kmsg.NewOffsetFetchResponseGroup()
		if body, ok := a.Body.(*kmsg.OffsetFetchResponse); ok && len(body.Groups) > 0 {
			g = body.Groups[0]
		} else {
			g.ErrorCode = int16(kafka.CodeOf(a.Err))
		}
		g.Group = strings.Clone(groups[i].Group)
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

// refuseOffsets answers with an error. Version 1 has room for it beside each partition only.
func refuseOffsets(req *kmsg.OffsetFetchRequest, err error) kmsg.Response {
	code := int16(kafka.CodeOf(err))
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = code
	if req.Version >= 2 {
		return resp
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic,
			Partitions: make([]kmsg.OffsetFetchResponseTopicPartition, 0, len(t.Partitions))}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p,
				Offset: int64(kafka.NoOffset), LeaderEpoch: int32(kafka.NoEpoch), Metadata: new(string), ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
