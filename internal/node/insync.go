package node

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// alterPause is the time before a change of an in-sync set is sent again that the controller did not decide on.
const alterPause = 50 * time.Millisecond

// inSync carries changes of in-sync sets to the controller: one AlterPartition at a time, with everything that gathered
// while the last one was under way (KIP-497).
type inSync struct {
	n *Node
	// submit gives a request to the controller.
	submit func(kmsg.Request) *promise.Promise[api.ControlReply]

	mu     sync.Mutex
	queue  []isrChange
	busy   bool // a request is under way, or about to be sent again
	closed bool
}

type isrChange struct {
	p *replica.Partition
	r replica.ISRProposal
}

func newInSync(n *Node) *inSync {
	return &inSync{n: n, submit: n.submit}
}

func (s *inSync) propose(p *replica.Partition, r replica.ISRProposal) {
	s.mu.Lock()
	s.queue = append(s.queue, isrChange{p, r})
	idle := !s.busy && !s.closed
	if idle {
		s.busy = true
	}
	s.mu.Unlock()
	if idle {
		s.send()
	}
}

// send asks for everything that is queued and still stands. It is called by whoever made s busy.
func (s *inSync) send() {
	s.mu.Lock()
	changes := s.queue
	s.queue = nil
	s.mu.Unlock()
	standing := changes[:0]
	for _, c := range changes {
		if c.p.Proposes(c.r) {
			standing = append(standing, c)
		}
	}
	if len(standing) == 0 {
		s.next(nil)
		return
	}
	body := alterPartition(s.n.self.ID, s.n.imageEpoch(), standing)
	s.submit(body).OnDone(func(r api.ControlReply) {
		s.next(s.decided(standing, r))
	})
}

// next goes on with what is to be asked again, after a pause, and with what was proposed meanwhile.
func (s *inSync) next(again []isrChange) {
	s.mu.Lock()
	s.queue = append(again, s.queue...)
	s.busy = len(s.queue) > 0 && !s.closed
	busy := s.busy
	s.mu.Unlock()
	switch {
	case !busy:
	case len(again) > 0:
		s.n.after(alterPause, s.send)
	default:
		s.n.after(0, s.send) // not from here: answers may come at once, and this would call itself
	}
}

func (s *inSync) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// alterPartition asks for changes of the same broker.
func alterPartition(self kafka.NodeID, epoch kafka.BrokerEpoch, changes []isrChange) *kmsg.AlterPartitionRequest {
	r := kmsg.NewPtrAlterPartitionRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch = int32(self), int64(epoch)
	topics := map[kafka.UUID]int{}
	for _, c := range changes {
		t, ok := topics[c.r.TopicID]
		if !ok {
			t = len(r.Topics)
			topics[c.r.TopicID] = t
			topic := kmsg.NewAlterPartitionRequestTopic()
			topic.TopicID = c.r.TopicID
			r.Topics = append(r.Topics, topic)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = c.r.Partition.Partition, int32(c.r.LeaderEpoch), int32(c.r.PartitionEpoch)
		// The recovery state stays 0: whoever leads has recovered, also after an unclean election.
		for _, m := range c.r.ISR {
			x := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			x.BrokerID, x.BrokerEpoch = int32(m.Broker), int64(m.Epoch)
			if m.Broker == self {
				x.BrokerEpoch = int64(epoch)
			}
			p.NewEpochISR = append(p.NewEpochISR, x)
		}
		r.Topics[t].Partitions = append(r.Topics[t].Partitions, p)
	}
	return r
}

// decided takes the controller's answer and gives the changes it did not decide on.
func (s *inSync) decided(changes []isrChange, r api.ControlReply) (again []isrChange) {
	body, ok := r.Body.(*kmsg.AlterPartitionResponse)
	if r.Err != nil || !ok {
		return changes
	}
	if code := kafka.Code(body.ErrorCode); code != kafka.None {
		s.n.log.Warn("the controller takes no changes of in-sync sets from this broker", "error", code.Name())
		return changes
	}
	type key struct {
		topic     kafka.UUID
		partition int32
	}
	answers := map[key]*kmsg.AlterPartitionResponseTopicPartition{}
	for i := range body.Topics {
		t := &body.Topics[i]
		for j := range t.Partitions {
			answers[key{t.TopidID, t.Partitions[j].Partition}] = &t.Partitions[j]
		}
	}
	for _, c := range changes {
		a := answers[key{c.r.TopicID, c.r.Partition.Partition}]
		if a == nil || !s.settle(c, a) {
			again = append(again, c)
		}
	}
	return again
}

// settle ends one proposal by its answer; false: the controller did not decide. After most refusals an image is on its way
// that says more than this node knew, and ends the proposal: it may even have been accepted by an answer that was lost.
func (s *inSync) settle(c isrChange, a *kmsg.AlterPartitionResponseTopicPartition) bool {
	var e replica.Effects
	now := s.n.o.Now()
	switch code := kafka.Code(a.ErrorCode); code {
	case kafka.None:
		s.n.metrics.isrChanged(c.r)
		e = c.p.ISRAccepted(now, c.r, kafka.PartitionEpoch(a.PartitionEpoch))
	case kafka.IneligibleReplica, kafka.OperationNotAttempted:
		s.n.metrics.replicas.RefusedISR.Inc()
		e = c.p.ISRRefused(now, c.r)
	case kafka.UnknownTopicID, kafka.UnknownTopicOrPartition, kafka.FencedLeaderEpoch, kafka.InvalidUpdateVersion,
		kafka.InvalidRequest, kafka.NewLeaderElected:
		s.n.metrics.replicas.RefusedISR.Inc()
	default:
		return false
	}
	e.Run(s.n)
	return true
}
