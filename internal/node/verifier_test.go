package node

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// TestQuestionsAreAskedTogether: those of one producer are one request, and each gets its own answer.
func TestQuestionsAreAskedTogether(t *testing.T) {
	var all []question
	for i := range int32(4) {
		all = append(all, question{replica.TxnCheck{Partition: kafka.TopicPartition{Topic: "t", Partition: i % 3},
			TransactionalID: "tx", Producer: 9, Epoch: 2, Add: true}, &promise.Promise[error]{}})
	}
	r := verification(all)
	x := r.Transactions[0]
	if len(r.Transactions) != 1 || x.TransactionalID != "tx" || x.ProducerID != 9 || x.ProducerEpoch != 2 || x.VerifyOnly ||
		len(x.Topics) != 4 {
		t.Fatalf("%+v", r)
	}
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.Transactions = append(resp.Transactions, kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: "tx"})
	for _, topic := range x.Topics {
		p := kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: topic.Partitions[0]}
		if p.Partition == 1 {
			p.ErrorCode = int16(kafka.TransactionAbortable)
		}
		resp.Transactions[0].Topics = append(resp.Transactions[0].Topics, kmsg.AddPartitionsToTxnResponseTransactionTopic{
			Topic: "t", Partitions: []kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{p}})
	}
	settle(all, coordinator.Answer{Body: resp})
	for i, q := range all {
		err, ok := q.answer.Get()
		if want := i == 1; !ok || (err != nil) != want {
			t.Errorf("%d: %v %v", i, ok, err)
		}
	}
	for _, a := range []coordinator.Answer{{Err: kafka.NotCoordinator}, {Body: kmsg.NewPtrAddPartitionsToTxnResponse()}, {}} {
		q := question{all[0].check, &promise.Promise[error]{}}
		settle([]question{q}, a)
		if err, ok := q.answer.Get(); !ok || err == nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
