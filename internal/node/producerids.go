package node

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// producerIDs hands out producer ids from blocks that the controller allocates, so that no id is ever given twice
// (KIP-730). Requests that meet an empty block wait for the next.
type producerIDs struct {
	n *Node

	mu       sync.Mutex
	next     kafka.ProducerID
	end      kafka.ProducerID // first id after the block
	fetching bool
	waiting  []*promise.Promise[api.ProducerIDReply]
}

func newProducerIDs(n *Node) *producerIDs { return &producerIDs{n: n} }

// maxWaitingProducers bounds who waits for a block.
const maxWaitingProducers = 100_000

// draw gives a fresh id.
func (p *producerIDs) draw() *promise.Promise[api.ProducerIDReply] {
	p.mu.Lock()
	if p.next < p.end {
		id := p.next
		p.next++
		p.mu.Unlock()
		return promise.Done(api.ProducerIDReply{ID: id})
	}
	out := &promise.Promise[api.ProducerIDReply]{}
	if len(p.waiting) >= maxWaitingProducers {
		p.mu.Unlock()
		return promise.Done(api.ProducerIDReply{Err: kafka.CoordinatorLoadInProgress})
	}
	p.waiting = append(p.waiting, out)
	fetch := !p.fetching
	p.fetching = true
	p.mu.Unlock()
	if fetch {
		p.fetch()
	}
	return out
}

func (p *producerIDs) fetch() {
	r := kmsg.NewPtrAllocateProducerIDsRequest()
	r.BrokerID, r.BrokerEpoch = int32(p.n.self.ID), p.n.lifecycle.epoch.Load()
	p.n.submit(r).OnDone(p.fetched)
}

// fetched deals a new block out to who waited. A failure sends them away to retry.
func (p *producerIDs) fetched(r api.ControlReply) {
	err := r.Err
	var start, count int64
	if err == nil {
		body := r.Body.(*kmsg.AllocateProducerIDsResponse)
		start, count = body.ProducerIDStart, int64(body.ProducerIDLen)
		if body.ErrorCode != 0 {
			err = kafka.CoordinatorLoadInProgress
		}
	} else {
		err = kafka.CoordinatorLoadInProgress
	}
	p.mu.Lock()
	p.fetching = false
	waiting := p.waiting
	p.waiting = nil
	replies := make([]api.ProducerIDReply, len(waiting))
	if err == nil {
		p.next, p.end = kafka.ProducerID(start), kafka.ProducerID(start+count)
	}
	for i := range replies {
		if err == nil && p.next >= p.end {
			err = kafka.CoordinatorLoadInProgress
		}
		if err != nil {
			replies[i].Err = err
			continue
		}
		replies[i].ID = p.next
		p.next++
	}
	p.mu.Unlock()
	for i, w := range waiting {
		w.Set(replies[i])
	}
}
