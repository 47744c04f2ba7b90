package api

import (
	"errors"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// Versions of Produce at which the dealings with transaction coordinators change (KIP-890).
const (
	produceAbortable = 11 // knows TRANSACTION_ABORTABLE
	produceAdds      = 12 // transactions v2: the broker adds the partition to the transaction
)

// verifying is what an image says of transaction.partition.verification.enable.
type verifying struct {
	image *metadata.Image
	on    bool
}

// verifies says whether coordinators are asked before a transaction begins on a partition.
func (b *Broker) verifies(image *metadata.Image) bool {
	v := b.verifying.Load()
	if v == nil || v.image != image {
		v = &verifying{image, b.Resolver(image).Broker("transaction.partition.verification.enable").Bool()}
		b.verifying.Store(v)
	}
	return v.on
}

// verification is what must be asked before a transaction begins on a partition. A client of transactions v2 relies on
// the broker to add the partition, whatever the settings say.
func (b *Broker) verification(image *metadata.Image, adds bool) replica.Verification {
	switch {
	case adds:
		return replica.VerifyAndAdd
	case b.verifies(image):
		return replica.VerifyOnly
	}
	return replica.Trusted
}

// mayHold prepares for a batch that may have to wait for a transaction coordinator: the request's bytes stay then.
func (op *produceOp) mayHold(w *produceWaiter, r *replica.AppendRequest) {
	r.Verify = op.h.b.verification(op.image, op.version >= produceAdds)
	r.TransactionalID = op.transactionalID
	r.Producer.RequireFirstSequence = op.version >= produceAdds
	w.batch = r.Batch
	op.leased.Add(1)
	op.pending.Add(1)
}

// notHeld takes mayHold back; the handler goes on counting for itself.
func (op *produceOp) notHeld() {
	op.leased.Add(-1)
	op.pending.Add(-1)
}

// letGo gives the request's bytes back once nobody needs them.
func (op *produceOp) letGo() {
	if op.leased.Add(-1) == 0 {
		op.call.Lease.Release()
	}
}

// resumed ends the wait for a coordinator: the batch was appended, and its acknowledgement follows, or it was refused.
func (w *produceWaiter) resumed(err error) {
	op, missing := w.op, int32(1)
	if err == nil {
		op.h.b.Metrics.appended(w.part.TopicPartition().Topic, w.batch, w.Result.Duplicate)
	} else {
		missing = 2 // nothing is acknowledged
		t := produceTarget{part: w.part, topic: w.topic, at: w.at}
		message := saysOwnMessage(err)
		if word, ok := errors.AsType[*replica.VerificationError](err); ok {
			t.part = nil // the log was not asked: no log start is told
			message, err = unverified(word.Cause, op.version >= produceAbortable)
		}
		op.refuse(&t, err, message)
	}
	w.batch = nil
	op.letGo()
	if op.pending.Add(-missing) == 0 {
		later := op.later
		later.Set(op.finish())
	}
}

// unverified is what a producer is told when its transaction's coordinator did not confirm a partition, and whether that
// needs a word. What it should try again becomes NOT_ENOUGH_REPLICAS, which makes clients of all ages do just that,
// without looking for another leader (KIP-890).
func unverified(err error, abortable bool) (message bool, _ error) {
	switch code := kafka.CodeOf(err); code {
	case kafka.ProducerFenced:
		return false, kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable, kafka.InvalidTxnState:
		if abortable && code == kafka.TransactionAbortable {
			return false, err
		}
		return true, kafka.Errorf(kafka.InvalidTxnState, "the partition is not part of the producer's open transaction")
	case kafka.ConcurrentTransactions, kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable,
		kafka.NotCoordinator, kafka.NetworkException:
		return true, kafka.Errorf(kafka.NotEnoughReplicas, "the transaction coordinator could not confirm the partition: %s",
			code.Name())
	}
	return false, err
}
