package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

const (
	// surveyLane keeps questions of no hurry from standing before those of producers.
	surveyLane = "txn-survey"
	// surveyTimeout is how long coordinators elsewhere have to answer.
	surveyTimeout = 3 * time.Second
	// maxAsked is how many producer ids are asked about at once; the rest has its turn when these are settled.
	maxAsked = 1000
)

// openStates are the states of ids that have an open transaction.
var openStates = []string{txn.Ongoing.String(), txn.PrepareCommit.String(), txn.PrepareAbort.String()}

// askElsewhere asks the coordinators on other brokers about the transactions whose verdict is unknown and that want
// picks. The verdicts become known if those that could own a transaction have all answered.
func (n *Node) askElsewhere(ctx context.Context, open []openHere, verdicts []verdict, want func(openHere) bool) {
	var asked []int
	ids := map[kafka.ProducerID]bool{}
	for i, o := range open {
		if verdicts[i] == unknown && len(ids) < maxAsked && want(o) {
			asked = append(asked, i)
			ids[o.info.ProducerID] = true
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	brokers, all := n.coordinators.elsewhere()
	owners := map[kafka.ProducerID]*txn.Explanation{}
	for _, found := range n.coordinators.ownersAt(ctx, brokers, slices.Sorted(maps.Keys(ids))) {
		all = all && found.ok
		for _, e := range found.owners {
			owners[e.Producer.ID] = &e
		}
	}
	for _, i := range asked {
		o := &open[i]
		if owner := owners[o.info.ProducerID]; owner != nil {
			o.owner = owner
		}
		switch {
		case o.held():
			verdicts[i] = ends
		case all && o.still():
			verdicts[i] = hangs
		}
	}
}

// elsewhere lists the other brokers that coordinate transactions, and says whether they and the coordinators here are
// all there are.
func (c *coordinators) elsewhere() (brokers []kafka.NodeID, all bool) {
	topic, ok := c.n.publisher.Image().Topic(kafka.TransactionsTopic)
	if !ok {
		return nil, true
	}
	loaded := map[int32]bool{}
	c.txns.InspectAll(func(partition int32, _ coordinator.Machine) { loaded[partition] = true })
	all = true
	for i := range int32(topic.NumPartitions()) {
		switch to, away := c.peers.leader(kafka.TopicPartition{Topic: kafka.TransactionsTopic, Partition: i}); {
		case !away:
			all = all && loaded[i]
		case !slices.Contains(brokers, to):
			brokers = append(brokers, to)
		}
	}
	return brokers, all
}

// foundOwners is what one broker says.
type foundOwners struct {
	owners []txn.Explanation
	ok     bool // it has told all it knows
}

// ownersAt asks brokers which ids have open transactions of some producer ids. All are asked at once.
func (c *coordinators) ownersAt(ctx context.Context, brokers []kafka.NodeID, ids []kafka.ProducerID) []foundOwners {
	list := func() *kmsg.ListTransactionsRequest {
		r := kmsg.NewPtrListTransactionsRequest()
		r.StateFilters = openStates
		for _, id := range ids {
			r.ProducerIDFilters = append(r.ProducerIDFilters, int64(id))
		}
		return r
	}
	var answers []*promise.Promise[peer.Answer]
	for _, to := range brokers {
		answers = append(answers, c.peers.ask(to, surveyLane, list()))
	}
	out := make([]foundOwners, len(brokers))
	for i, p := range answers {
		a, err := p.Wait(ctx)
		r, ok := a.Body.(*kmsg.ListTransactionsResponse)
		if err != nil || !ok || r.ErrorCode != 0 {
			continue
		}
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		for _, s := range r.TransactionStates {
			describe.TransactionalIDs = append(describe.TransactionalIDs, s.TransactionalID)
		}
		out[i] = c.describedAt(ctx, brokers[i], describe)
	}
	return out
}

// describedAt asks a broker about transactional ids.
func (c *coordinators) describedAt(ctx context.Context, to kafka.NodeID, r *kmsg.DescribeTransactionsRequest) foundOwners {
	if len(r.TransactionalIDs) == 0 {
		return foundOwners{ok: true}
	}
	a, err := c.peers.ask(to, surveyLane, r).Wait(ctx)
	resp, ok := a.Body.(*kmsg.DescribeTransactionsResponse)
	if err != nil || !ok || len(resp.TransactionStates) != len(r.TransactionalIDs) {
		return foundOwners{}
	}
	out := foundOwners{ok: true}
	for i := range resp.TransactionStates {
		e, ok := txn.Described(&resp.TransactionStates[i])
		if !ok {
			out.ok = false
			continue
		}
		out.owners = append(out.owners, e)
	}
	return out
}
