package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
)

// txnProduce is a batch of producer 5 in transaction "tx" for each of the partitions.
func txnProduce(t *testing.T, version int16, sequence int32, partitions ...int32) *kmsg.ProduceRequest {
	t.Helper()
	o := record.Options{Producer: &record.Producer{ID: 5, Sequence: sequence}, Transactional: true}
	req := produceRequest(version, "pr", partitions[0], -1, batchOf(t, o, "a"))
	for _, p := range partitions[1:] {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions,
			produceRequest(version, "pr", p, -1, batchOf(t, o, "a")).Topics[0].Partitions...)
	}
	req.TransactionID = kmsg.StringPtr("tx")
	return req
}

// TestProduceWaitsForTheCoordinator: the first batch of a transaction does, on every partition by itself.
func TestProduceWaitsForTheCoordinator(t *testing.T) {
	for _, version := range []int16{9, 11, 12} {
		f := newFixture(t)
		f.create("pr", 2)
		words := map[kafka.TopicPartition]*promise.Promise[error]{}
		f.Broker.Verify = func(c replica.TxnCheck) *promise.Promise[error] {
			if c.TransactionalID != "tx" || c.Producer != 5 || c.Add != (version >= 12) {
				t.Errorf("version %d asks %+v", version, c)
			}
			words[c.Partition] = &promise.Promise[error]{}
			return words[c.Partition]
		}
		first := txnProduce(t, version, 0, 0, 1)
		_, p := f.start(first)
		second := txnProduce(t, version, 1, 0)
		_, q := f.start(second)
		f.wantWaiting(p, "nobody has spoken")
		words[kafka.TopicPartition{Topic: "pr"}].Set(nil)
		f.wantWaiting(p, "one has not spoken")
		if r := f.body(second, f.reply(q)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; r.ErrorCode != 0 || r.BaseOffset != 1 {
			t.Fatalf("version %d: %+v", version, r)
		}
		words[kafka.TopicPartition{Topic: "pr", Partition: 1}].Set(kafka.NotCoordinator)
		got := f.body(first, f.reply(p)).(*kmsg.ProduceResponse).Topics[0].Partitions
		if got[0].ErrorCode != 0 || got[0].BaseOffset != 0 {
			t.Fatalf("version %d: %+v", version, got[0])
		}
		if kafka.Code(got[1].ErrorCode) != kafka.NotEnoughReplicas || got[1].ErrorMessage == nil || got[1].LogStartOffset != -1 {
			t.Fatalf("version %d: %+v", version, got[1])
		}
		if len(words) != 2 {
			t.Errorf("%d questions", len(words))
		}
	}
}

// TestUnverifiedProduce: what producers of each age are told.
func TestUnverifiedProduce(t *testing.T) {
	for _, x := range []struct {
		version int16
		word    kafka.Code
		want    kafka.Code
		message bool
	}{
		{10, kafka.TransactionAbortable, kafka.InvalidTxnState, true},
		{11, kafka.TransactionAbortable, kafka.TransactionAbortable, false},
		{12, kafka.TransactionAbortable, kafka.TransactionAbortable, false},
		{12, kafka.InvalidTxnState, kafka.InvalidTxnState, true},
		{9, kafka.ProducerFenced, kafka.InvalidProducerEpoch, false},
		{12, kafka.ProducerFenced, kafka.InvalidProducerEpoch, false},
		{12, kafka.InvalidProducerIDMapping, kafka.InvalidProducerIDMapping, false},
		{9, kafka.ConcurrentTransactions, kafka.NotEnoughReplicas, true},
		{12, kafka.CoordinatorLoadInProgress, kafka.NotEnoughReplicas, true},
		{12, kafka.CoordinatorNotAvailable, kafka.NotEnoughReplicas, true},
		{12, kafka.NotCoordinator, kafka.NotEnoughReplicas, true},
	} {
		f := newFixture(t)
		f.create("pr", 1)
		f.Broker.Verify = func(replica.TxnCheck) *promise.Promise[error] { return promise.Done[error](x.word) }
		r := ask[*kmsg.ProduceResponse](f, txnProduce(t, x.version, 0, 0)).Topics[0].Partitions[0]
		if kafka.Code(r.ErrorCode) != x.want || (r.ErrorMessage != nil) != x.message || r.LogStartOffset != -1 || r.BaseOffset != -1 {
			t.Errorf("version %d, %s: %+v", x.version, x.word.Name(), r)
		}
	}
}

// TestProduceWithoutVerification: the setting turns it off, but not for clients that rely on the broker to add partitions,
// which must begin at sequence 0 where nothing is known of them.
func TestProduceWithoutVerification(t *testing.T) {
	f := newFixture(t, "transaction.partition.verification.enable", "false")
	f.create("pr", 2)
	asked := 0
	f.Broker.Verify = func(replica.TxnCheck) *promise.Promise[error] {
		asked++
		return promise.Done[error](nil)
	}
	if r := ask[*kmsg.ProduceResponse](f, txnProduce(t, 11, 7, 0)).Topics[0].Partitions[0]; r.ErrorCode != 0 || asked != 0 {
		t.Fatalf("%+v, asked %d times", r, asked)
	}
	r := ask[*kmsg.ProduceResponse](f, txnProduce(t, 12, 7, 1)).Topics[0].Partitions[0]
	if kafka.Code(r.ErrorCode) != kafka.OutOfOrderSequenceNumber || r.LogStartOffset != 0 || r.ErrorMessage != nil || asked != 1 {
		t.Fatalf("%+v, asked %d times", r, asked)
	}
}

// TestProduceGivesUpWaiting: the request's own deadline ends the wait, and nothing is appended later.
func TestProduceGivesUpWaiting(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	word := &promise.Promise[error]{}
	f.Broker.Verify = func(replica.TxnCheck) *promise.Promise[error] { return word }
	req := txnProduce(t, 12, 0, 0)
	req.TimeoutMillis = 1000
	_, p := f.start(req)
	f.wantWaiting(p, "nobody has spoken")
	f.advance(time.Second)
	r := f.body(req, f.reply(p)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if kafka.Code(r.ErrorCode) != kafka.RequestTimedOut {
		t.Fatalf("%+v", r)
	}
	word.Set(nil)
	part, err := f.Partitions.Get(kafka.TopicPartition{Topic: "pr"})
	if err != nil || part.Info().End != 0 {
		t.Fatal(err, part.Info().End)
	}
}
