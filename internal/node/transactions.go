package node

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// transactional makes o the options of the transaction coordinators.
func (c *coordinators) transactional(o *coordinator.Options) {
	n := c.n
	ms := func(key string) time.Duration { return time.Duration(n.config.Int64(key)) * time.Millisecond }
	machine := txn.Options{
		MaxTimeout:       ms("transaction.max.timeout.ms"),
		Expiration:       ms("transactional.id.expiration.ms"),
		ExpirationCheck:  ms("transaction.remove.expired.transaction.cleanup.interval.ms"),
		ParkTime:         ms("moldau.transaction.wait.ms"),
		OffsetsPartition: c.offsetsPartition,
	}
	timeout := ms("request.timeout.ms")
	o.Topic = kafka.TransactionsTopic
	o.NewMachine = func(_ int32, image *metadata.Image) coordinator.Machine { return txn.New(machine, image) }
	o.CommitTimeout = func() time.Duration { return timeout }
	o.LoadBytes = n.config.Int("transaction.state.log.load.buffer.size")
	o.Work = c.work
}

// offsetsPartition gives the partition of __consumer_offsets that a group's offsets go to.
func (c *coordinators) offsetsPartition(_ *metadata.Image, group string) (kafka.TopicPartition, bool) {
	partition, ok := c.groups.PartitionFor(group)
	return kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: partition}, ok
}

// work does what transaction coordinators ask for.
func (c *coordinators) work(w coordinator.Work, _ coordinator.ShardID, alive func() bool, done func(coordinator.Event)) {
	switch w := w.(type) {
	case txn.DrawProducerID:
		c.n.producers.draw().OnDone(func(r api.ProducerIDReply) { done(w.Drawn(r.ID, r.Err)) })
	case txn.WriteMarkers:
		c.markers.add(&marking{m: c.markers, work: w, alive: alive, done: done, left: w.Partitions})
	}
}

// Verify implements replica.Host: it asks the coordinator of a producer's transaction.
func (n *Node) Verify(p *replica.Partition, c replica.TxnCheck) {
	n.verify(c).OnDone(func(err error) {
		e := p.Verified(n.o.Now(), c, err)
		e.Run(n)
	})
}

// verify asks the coordinator whether a partition is in a producer's transaction, or adds it. It is answered in bounded
// time: what a coordinator parks, it sends away after moldau.transaction.wait.ms.
func (n *Node) verify(c replica.TxnCheck) *promise.Promise[error] {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = 5
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.VerifyOnly = c.TransactionalID, !c.Add
	t.ProducerID, t.ProducerEpoch = int64(c.Producer), int16(c.Epoch)
	topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	topic.Topic, topic.Partitions = c.Partition.Topic, []int32{c.Partition.Partition}
	t.Topics = append(t.Topics, topic)
	r.Transactions = append(r.Transactions, t)
	p := coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous, ClientID: "broker"}, r)
	return promise.Map(n.coordinators.txns.Do(c.TransactionalID, p), confirmation)
}

// confirmation reads the answer on one partition.
func confirmation(a coordinator.Answer) error {
	if a.Err != nil {
		return a.Err
	}
	body, ok := a.Body.(*kmsg.AddPartitionsToTxnResponse)
	if !ok || len(body.Transactions) != 1 || len(body.Transactions[0].Topics) != 1 ||
		len(body.Transactions[0].Topics[0].Partitions) != 1 {
		return kafka.UnknownServerError
	}
	if code := kafka.Code(body.Transactions[0].Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		return code
	}
	return nil
}
