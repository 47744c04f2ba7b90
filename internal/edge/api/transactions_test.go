package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
)

// addingRequest asks for partitions of topic "t" in one or more transactions.
func addingRequest(version int16, ids []string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = version
	if version < 4 {
		r.TransactionalID, r.ProducerID = ids[0], 7
		r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: partitions}}
		return r
	}
	for _, id := range ids {
		r.Transactions = append(r.Transactions, kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: id, ProducerID: 7,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: partitions}}})
	}
	return r
}

// codesOf are the codes of a response, and the ids they are of.
func codesOf(r *kmsg.AddPartitionsToTxnResponse) (ids []string, codes []kafka.Code) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			codes = append(codes, kafka.Code(p.ErrorCode))
		}
	}
	for _, x := range r.Transactions {
		ids = append(ids, x.TransactionalID)
		for _, t := range x.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, kafka.Code(p.ErrorCode))
			}
		}
	}
	return ids, codes
}

// TestAddPartitionsToTxn: a partition that is not there spoils its transaction for the others, and only that; what the
// coordinator refuses as a whole is told for every partition.
func TestAddPartitionsToTxn(t *testing.T) {
	g := newGroups(t)
	g.create("t", 2)
	g.transactions(3)
	for version := int16(0); version <= 5; version++ {
		ids := []string{"a", "b"}
		n := 2
		if version < 4 {
			ids, n = ids[:1], 1
		}
		g.asked = nil
		g.refuses(kafka.ConcurrentTransactions)
		_, codes := codesOf(ask[*kmsg.AddPartitionsToTxnResponse](g.fixture, addingRequest(version, ids, 0, 9)))
		if want := slices.Repeat([]kafka.Code{kafka.OperationNotAttempted, kafka.UnknownTopicOrPartition}, n); len(g.asked) != 0 ||
			!slices.Equal(codes, want) {
			t.Errorf("version %d: %v, want %v; asked %d", version, codes, want, len(g.asked))
		}
		got, codes := codesOf(ask[*kmsg.AddPartitionsToTxnResponse](g.fixture, addingRequest(version, ids, 0, 1)))
		if want := slices.Repeat([]kafka.Code{kafka.ConcurrentTransactions}, 2*n); len(g.asked) != n || !slices.Equal(codes, want) {
			t.Errorf("version %d: %v, want %v; asked %d", version, codes, want, len(g.asked))
		}
		if version >= 4 && !slices.Equal(got, ids) {
			t.Errorf("version %d answers of %q", version, got)
		}
		g.answers(func(r kmsg.Request) (kmsg.Response, error) {
			req := r.(*kmsg.AddPartitionsToTxnRequest)
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			tell := func(i int32) int16 { return int16(kafka.TransactionAbortable) * int16(i) }
			for _, t := range req.Topics {
				out := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
				for _, i := range t.Partitions {
					out.Partitions = append(out.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: i, ErrorCode: tell(i)})
				}
				resp.Topics = append(resp.Topics, out)
			}
			for _, x := range req.Transactions {
				resp.Transactions = append(resp.Transactions, addedAs(x, func(tp kafka.TopicPartition) kafka.Code {
					return kafka.Code(tell(tp.Partition))
				}))
			}
			return resp, nil
		})
		_, codes = codesOf(ask[*kmsg.AddPartitionsToTxnResponse](g.fixture, addingRequest(version, ids, 0, 1)))
		if want := slices.Repeat([]kafka.Code{kafka.None, kafka.TransactionAbortable}, n); !slices.Equal(codes, want) {
			t.Errorf("version %d: %v, want %v", version, codes, want)
		}
	}
}

