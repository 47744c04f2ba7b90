package node

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// createTransactions makes __transaction_state.
func createTransactions(t *testing.T, n *Node) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = kafka.TransactionsTopic, 2, 1
	cleanup := kmsg.NewCreateTopicsRequestTopicConfig()
	cleanup.Name, cleanup.Value = "cleanup.policy", kmsg.StringPtr("compact")
	topic.Configs = append(topic.Configs, cleanup)
	r.Topics = append(r.Topics, topic)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if reply, err := n.control.Submit(controller.Request{Principal: kafka.Anonymous, Body: r}).Wait(ctx); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
}

// doTxn asks the coordinator of a transactional id until it is loaded.
func doTxn(t *testing.T, n *Node, id string, r kmsg.Request) kmsg.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		a, err := n.coordinators.txns.Do(id, coordinator.NewPending(coordinator.Call{}, r)).Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch kafka.CodeOf(a.Err) {
		case kafka.None:
			return a.Body
		case kafka.CoordinatorLoadInProgress, kafka.NotCoordinator:
			time.Sleep(5 * time.Millisecond)
		default:
			t.Fatal(a.Err)
		}
	}
}

// begin opens a transaction of id on partition 0 of topics, and writes a record to each.
func begin(t *testing.T, n *Node, id string, topics ...string) coordinator.Stamp {
	t.Helper()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionalID, init.TransactionTimeoutMillis = 4, &id, 60000
	init.ProducerID, init.ProducerEpoch = -1, -1
	got := doTxn(t, n, id, init).(*kmsg.InitProducerIDResponse)
	who := coordinator.Stamp{ID: kafka.ProducerID(got.ProducerID), Epoch: kafka.ProducerEpoch(got.ProducerEpoch)}
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, id, got.ProducerID, got.ProducerEpoch
	for _, topic := range topics {
		add.Topics = append(add.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: topic, Partitions: []int32{0}})
	}
	doTxn(t, n, id, add)
	for _, topic := range topics {
		appendOpen(t, n, topic, who)
	}
	return who
}

// appendOpen writes a transactional record, whether or not a coordinator knows of it.
func appendOpen(t *testing.T, n *Node, topic string, who coordinator.Stamp) {
	t.Helper()
	p, err := n.manager.Get(kafka.TopicPartition{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.Options{Transactional: true, Producer: &record.Producer{ID: who.ID, Epoch: who.Epoch}})
	b.Append(n.o.Now().UnixMilli(), nil, []byte("v"), nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	done := &promise.Promise[error]{}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) { done.Set(w.Result.Err) }}
	e, err := p.Append(n.o.Now(), replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Verify: replica.Trusted}, w)
	if err != nil {
		t.Fatal(err)
	}
	e.Run(n)
	if err, waited := done.Wait(t.Context()); err != nil || waited != nil {
		t.Fatal(err, waited)
	}
}

// askAdmin asks a handler of the admin listener.
func askAdmin(t *testing.T, pattern string, h http.HandlerFunc, path string, into any) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, h)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	var why struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &why); err != nil {
		t.Fatal(err, w.Body.String())
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err, w.Body.String())
	}
	return w.Code, why.Error
}

