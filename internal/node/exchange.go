package node

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"moldau/internal/cluster/quorum"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// maxInbound bounds the requests of peers that wait for an answer of this node's replica: each follower has one Fetch
// parked, and little else at a time.
const maxInbound = 1024

// inboundPatience is after how long a request of a peer is given up. The replica parks none that long; one that it
// dropped would hold up its connection for ever.
const inboundPatience = 10 * time.Second

// exchange carries what the replicas of the metadata log say to each other. Everything but the office belongs to the
// control loop. A nil exchange, that of a lone node, carries nothing.
type exchange struct {
	// send gives a request to a peer; done hears the answer or that there will be none. It must not block.
	send func(m quorum.Message, done func(quorum.Body, error))
	// listener is the name of the listener that the quorum talks over.
	listener string

	last    uint64
	inbound map[uint64]inbound

	mu       sync.Mutex
	office   office
	watchers map[uint64]func() // called once when the office changes
	watched  uint64
}

// inbound is a peer's request that waits for its answer.
type inbound struct {
	out   *promise.Promise[quorum.Body]
	since time.Time
}

// office is who leads the quorum, and so has the active controller, as far as this node knows.
type office struct {
	epoch  kafka.LeaderEpoch
	leader kafka.NodeID // NoNode: not known
	at     quorum.Endpoint
}

func newExchange(listener string, send func(quorum.Message, func(quorum.Body, error))) *exchange {
	return &exchange{send: send, listener: listener, inbound: map[uint64]inbound{}, watchers: map[uint64]func(){}, office: office{leader: kafka.NoNode}}
}

// Receive gives a request of a peer to this node's replica. The promise holds nil when there will be no answer.
func (c *control) Receive(body quorum.Body) *promise.Promise[quorum.Body] {
	out := &promise.Promise[quorum.Body]{}
	posted := c.post(func() {
		x := c.exchange
		if c.over || x == nil || len(x.inbound) >= maxInbound {
			out.Set(nil)
			return
		}
		x.last++
		x.inbound[x.last] = inbound{out, c.now()}
		c.pump.Receive(c.now(), quorum.Message{Request: x.last, Body: body})
	}, true)
	if !posted {
		out.Set(nil)
	}
	return out
}

// carry takes what the replica wants to say to where it goes.
func (x *exchange) carry(c *control) {
	if x == nil {
		return
	}
	for _, m := range c.pump.Messages() {
		if !isAnswer(m.Body) {
			x.send(m, func(body quorum.Body, err error) {
				c.postWork(func() { c.answered(m, body, err) })
			})
			continue
		}
		if in, ok := x.inbound[m.Request]; ok {
			delete(x.inbound, m.Request)
			in.out.Set(m.Body)
		}
	}
	x.giveUp(c.now())
}

// giveUp ends the wait of peers whose requests were dropped.
func (x *exchange) giveUp(now time.Time) {
	for id, in := range x.inbound { // in any order: they do not know of each other
		if now.Sub(in.since) > inboundPatience {
			delete(x.inbound, id)
			in.out.Set(nil)
		}
	}
}

func (c *control) answered(m quorum.Message, body quorum.Body, err error) {
	if err != nil {
		c.pump.Lost(c.now(), m.Request, errors.Is(err, peer.ErrRefused))
		return
	}
	c.pump.Receive(c.now(), quorum.Message{Request: m.Request, Peer: m.Peer, Body: body})
}

func isAnswer(b quorum.Body) bool {
	switch b.(type) {
	case *quorum.VoteResponse, *quorum.BeginQuorumEpochResponse, *quorum.EndQuorumEpochResponse, *quorum.FetchResponse,
		*quorum.FetchSnapshotResponse, *quorum.ChangeVoterResponse, *quorum.UpdateVoterResponse,
		*quorum.ApiVersionsResponse:
		return true
	}
	return false
}

// end sends everybody away.
func (x *exchange) end() {
	if x == nil {
		return
	}
	for id, in := range x.inbound {
		delete(x.inbound, id)
		in.out.Set(nil)
	}
}

// observe takes note of who leads.
func (x *exchange) observe(s quorum.State) {
	if x == nil {
		return
	}
	now := office{epoch: s.Epoch, leader: kafka.NoNode}
	switch s.Role {
	case quorum.Leader:
		now.leader = s.Leader
	case quorum.Follower:
		if i := slices.IndexFunc(s.LeaderEndpoints, func(e quorum.Endpoint) bool { return e.Name == x.listener }); i >= 0 {
			now.leader, now.at = s.Leader, s.LeaderEndpoints[i]
		}
	}
	x.mu.Lock()
	if x.office == now {
		x.mu.Unlock()
		return
	}
	x.office = now
	watchers := x.watchers
	x.watchers = map[uint64]func(){}
	x.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(watchers)) {
		watchers[id]()
	}
}

// inOffice gives who leads.
func (x *exchange) inOffice() office {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.office
}

// watch calls f once when somebody else leads than seen, or at once if that is so already, unless forget is called before.
// f must not block.
func (x *exchange) watch(seen office, f func()) (forget func()) {
	x.mu.Lock()
	if x.office != seen {
		x.mu.Unlock()
		f()
		return func() {}
	}
	defer x.mu.Unlock()
	x.watched++
	id := x.watched
	x.watchers[id] = f
	return func() {
		x.mu.Lock()
		delete(x.watchers, id)
		x.mu.Unlock()
	}
}
