package node

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// verifier asks transaction coordinators about partitions (KIP-890). What one producer's request asks for many partitions
// at once is one question: each makes the coordinator write its whole state anew. Coordinators on other brokers are asked
// over the wire.
type verifier struct {
	n *Node

	mu      sync.Mutex
	queue   []question
	running bool
	closed  bool
}

type question struct {
	check  replica.TxnCheck
	answer *promise.Promise[error]
}

// asker is whose questions are asked together.
type asker struct {
	transactionalID string
	producer        coordinator.Stamp
	add             bool
}

func newVerifier(n *Node) *verifier { return &verifier{n: n} }

// Verify implements replica.Host: it asks the coordinator of a producer's transaction.
func (n *Node) Verify(p *replica.Partition, c replica.TxnCheck) {
	n.coordinators.verifier.ask(c).OnDone(func(err error) {
		e := p.Verified(n.o.Now(), c, err)
		e.Run(n)
	})
}

// ask asks whether a partition is in a producer's transaction, or adds it. It is answered in bounded time: what a
// coordinator parks, it sends away after moldau.transaction.wait.ms.
func (v *verifier) ask(c replica.TxnCheck) *promise.Promise[error] {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return promise.Done[error](kafka.CoordinatorNotAvailable)
	}
	out := &promise.Promise[error]{}
	v.queue = append(v.queue, question{c, out})
	if !v.running {
		v.running = true
		v.n.loops.Go(v.run)
	}
	return out
}

func (v *verifier) run() {
	for {
		v.mu.Lock()
		round := v.queue
		v.queue = nil
		if len(round) == 0 {
			v.running = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		v.send(round)
	}
}

// close ends the questions: what is queued is still answered, by coordinators that are closed too.
func (v *verifier) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}

// send asks a round of questions, those of one asker together, in the order in which the askers came.
func (v *verifier) send(round []question) {
	places := map[asker]int{}
	var together [][]question
	for _, q := range round {
		a := asker{q.check.TransactionalID, coordinator.Stamp{ID: q.check.Producer, Epoch: q.check.Epoch}, q.check.Add}
		at, ok := places[a]
		if !ok {
			at = len(together)
			places[a] = at
			together = append(together, nil)
		}
		together[at] = append(together[at], q)
	}
	var away []inquiry
	for _, all := range together {
		if to, ok := v.coordinator(all[0].check.TransactionalID); ok {
			away = enclose(away, to, all)
			continue
		}
		p := coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous, ClientID: "broker"}, verification(all))
		v.n.coordinators.txns.Do(all[0].check.TransactionalID, p).OnDone(func(a coordinator.Answer) {
			settle(all, a.Body, a.Err)
		})
	}
	for _, q := range away {
		v.n.coordinators.peers.ask(q.to, verifyLane, batchedAdd{verification(q.parts...)}).OnDone(q.answered)
	}
}

// coordinator gives the broker that coordinates a transactional id if it is another one than this.
func (v *verifier) coordinator(id string) (kafka.NodeID, bool) {
	partition, ok := v.n.coordinators.txns.PartitionFor(id)
	if !ok {
		return kafka.NoNode, false // the runtime says so
	}
	return v.n.coordinators.peers.leader(kafka.TopicPartition{Topic: kafka.TransactionsTopic, Partition: partition})
}

const verifyLane = "txn-verify"

// batchedAdd is a request that has room for many transactions, and for questions without adding, from version 4 on.
type batchedAdd struct {
	*kmsg.AddPartitionsToTxnRequest
}

// LowestVersion implements peer.Floor.
func (batchedAdd) LowestVersion() int16 { return 4 }

// inquiry is what goes to another broker in one request: no transactional id twice, for answers name nothing else.
type inquiry struct {
	to    kafka.NodeID
	parts [][]question
}

// enclose adds the questions of one asker to a request to a broker.
func enclose(away []inquiry, to kafka.NodeID, all []question) []inquiry {
	id := all[0].check.TransactionalID
	at := slices.IndexFunc(away, func(q inquiry) bool {
		return q.to == to && !slices.ContainsFunc(q.parts, func(p []question) bool { return p[0].check.TransactionalID == id })
	})
	if at < 0 {
		at = len(away)
		away = append(away, inquiry{to: to})
	}
	away[at].parts = append(away[at].parts, all)
	return away
}

// answered deals the answer of another broker out. Why there was none is of no use to a producer: it tries again.
func (q inquiry) answered(a peer.Answer) {
	err := a.Err
	if err != nil {
		err = kafka.NetworkException
	}
	for _, all := range q.parts {
		settle(all, a.Body, err)
	}
}

// verification is the request that asks the questions of some askers.
func verification(askers ...[]question) *kmsg.AddPartitionsToTxnRequest {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = 5
	for _, all := range askers {
		c := &all[0].check
		t := kmsg.NewAddPartitionsToTxnRequestTransaction()
		t.TransactionalID, t.VerifyOnly = c.TransactionalID, !c.Add
		t.ProducerID, t.ProducerEpoch = int64(c.Producer), int16(c.Epoch)
		places := map[string]int{}
		for _, q := range all {
			tp := q.check.Partition
			at, ok := places[tp.Topic]
			if !ok {
				at = len(t.Topics)
				places[tp.Topic] = at
				t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: tp.Topic})
			}
			if topic := &t.Topics[at]; !slices.Contains(topic.Partitions, tp.Partition) {
				topic.Partitions = append(topic.Partitions, tp.Partition)
			}
		}
		r.Transactions = append(r.Transactions, t)
	}
	return r
}

// settle deals the answer to one asker's questions out.
func settle(all []question, body kmsg.Response, err error) {
	var codes map[kafka.TopicPartition]kafka.Code
	if err == nil {
		codes, err = confirmations(all[0].check.TransactionalID, body)
	}
	for _, q := range all {
		q.answer.Set(confirmed(codes, q.check.Partition, err))
	}
}

// confirmations finds what a response says of one transaction.
func confirmations(id string, body kmsg.Response) (map[kafka.TopicPartition]kafka.Code, error) {
	r, ok := body.(*kmsg.AddPartitionsToTxnResponse)
	if !ok {
		return nil, kafka.UnknownServerError
	}
	switch code := kafka.Code(r.ErrorCode); code {
	case kafka.None:
	case kafka.ClusterAuthorizationFailed: // this broker may not ask; that is not the producer's affair
		return nil, kafka.InvalidTxnState
	default:
		return nil, code
	}
	codes := map[kafka.TopicPartition]kafka.Code{}
	for _, t := range r.Transactions {
		if t.TransactionalID != id {
			continue
		}
		for _, topic := range t.Topics {
			for _, p := range topic.Partitions {
				codes[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = kafka.Code(p.ErrorCode)
			}
		}
	}
	return codes, nil
}

func confirmed(codes map[kafka.TopicPartition]kafka.Code, tp kafka.TopicPartition, err error) error {
	if err != nil {
		return err
	}
	code, ok := codes[tp]
	switch {
	case !ok:
		return kafka.UnknownServerError
	case code != kafka.None:
		return code
	}
	return nil
}
