package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/edge/peer"
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
		len(x.Topics) != 1 || !slices.Equal(x.Topics[0].Partitions, []int32{0, 1, 2}) {
		t.Fatalf("%+v", r)
	}
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.Transactions = append(resp.Transactions, kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: "tx"})
	answer := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: "t"}
	for _, i := range []int32{2, 1, 0} { // in an order of its own, as other brokers answer
		p := kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: i}
		if i == 1 {
			p.ErrorCode = int16(kafka.TransactionAbortable)
		}
		answer.Partitions = append(answer.Partitions, p)
	}
	resp.Transactions[0].Topics = append(resp.Transactions[0].Topics, answer)
	settle(all, resp, nil)
	for i, q := range all {
		err, ok := q.answer.Get()
		if want := i == 1; !ok || (err != nil) != want {
			t.Errorf("%d: %v %v", i, ok, err)
		}
	}
	refused := kmsg.NewPtrAddPartitionsToTxnResponse()
	refused.ErrorCode = int16(kafka.ClusterAuthorizationFailed)
	for _, x := range []struct {
		body kmsg.Response
		err  error
		want kafka.Code
	}{{nil, kafka.NotCoordinator, kafka.NotCoordinator}, {nil, nil, kafka.UnknownServerError}, {refused, nil, kafka.InvalidTxnState},
		{kmsg.NewPtrAddPartitionsToTxnResponse(), nil, kafka.UnknownServerError}} {
		q := question{all[0].check, &promise.Promise[error]{}}
		settle([]question{q}, x.body, x.err)
		if err, ok := q.answer.Get(); !ok || kafka.CodeOf(err) != x.want {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// TestInquiries: what goes to one broker goes together, but for what could not be told apart in the answer.
func TestInquiries(t *testing.T) {
	ask := func(id string, epoch kafka.ProducerEpoch) []question {
		return []question{{replica.TxnCheck{TransactionalID: id, Epoch: epoch}, &promise.Promise[error]{}}}
	}
	var away []inquiry
	for _, x := range []struct {
		to    kafka.NodeID
		id    string
		epoch kafka.ProducerEpoch
	}{{2, "a", 1}, {3, "a", 1}, {2, "b", 1}, {2, "a", 2}, {2, "c", 1}} {
		away = enclose(away, x.to, ask(x.id, x.epoch))
	}
	var got []string
	for _, q := range away {
		s := fmt.Sprint(q.to, ":")
		for _, p := range q.parts {
			s += fmt.Sprint(" ", p[0].check.TransactionalID, p[0].check.Epoch)
		}
		got = append(got, s)
	}
	if want := []string{"2: a1 b1 c1", "3: a1", "2: a2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	away[0].answered(peer.Answer{Err: kafka.RequestTimedOut})
	for _, p := range away[0].parts {
		if err, ok := p[0].answer.Get(); !ok || kafka.CodeOf(err) != kafka.NetworkException {
			t.Errorf("%v, %v", err, ok)
		}
	}
}