func TestExplainTransaction(t *testing.T) {
	n := start(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	explain := func(id string) (TransactionExplanation, int, string) {
		var e TransactionExplanation
		code, why := askAdmin(t, "GET /transactions/{id}", n.serveTransaction, "/transactions/"+id, &e)
		return e, code, why
	}
	if _, code, why := explain("a"); code != http.StatusMisdirectedRequest || why == "" {
		t.Errorf("without a topic: %d %q", code, why)
	}
	createTopic(t, n, "orders")
	createTopic(t, n, "parts")
	createTransactions(t, n)
	who := begin(t, n, "a/b", "orders", "parts")
	e, code, why := explain("a%2Fb")
	if code != http.StatusOK || e.TransactionalID != "a/b" || e.State != "Ongoing" || e.ProducerID != int64(who.ID) ||
		e.Began == nil || e.AbortsAt == nil || e.AbortsAt.Sub(*e.Began) != time.Minute || len(e.Partitions) != 2 ||
		e.Waits != "its producer, to commit or abort" || why != "" {
		t.Errorf("%d %+v %q", code, e, why)
	}
	for _, p := range e.Partitions {
		if p.StartOffset != 0 || !p.Pins || p.Behind != 1 || p.Waits != "" {
			t.Errorf("%+v", p)
		}
	}
	if _, code, why := explain("other"); code != http.StatusNotFound && code != http.StatusServiceUnavailable || why == "" {
		t.Errorf("an unknown id: %d %q", code, why)
	}

	// While the marker on one of them is refused.
	n.coordinators.markers.close()
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.Commit = 4, "a/b", true
	end.ProducerID, end.ProducerEpoch = int64(who.ID), int16(who.Epoch)
	doTxn(t, n, "a/b", end)
	e, _, _ = explain("a%2Fb")
	if e.State != "PrepareCommit" || e.Began == nil || e.AbortsAt != nil || e.Ended != "producer" {
		t.Errorf("%+v", e)
	}
	n.coordinators.markers.active["a/b"] = &marking{missing: map[kafka.TopicPartition]error{{Topic: "orders"}: kafka.NotEnoughReplicas}}
	e, _, _ = explain("a%2Fb")
	if e.Waits != "markers on 1 of 2 partitions" || e.Partitions[1].Waits != "" ||
		e.Partitions[0].Waits != "the marker was refused (NOT_ENOUGH_REPLICAS) and is tried again" {
		t.Errorf("%+v", e)
	}
	delete(n.coordinators.markers.active, "a/b")
	if e, _, _ = explain("a%2Fb"); e.Waits != "all markers are written; that is being recorded" {
		t.Errorf("%+v", e)
	}
}

func TestExplainPartition(t *testing.T) {
	n := start(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	explain := func(partition string) (PartitionExplanation, int, string) {
		var e PartitionExplanation
		code, why := askAdmin(t, "GET /partitions/{topic}/{partition}", n.servePartition, "/partitions/"+partition, &e)
		return e, code, why
	}
	createTopic(t, n, "orders")
	if e, code, why := explain("orders/0"); code != http.StatusOK || why != "" || e.Waits != "all that is written can be read" ||
		e.Transactions == nil || len(e.ISR) != 1 {
		t.Errorf("%d %+v %q", code, e, why)
	}
	for _, bad := range []string{"orders/7", "orders/x", "other/0"} {
		if _, code, why := explain(bad); code != http.StatusNotFound || why == "" {
			t.Errorf("%s: %d %q", bad, code, why)
		}
	}
	createTransactions(t, n)
	begin(t, n, "a", "orders")
	appendOpen(t, n, "orders", coordinator.Stamp{ID: 4711, Epoch: 3})
	e, _, _ := explain("orders/0")
	if e.LastStable != 0 || e.HighWatermark != 2 || len(e.Transactions) != 2 ||
		!strings.HasPrefix(e.Waits, "read_committed consumers wait at offset 0, 2 before the others") {
		t.Fatalf("%+v", e)
	}
	if x := e.Transactions[0]; x.TransactionalID != "a" || x.State != "Ongoing" || x.Hangs || x.AbortsAt == nil || x.Since == nil {
		t.Errorf("%+v", x)
	}
	if x := e.Transactions[1]; x.ProducerID != 4711 || x.ProducerEpoch != 3 || x.StartOffset != 1 || !x.Hangs || x.State != "" {
		t.Errorf("%+v", x)
	}
}

// TestTransactionSurvey: what the metrics say of open transactions, and of one that no coordinator knows.
func TestTransactionSurvey(t *testing.T) {
	n := start(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	createTopic(t, n, "orders")
	createTopic(t, n, "parts")
	createTransactions(t, n)
	expect := func(want map[string]string) {
		t.Helper()
		w := httptest.NewRecorder()
		n.o.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for name, value := range want {
			if !strings.Contains(w.Body.String(), "\n"+name+" "+value+"\n") {
				t.Errorf("%s is not %s", name, value)
			}
		}
	}
	who := begin(t, n, "a", "orders", "parts")
	now := n.o.Now()
	n.upkeep.txns.compute(now)
	expect(map[string]string{"moldau_transactional_ids": "1", `moldau_transactions{state="ongoing"}`: "1",
		"moldau_transaction_partitions": "2", "moldau_hanging_transactions": "0", "moldau_last_stable_lag_records": "1"})
	appendOpen(t, n, "orders", coordinator.Stamp{ID: 4711})
	n.upkeep.txns.compute(now)
	expect(map[string]string{"moldau_transaction_partitions": "3", "moldau_hanging_transactions": "1", "moldau_last_stable_lag_records": "2"})
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.Commit, end.ProducerID, end.ProducerEpoch = 4, "a", true, int64(who.ID), int16(who.Epoch)
	doTxn(t, n, "a", end)
	for range 500 {
		if e, _ := n.explainTransaction("a"); e.State == "CompleteCommit" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.upkeep.txns.compute(now)
	expect(map[string]string{`moldau_transactions{state="ongoing"}`: "0", "moldau_transaction_oldest_seconds": "0",
		"moldau_transaction_partitions": "1", "moldau_hanging_transactions": "1"})

	// One whose coordinators are elsewhere hangs when no coordinator would have left it open for so long.
	s := n.upkeep.txns
	p, err := n.manager.Get(kafka.TopicPartition{Topic: "orders"})
	if err != nil || len(s.seen) != 1 {
		t.Fatal(err, s.seen)
	}
	n.coordinators.txns.Close()
	_, verdicts := n.openTransactions([]*replica.Partition{p})
	if len(verdicts) != 1 || verdicts[0] != unknown {
		t.Fatal(verdicts)
	}
	s.compute(now.Add(s.late - time.Second))
	expect(map[string]string{"moldau_hanging_transactions": "0"})
	s.compute(now.Add(s.late))
	expect(map[string]string{"moldau_hanging_transactions": "1"})
}
