package moldautest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/moldautest"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func createTopics(t *testing.T, n *moldautest.Node, partitions int32, names ...string) {
	t.Helper()
	if _, err := kadm.NewClient(n.Client(t)).CreateTopics(within(t), partitions, 1, nil, names...); err != nil {
		t.Fatal(err)
	}
}

// stable reads what a read_committed consumer of the topic sees until the last stable offset.
func stable(t *testing.T, n *moldautest.Node, topic string) []string {
	t.Helper()
	c := n.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	ends, err := kadm.NewClient(c).ListCommittedOffsets(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	var out []string
	for ctx := within(t); ; {
		missing := false
		ends.Each(func(o kadm.ListedOffset) { missing = missing || at[o.Partition] < o.Offset })
		if !missing {
			return out
		}
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("at %v of %+v: %v", at, ends, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, string(r.Value))
			}
		})
	}
}

// TestTransactions: what is committed is seen, what is aborted is not, on all partitions, and over a restart.
func TestTransactions(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 3, "orders")
	p := n.Client(t, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	var want []string
	round := func(i int) {
		t.Helper()
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for j := range 6 {
			v := fmt.Sprintf("%d-%d", i, j)
			p.Produce(within(t), kgo.StringRecord(v), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("%s: %v", v, err)
				}
			})
			if i%3 != 2 {
				want = append(want, v)
			}
		}
		if err := p.Flush(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(within(t), kgo.TransactionEndTry(i%3 != 2)); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		slices.Sort(want)
		for {
			got := stable(t, n, "orders")
			slices.Sort(got)
			if slices.Equal(got, want) {
				return
			}
			if len(got) > len(want) || time.Now().After(deadline) {
				t.Fatalf("%d records, want %d", len(got), len(want))
			}
			time.Sleep(10 * time.Millisecond) // the last markers
		}
	}
	for i := range 9 {
		round(i)
	}
	check()
	n.Kill()
	n.Restart(t)
	round(9)
	round(10)
	check()
}

// TestFencedProducer: a second instance of a transactional id aborts what the first has open, which can do nothing more.
func TestFencedProducer(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 1, "orders")
	open := func(value string) *kgo.Client {
		c := n.Client(t, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("orders"))
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := c.ProduceSync(within(t), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	zombie := open("lost")
	next := open("kept")
	if err := next.EndTransaction(within(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	err := zombie.EndTransaction(within(t), kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Fatal(err)
	}
	coordinated(t, n, "t", "orders").settled() // its markers are written
	if got := stable(t, n, "orders"); !slices.Equal(got, []string{"kept"}) {
		t.Fatal(got)
	}
}

// TestTransactionTimeout: a producer that went away does not hold readers up for longer than it said.
func TestTransactionTimeout(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 1, "orders")
	c := n.Client(t, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("orders"), kgo.TransactionTimeout(500*time.Millisecond))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(within(t), kgo.StringRecord("lost")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(n.Client(t))
	for ctx := within(t); ; time.Sleep(20 * time.Millisecond) {
		ends, err := admin.ListCommittedOffsets(ctx, "orders")
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := ends.Lookup("orders", 0); o.Offset == 2 { // the record and the marker
			break
		}
	}
	if got := stable(t, n, "orders"); len(got) != 0 {
		t.Fatal(got)
	}
	described, err := admin.DescribeTransactions(within(t), "t")
	if err != nil || described["t"].State != "CompleteAbort" {
		t.Fatal(described, err)
	}
}

// TestGroupTransactSession copies a topic exactly once through consumers that come and go.
func TestGroupTransactSession(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("group.initial.rebalance.delay.ms", "0"))
	createTopics(t, n, 4, "in", "out")
	p := n.Client(t, kgo.DefaultProduceTopic("in"))
	const records = 400
	var want []string
	for i := range records {
		want = append(want, fmt.Sprint(i))
		p.Produce(within(t), kgo.StringRecord(want[i]), nil)
	}
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	copied := make(chan int, records)
	for i := range 3 {
		go copyOver(ctx, t, n, fmt.Sprint("copy-", i), i == 0, copied)
	}
	for total := 0; total < records; {
		select {
		case k := <-copied:
			total += k
		case <-ctx.Done():
			t.Fatalf("%d of %d copied", total, records)
		}
	}
	stop()
	slices.Sort(want)
	got := stable(t, n, "out")
	for range 200 { // a commit is answered before its markers are written
		if len(got) >= len(want) {
			break
		}
		time.Sleep(50 * time.Millisecond)
		got = stable(t, n, "out")
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

// copyOver copies from in to out in transactions until ctx ends; every fifth is aborted, and a brief one leaves after its
// third.
func copyOver(ctx context.Context, t *testing.T, n *moldautest.Node, id string, brief bool, copied chan<- int) {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(n.Address()), kgo.Dialer(n.Dial), kgo.TransactionalID(id),
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.DefaultProduceTopic("out"), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for i := 0; !brief || i < 3; i++ {
		fetches := s.PollRecords(ctx, 10)
		if ctx.Err() != nil {
			return
		}
		if err := s.Begin(); err != nil {
			t.Error(id, err)
			return
		}
		count := 0
		fetches.EachRecord(func(r *kgo.Record) {
			count++
			s.Produce(ctx, &kgo.Record{Value: r.Value}, nil)
		})
		committed, err := s.End(ctx, kgo.TransactionEndTry(i%5 != 4))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Error(id, err)
			return
		}
		if committed {
			copied <- count
		}
	}
}

// TestHangingTransaction: an administrator ends a transaction that its coordinator does not know of.
func TestHangingTransaction(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 1, "orders")
	c := n.Client(t, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("orders"))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(within(t), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id, epoch, err := c.ProducerID(within(t))
	if err != nil {
		t.Fatal(err)
	}
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch = id, epoch
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = "orders", []int32{0}
	m.Topics = append(m.Topics, topic)
	r.Markers = append(r.Markers, m)
	resp, err := r.RequestWith(within(t), n.Client(t))
	if err != nil || resp.Markers[0].Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
	if got := stable(t, n, "orders"); len(got) != 0 {
		t.Fatal(got)
	}
}

// TestTransactionOverDeletedTopic: what is gone does not keep a transaction from ending everywhere else.
func TestTransactionOverDeletedTopic(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 2, "orders", "gone")
	c := n.Client(t, kgo.TransactionalID("t"))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"orders", "gone"} {
		if err := c.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	admin := kadm.NewClient(n.Client(t))
	if _, err := admin.DeleteTopics(within(t), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(within(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; time.Sleep(10 * time.Millisecond) {
		described, err := admin.DescribeTransactions(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		if described["t"].State == "CompleteCommit" {
			break
		}
	}
	if got := stable(t, n, "orders"); len(got) != 1 {
		t.Fatal(got)
	}
}
