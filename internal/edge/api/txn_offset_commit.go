package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// Versions of TxnOffsetCommit at which the dealings with transaction coordinators change (KIP-890).
const (
	txnCommitAbortable = 4 // knows TRANSACTION_ABORTABLE
	txnCommitAdds      = 5 // transactions v2: the broker adds the partition of the offsets to the transaction
)

// txnOffsetCommitRow stores offsets that count once the producer's transaction commits. As for a produce, the
// transaction's coordinator is asked before its first record is appended.
func (b *Broker) txnOffsetCommitRow() server.API {
	return server.API{Key: int16(kmsg.TxnOffsetCommit), Min: 0, Max: 6, Listener: server.BrokerListener,
		Handle: b.handleTxnOffsetCommit}
}

func (b *Broker) handleTxnOffsetCommit(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.TxnOffsetCommitRequest))
	if err != nil {
		return answer(server.Reply{Body: refuseTxnCommit(r.(*kmsg.TxnOffsetCommitRequest), err), Code: kafka.CodeOf(err)})
	}
	p := coordinator.NewPending(callOf(c), req)
	c.Lease.Release()
	out := &promise.Promise[server.Reply]{}
	reply := func(a coordinator.Answer) {
		out.Set(coordinated(a, func(err error) kmsg.Response { return refuseTxnCommit(req, err) }))
	}
	check, part := b.offsetsCheck(req)
	if part == nil {
		b.Groups.Do(req.Group, p).OnDone(reply) // to be told that its coordinator is elsewhere
		return out
	}
	p.Verify = b.verification(b.Image(), check.Add)
	if p.Verify == replica.Trusted {
		b.Groups.Do(req.Group, p).OnDone(reply)
		return out
	}
	check, needed, err := part.StartVerification(check)
	if err != nil || !needed {
		b.Groups.Do(req.Group, p).OnDone(reply)
		return out
	}
	p.Guard = check.Guard
	verified := func(a coordinator.Answer) {
		part.StopVerification(check)
		reply(a)
	}
	b.Verify(check).OnDone(func(err error) {
		if err != nil {
			verified(coordinator.Answer{Err: uncommitted(err, req.Version >= txnCommitAbortable)})
			return
		}
		b.Groups.Do(req.Group, p).OnDone(verified)
	})
	return out
}

// offsetsCheck is what is to be asked before offsets are committed, and the partition they go to; nil when it is not here,
// or nothing of the request can be stored.
func (b *Broker) offsetsCheck(req *kmsg.TxnOffsetCommitRequest) (replica.TxnCheck, *replica.Partition) {
	image := b.Image()
	known := false
	for i := range req.Topics {
		t := &req.Topics[i]
		_, byName := image.Topic(t.Topic)
		_, byID := image.TopicByID(t.TopicID)
		known = known || byName || byID
	}
	index, ok := b.Groups.PartitionFor(req.Group)
	if !known || !ok {
		return replica.TxnCheck{}, nil
	}
	part, err := b.partition(image, kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: index})
	if err != nil {
		return replica.TxnCheck{}, nil
	}
	return replica.TxnCheck{TransactionalID: req.TransactionalID, Producer: kafka.ProducerID(req.ProducerID),
		Epoch: kafka.ProducerEpoch(req.ProducerEpoch), Add: req.Version >= txnCommitAdds}, part
}

// uncommitted is what a producer is told when its transaction's coordinator did not confirm the partition of the offsets.
// What it should try again becomes COORDINATOR_LOAD_IN_PROGRESS: it is retried where it was (KIP-890).
func uncommitted(err error, abortable bool) error {
	switch kafka.CodeOf(err) {
	case kafka.ProducerFenced:
		return kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable:
		if !abortable {
			return kafka.InvalidTxnState
		}
	case kafka.ConcurrentTransactions, kafka.CoordinatorNotAvailable, kafka.NotCoordinator, kafka.NetworkException:
		return kafka.CoordinatorLoadInProgress
	}
	return err
}

// refuseTxnCommit answers every partition with the same error: the response has none of its own.
func refuseTxnCommit(req *kmsg.TxnOffsetCommitRequest, err error) kmsg.Response {
	code := int16(kafka.CodeOf(err))
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for j := range t.Partitions {
			out.Partitions = append(out.Partitions,
				kmsg.TxnOffsetCommitResponseTopicPartition{Partition: t.Partitions[j].Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
