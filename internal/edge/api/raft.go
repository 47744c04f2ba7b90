package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// raft answers the requests that replicas of the metadata log send each other (KIP-595, 630, 853): they are for this
// node's replica. One that gets no answer, because the replica has stopped or has too much to do, costs the connection:
// its peer tries again.
func (b *Broker) raft(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	body, err := own(r)
	if err != nil {
		return hangUp()
	}
	c.Lease.Release()
	return promise.Map(b.Raft(body), func(resp kmsg.Response) server.Reply {
		if resp == nil {
			return server.Reply{None: true, Close: true, Code: kafka.BrokerNotAvailable}
		}
		return server.Reply{Body: resp}
	})
}

// changeVoters answers AddRaftVoter and RemoveRaftVoter: the leader of the quorum changes the voters. A broker passes the
// request on to it.
func (b *Broker) changeVoters(
	c *server.Call, r kmsg.Request, refuse func(kmsg.Request, error) kmsg.Response,
) *promise.Promise[server.Reply] {
	if c.Conn.Kind == server.ControllerListener {
		return b.raft(c, r)
	}
	return forward(b, c, r, b.requestTimeout(), refuse)
}
