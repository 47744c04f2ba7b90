package api

import (
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// maxGroups is how many groups one request may name: each becomes a request of its own to a coordinator, which the
// request's charge does not cover. More cost the sender the connection.
const maxGroups = 100_000

// maxOffsets is how many offsets one OffsetFetch may be answered; a long note beside an offset counts as more. A short
// request could ask for more than memory holds.
const maxOffsets = 1_000_000

// allGroupOperations are the operations on a group that a caller with every permission has (KIP-430).
var allGroupOperations = operations(kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
	kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs)

// callOf says to a coordinator who sent a request.
func callOf(c *server.Call) coordinator.Call {
	call := coordinator.Call{Principal: c.Principal, ClientID: c.ClientID, ClientHost: "/" + c.Conn.RemoteIP.String()}
	if c.Key == int16(kmsg.OffsetFetch) {
		call.Room = new(atomic.Int64)
		call.Room.Store(maxOffsets)
	}
	return call
}

// coordinate passes a request about one group to its coordinator. What has no response of its own is answered with what
// refuse makes of the reason. The answer comes whether or not the client still listens, as in Kafka.
func coordinate[R kmsg.Request](
	b *Broker, c *server.Call, group string, req R, refuse func(R, error) kmsg.Response,
) *promise.Promise[server.Reply] {
	return coordinateAt(b.Groups, c, group, req, refuse)
}

// coordinateAt is coordinate for the coordinators of a runtime; id is a group or a transactional id.
func coordinateAt[R kmsg.Request](
	at *coordinator.Runtime, c *server.Call, id string, req R, refuse func(R, error) kmsg.Response,
) *promise.Promise[server.Reply] {
	body, err := own(req)
	if err != nil {
		return answer(server.Reply{Body: refuse(req, err), Code: kafka.CodeOf(err)})
	}
	id = strings.Clone(id)
	c.Lease.Release()
	return promise.Map(at.Do(id, coordinator.NewPending(callOf(c), body)), func(a coordinator.Answer) server.Reply {
		return coordinated(a, func(err error) kmsg.Response { return refuse(body, err) })
	})
}

// coordinateTxn passes a request about a transactional id to its coordinator. An empty one is wrong wherever it is asked:
// no other node has to be found first.
func coordinateTxn[R kmsg.Request](b *Broker, c *server.Call, id string, req R, refuse func(R, error) kmsg.Response) *promise.Promise[server.Reply] {
	if id == "" {
		return answer(server.Reply{Body: refuse(req, kafka.InvalidRequest), Code: kafka.InvalidRequest})
	}
	return coordinateAt(b.Transactions, c, id, req, refuse)
}

func coordinated(a coordinator.Answer, refuse func(error) kmsg.Response) server.Reply {
	if a.Err == nil && a.Body == nil {
		a.Err = kafka.UnknownServerError
	}
	if a.Err != nil {
		return server.Reply{Body: refuse(a.Err), Code: kafka.CodeOf(a.Err)}
	}
	return server.Reply{Body: a.Body, Code: firstError(a.Body)}
}

// eachGroup passes a request about many groups to their coordinators, one by one, and joins the answers, which keep the
// order of the groups. part makes the request about the i-th group.
func eachGroup(
	b *Broker, c *server.Call, ids []string, part func(id string) kmsg.Request,
	join func(ids []string, answers []coordinator.Answer) kmsg.Response,
) *promise.Promise[server.Reply] {
	return eachAt(b.Groups, c, ids, part, join)
}

// eachAt is eachGroup for the coordinators of a runtime.
func eachAt(
	at *coordinator.Runtime, c *server.Call, ids []string, part func(id string) kmsg.Request,
	join func(ids []string, answers []coordinator.Answer) kmsg.Response,
) *promise.Promise[server.Reply] {
	if len(ids) > maxGroups {
		return hangUp()
	}
	call, owned := callOf(c), make([]string, len(ids))
	for i, id := range ids {
		owned[i] = strings.Clone(id)
	}
	parts := make([]*coordinator.Pending, len(ids))
	for i, id := range owned {
		parts[i] = coordinator.NewPending(call, part(id))
	}
	c.Lease.Release()
	answers := make([]*promise.Promise[coordinator.Answer], len(ids))
	for i, p := range parts {
		answers[i] = at.Do(owned[i], p)
	}
	return promise.Map(gather(answers), func(all []coordinator.Answer) server.Reply {
		for i := range all {
			if all[i].Err == nil && all[i].Body == nil {
				all[i].Err = kafka.UnknownServerError
			}
		}
		body := join(owned, all)
		return server.Reply{Body: body, Code: firstError(body)}
	})
}

// eachShard passes a request about all that this broker coordinates to each shard of a runtime, and joins the answers.
func eachShard[R kmsg.Request](
	at *coordinator.Runtime, c *server.Call, r R, join func([]coordinator.Answer) (kmsg.Response, kafka.Code),
) *promise.Promise[server.Reply] {
	reply := func(all []coordinator.Answer) server.Reply {
		body, code := join(all)
		return server.Reply{Body: body, Code: code}
	}
	req, err := own(r)
	if err != nil {
		return answer(reply([]coordinator.Answer{{Err: err}}))
	}
	call := callOf(c)
	c.Lease.Release()
	parts := at.Each(func() *coordinator.Pending { return coordinator.NewPending(call, req) })
	return promise.Map(gather(parts), reply)
}

// joinShards takes the answers of shards together with take, which gives a response's own error. It stops at the first
// error and gives that. A shard that has just moved to another broker is listed there.
func joinShards[B kmsg.Response](parts []coordinator.Answer, take func(body B) int16) kafka.Code {
	for _, a := range parts {
		code := kafka.CodeOf(a.Err)
		if code == kafka.NotCoordinator {
			continue
		}
		if a.Err == nil {
			code = kafka.UnknownServerError
			if body, ok := a.Body.(B); ok {
				code = kafka.Code(take(body))
			}
		}
		if code != kafka.None {
			return code
		}
	}
	return kafka.None
}

// gather is set with all values once every promise is.
func gather[T any](all []*promise.Promise[T]) *promise.Promise[[]T] {
	out := &promise.Promise[[]T]{}
	values := make([]T, len(all))
	if len(all) == 0 {
		out.Set(values)
		return out
	}
	var left atomic.Int64
	left.Store(int64(len(all)))
	for i, p := range all {
		p.OnDone(func(v T) {
			values[i] = v
			if left.Add(-1) == 0 {
				out.Set(values)
			}
		})
	}
	return out
}
