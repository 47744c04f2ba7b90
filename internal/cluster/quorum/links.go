package quorum

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// links is what is known about requests to each peer: one at a time, and a pause after a failure.
type links []link

// maxLinks is how many peers are remembered before those without a request are forgotten.
const maxLinks = 64

type link struct {
	peer    kafka.NodeID
	request uint64 // in flight; 0: none
	body    Body
	// until is when the request counts as lost, or without one when the pause ends.
	until time.Time
}

// to gives the link to a peer, making it if need be.
func (l *links) to(peer kafka.NodeID) *link {
	for i := range *l {
		if (*l)[i].peer == peer {
			return &(*l)[i]
		}
	}
	if len(*l) >= maxLinks { // peers of long ago
		*l = slices.DeleteFunc(*l, func(k link) bool { return k.request == 0 })
	}
	*l = append(*l, link{peer: peer})
	return &(*l)[len(*l)-1]
}

// find gives the link that waits for an answer.
func (l links) find(request uint64) *link {
	i := slices.IndexFunc(l, func(k link) bool { return k.request == request })
	if i < 0 || request == 0 {
		return nil
	}
	return &l[i]
}

// ready says whether a request may be sent now; if not, the core wakes when it may.
func (c *Core) ready(now time.Time, peer kafka.NodeID) bool {
	l := c.links.to(peer)
	if now.Before(l.until) {
		c.wakeAt(l.until)
		return false
	}
	return true
}

// request sends a request unless one is in flight to that peer or a pause is on.
func (c *Core) request(now time.Time, peer Peer, body Body) bool {
	if !c.ready(now, peer.ID) {
		return false
	}
	c.out.Send = append(c.out.Send, c.numbered(now, peer, body))
	return true
}

func (c *Core) numbered(now time.Time, peer Peer, body Body) Message {
	c.nextRequest++
	l := c.links.to(peer.ID)
	l.request, l.body, l.until = c.nextRequest, body, now.Add(c.config.RequestTimeout)
	c.wakeAt(l.until)
	return Message{Request: c.nextRequest, Peer: peer, Body: body}
}

// pause keeps quiet towards a peer for a moment.
func (c *Core) pause(now time.Time, peer kafka.NodeID) {
	c.links.to(peer).until = now.Add(c.config.RetryBackoff)
}

// lost ends a request without answer.
func (c *Core) lost(now time.Time, e Lost) {
	if l := c.links.find(e.Request); l != nil {
		if _, ok := l.body.(*EndQuorumEpochRequest); ok && c.shutdown && c.role == Resigned {
			c.resigning.acknowledged = append(c.resigning.acknowledged, l.peer) // nobody stays for one that is away
		}
		l.request, l.body = 0, nil
		c.pause(now, l.peer)
		if c.change != nil && c.change.request == e.Request {
			c.refuseChange(kafka.RequestTimedOut, "the new voter does not answer")
		}
		if e.Refused && c.role == Follower && l.peer == c.leader {
			c.leaderIsGone(now)
		}
	}
}

// answer replies to a request of a peer.
func (c *Core) answer(to Message, body Body) {
	c.out.Send = append(c.out.Send, Message{Request: to.Request, Peer: to.Peer, Body: body})
}

// arrived takes a request of a peer or the answer to one of ours. An answer that nobody waits for any more is
// dropped.
func (c *Core) arrived(now time.Time, m Message) {
	switch body := m.Body.(type) {
	case *VoteRequest:
		c.onVoteRequest(now, m, body)
	case *BeginQuorumEpochRequest:
		c.onBeginRequest(now, m, body)
	case *EndQuorumEpochRequest:
		c.onEndRequest(now, m, body)
	case *FetchRequest:
		c.onFetchRequest(now, m, body)
	case *FetchSnapshotRequest:
		c.onFetchSnapshotRequest(now, m, body)
	case *AddVoterRequest:
		c.onAddVoter(now, m, body)
	case *RemoveVoterRequest:
		c.onRemoveVoter(now, m, body)
	case *UpdateVoterRequest:
		c.onUpdateVoter(now, m, body)
	default:
		if l := c.links.find(m.Request); l != nil {
			peer, asked := l.peer, l.body
			l.request, l.body, l.until = 0, nil, time.Time{}
			c.answered(now, peer, asked, m)
		}
	}
}

func (c *Core) answered(now time.Time, peer kafka.NodeID, asked Body, m Message) {
	switch r := m.Body.(type) {
	case *VoteResponse:
		if q, ok := asked.(*VoteRequest); ok {
			c.onVoteResponse(now, peer, q, r)
		}
	case *BeginQuorumEpochResponse:
		c.accept(now, peer, r.Verdict)
	case *EndQuorumEpochResponse:
		if q, ok := asked.(*EndQuorumEpochRequest); ok {
			c.onEndResponse(now, peer, q, r)
		}
	case *FetchResponse:
		if q, ok := asked.(*FetchRequest); ok {
			c.onFetchResponse(now, peer, q, r)
		}
	case *FetchSnapshotResponse:
		if q, ok := asked.(*FetchSnapshotRequest); ok {
			c.onFetchSnapshotResponse(now, peer, q, r)
		}
	case *ApiVersionsResponse:
		c.onApiVersionsResponse(now, m.Request, r)
	case *UpdateVoterResponse:
		c.onUpdateVoterResponse(now, peer, r)
	case *ChangeVoterResponse:
		// Done or refused: the voter set will tell, and the timer asks again.
	}
}

// accept takes in the verdict of an answer, in the order in which a Java node does, and says whether the rest
// of the answer is worth reading. After a refusal the peer is left alone for a moment.
func (c *Core) accept(now time.Time, peer kafka.NodeID, v Verdict) bool {
	if v.Top != kafka.None {
		c.pause(now, peer)
		return false
	}
	switch {
	case v.Epoch < c.epoch || v.Code == kafka.UnknownLeaderEpoch:
		c.pause(now, peer)
		return false
	case v.Epoch > c.epoch || v.Code == kafka.FencedLeaderEpoch || v.Code == kafka.NotLeaderOrFollower:
		before := c.election().election()
		c.learn(now, v.Leader, v.Epoch, v.LeaderEndpoints)
		if c.election().election() == before {
			c.pause(now, peer)
		}
		return false
	case v.Leader != kafka.NoNode && (c.leader == kafka.NoNode || c.leader == v.Leader && c.leaderEndpoints == nil):
		if !c.learn(now, v.Leader, v.Epoch, v.LeaderEndpoints) {
			return false
		}
	case v.Leader != kafka.NoNode && v.Leader != c.leader:
		c.pause(now, peer)
		return false
	}
	if v.Code != kafka.None {
		c.pause(now, peer)
	}
	return v.Code == kafka.None
}
