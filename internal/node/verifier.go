package node

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// verifier asks transaction coordinators about partitions (KIP-890). What one producer's request asks for many partitions
// at once is one question: each makes the coordinator write its whole state anew.
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
	for _, all := range together {
		p := coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous, ClientID: "broker"}, verification(all))
		v.n.coordinators.txns.Do(all[0].check.TransactionalID, p).OnDone(func(a coordinator.Answer) { settle(all, a) })
	}
}

// verification is the request that asks one asker's questions: a topic of its own for each, so that the answers come in
// their order.
func verification(all []question) *kmsg.AddPartitionsToTxnRequest {
	c := &all[0].check
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.VerifyOnly = c.TransactionalID, !c.Add
	t.ProducerID, t.ProducerEpoch = int64(c.Producer), int16(c.Epoch)
	for _, q := range all {
		topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		topic.Topic, topic.Partitions = q.check.Partition.Topic, []int32{q.check.Partition.Partition}
		t.Topics = append(t.Topics, topic)
	}
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = 5
	r.Transactions = append(r.Transactions, t)
	return r
}

// settle deals an answer out.
func settle(all []question, a coordinator.Answer) {
	body, ok := a.Body.(*kmsg.AddPartitionsToTxnResponse)
	if a.Err == nil && (!ok || len(body.Transactions) != 1 || len(body.Transactions[0].Topics) != len(all)) {
		a.Err = kafka.UnknownServerError
	}
	for i, q := range all {
		err := a.Err
		if err == nil {
			err = confirmed(body.Transactions[0].Topics[i])
		}
		q.answer.Set(err)
	}
}

func confirmed(t kmsg.AddPartitionsToTxnResponseTransactionTopic) error {
	if len(t.Partitions) != 1 {
		return kafka.UnknownServerError
	}
	if code := kafka.Code(t.Partitions[0].ErrorCode); code != kafka.None {
		return code
	}
	return nil
}