// TestTransactionRefusals: every request has room for the reason why its coordinator cannot be asked.
func TestTransactionRefusals(t *testing.T) {
	g := newGroups(t)
	g.topic(2)
	g.transactions(2)
	g.refuses(kafka.ProducerFenced)
	if r := ask[*kmsg.EndTxnResponse](g.fixture, &kmsg.EndTxnRequest{Version: 5, TransactionalID: "t"}); kafka.Code(r.ErrorCode) != kafka.ProducerFenced ||
		r.ProducerID != -1 || r.ProducerEpoch != -1 {
		t.Errorf("%+v", r)
	}
	if r := ask[*kmsg.AddOffsetsToTxnResponse](g.fixture, &kmsg.AddOffsetsToTxnRequest{Version: 3, TransactionalID: "t"}); kafka.Code(r.ErrorCode) !=
		kafka.ProducerFenced {
		t.Errorf("%+v", r)
	}
	r := ask[*kmsg.DescribeTransactionsResponse](g.fixture, &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"a", "b"}})
	if len(r.TransactionStates) != 2 || r.TransactionStates[1].TransactionalID != "b" ||
		kafka.Code(r.TransactionStates[1].ErrorCode) != kafka.ProducerFenced {
		t.Errorf("%+v", r)
	}
	if r := ask[*kmsg.ListTransactionsResponse](g.fixture, kmsg.NewPtrListTransactionsRequest()); kafka.Code(r.ErrorCode) !=
		kafka.ProducerFenced {
		t.Errorf("%+v", r)
	}
}

// TestListTransactionsJoinsShards, and leaves out those that have just moved.
func TestListTransactionsJoinsShards(t *testing.T) {
	g := newGroups(t)
	g.transactions(3)
	shard := 0
	g.answers(func(kmsg.Request) (kmsg.Response, error) {
		if shard++; shard == 2 {
			return nil, kafka.NotCoordinator
		}
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.UnknownStateFilters = []string{"nosuch"}
		resp.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{{TransactionalID: string(rune('a' + shard))}}
		return resp, nil
	})
	r := ask[*kmsg.ListTransactionsResponse](g.fixture, kmsg.NewPtrListTransactionsRequest())
	if r.ErrorCode != 0 || len(r.TransactionStates) != 2 || !slices.Equal(r.UnknownStateFilters, []string{"nosuch"}) {
		t.Errorf("%+v", r)
	}
}

// committing is a TxnOffsetCommit of one partition of "t".
func committing(version int16) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.TransactionalID, r.Group, r.ProducerID, r.Generation = version, "tx", "g", 5, -1
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", TopicID: topicID("t"),
		Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
	return r
}

func committedCode(r *kmsg.TxnOffsetCommitResponse) kafka.Code {
	return kafka.Code(r.Topics[0].Partitions[0].ErrorCode)
}

// TestTxnOffsetCommitIsVerified: the coordinator of the transaction has its say first, and the group's gets the guard.
func TestTxnOffsetCommitIsVerified(t *testing.T) {
	for _, x := range []struct {
		version    int16
		word, want kafka.Code
	}{
		{3, kafka.None, kafka.None}, {4, kafka.None, kafka.None}, {5, kafka.None, kafka.None}, {6, kafka.None, kafka.None},
		{3, kafka.TransactionAbortable, kafka.InvalidTxnState}, {4, kafka.TransactionAbortable, kafka.TransactionAbortable},
		{5, kafka.ProducerFenced, kafka.InvalidProducerEpoch}, {0, kafka.ProducerFenced, kafka.InvalidProducerEpoch},
		{5, kafka.InvalidProducerIDMapping, kafka.InvalidProducerIDMapping},
		{3, kafka.ConcurrentTransactions, kafka.CoordinatorLoadInProgress},
		{5, kafka.NotCoordinator, kafka.CoordinatorLoadInProgress},
		{5, kafka.CoordinatorNotAvailable, kafka.CoordinatorLoadInProgress},
	} {
		g := newGroups(t)
		g.create("t", 1)
		g.topic(1)
		var asked []replica.TxnCheck
		g.Broker.Verify = func(c replica.TxnCheck) *promise.Promise[error] {
			asked = append(asked, c)
			if x.word == kafka.None {
				return promise.Done[error](nil)
			}
			return promise.Done[error](x.word)
		}
		g.answers(func(r kmsg.Request) (kmsg.Response, error) {
			return refuseTxnCommit(r.(*kmsg.TxnOffsetCommitRequest), nil), nil
		})
		got := committedCode(ask[*kmsg.TxnOffsetCommitResponse](g.fixture, committing(x.version)))
		if got != x.want {
			t.Errorf("version %d, %s: %s, want %s", x.version, x.word.Name(), got.Name(), x.want.Name())
		}
		if len(asked) != 1 || asked[0].Add != (x.version >= 5) || asked[0].TransactionalID != "tx" ||
			asked[0].Partition != (kafka.TopicPartition{Topic: kafka.OffsetsTopic}) {
			t.Errorf("version %d asks %+v", x.version, asked)
		}
		if passed := len(g.asked) == 1; passed != (x.word == kafka.None) || passed && g.asked[0].Guard != asked[0].Guard {
			t.Errorf("version %d, %s: the group was asked %d times", x.version, x.word.Name(), len(g.asked))
		}
	}
}

// TestTxnOffsetCommitIsNotVerified when the setting says so, when the transaction is open there already, and when nothing
// of the request can be stored.
func TestTxnOffsetCommitIsNotVerified(t *testing.T) {
	g := newGroups(t)
	g.create("t", 1)
	g.topic(1)
	g.Broker.Verify = func(c replica.TxnCheck) *promise.Promise[error] {
		t.Errorf("asked %+v", c)
		return promise.Done[error](nil)
	}
	g.answers(func(r kmsg.Request) (kmsg.Response, error) {
		return refuseTxnCommit(r.(*kmsg.TxnOffsetCommitRequest), nil), nil
	})
	unknown := committing(5)
	unknown.Topics[0].Topic = "nosuch"
	ask[*kmsg.TxnOffsetCommitResponse](g.fixture, unknown)
	g.Config = g.static([]string{"transaction.partition.verification.enable", "false"})
	ask[*kmsg.TxnOffsetCommitResponse](g.fixture, committing(3))
	if last := g.asked[len(g.asked)-1]; last.Verify != replica.Trusted {
		t.Errorf("%+v", last)
	}
	g.Config = g.static(nil)
	g.verifying.Store(nil)
	part, err := g.Partitions.Get(kafka.TopicPartition{Topic: kafka.OffsetsTopic})
	if err != nil {
		t.Fatal(err)
	}
	o := record.Options{Producer: &record.Producer{ID: 5, Sequence: kafka.NoSequence}, Transactional: true}
	w := &replica.AppendWaiter{Done: func(*replica.AppendWaiter) {}}
	e, err := part.Append(g.clock(), replica.AppendRequest{Batch: batchOf(t, o, "a"), LeaderEpoch: kafka.NoEpoch,
		Verify: replica.Trusted}, w)
	if err != nil {
		t.Fatal(err)
	}
	e.Run(g.fixture)
	ask[*kmsg.TxnOffsetCommitResponse](g.fixture, committing(5))
	if len(g.asked) != 3 || g.asked[2].Guard != 0 {
		t.Errorf("%d requests, %+v", len(g.asked), g.asked[len(g.asked)-1])
	}
}

// TestWriteTxnMarkers answers for every partition of every marker in its place.
func TestWriteTxnMarkers(t *testing.T) {
	f := newFixture(t)
	f.create("t", 2)
	f.WriteMarker = func(tp kafka.TopicPartition, m coordinator.Marker) *promise.Promise[error] {
		if m.Partition != tp.Partition || m.CoordinatorEpoch != 3 || m.Commit != (m.Producer.ID == 1) ||
			m.TransactionVersion != 2*int16(m.Producer.ID-1) {
			t.Errorf("%s: %+v", tp, m)
		}
		if tp.Partition == 1 {
			return promise.Done[error](kafka.TransactionCoordinatorFenced)
		}
		return promise.Done[error](nil)
	}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 2
	for id := int64(1); id <= 2; id++ {
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.Committed, m.CoordinatorEpoch, m.TransactionVersion = id, id == 1, 3, int8(2*(id-1))
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{1, 0, 9}}, {Topic: "none", Partitions: []int32{0}}}
		req.Markers = append(req.Markers, m)
	}
	resp := ask[*kmsg.WriteTxnMarkersResponse](f, req)
	for i, m := range resp.Markers {
		var codes []kafka.Code
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, kafka.Code(p.ErrorCode))
			}
		}
		want := []kafka.Code{kafka.TransactionCoordinatorFenced, kafka.None, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition}
		if m.ProducerID != int64(i+1) || !slices.Equal(codes, want) {
			t.Errorf("%+v", m)
		}
	}
}
