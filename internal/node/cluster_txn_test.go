package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// client makes a Kafka client of the cluster.
func (c *testCluster) client(more ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, id := range c.ids {
		seeds = append(seeds, fmt.Sprintf("n%d:9092", id))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.RequestRetries(10_000),
		kgo.Dialer(c.net.ClientDialer())}, more...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// leaders counts the partitions of a topic by leader.
func (c *testCluster) leaders(topic string) map[kafka.NodeID]int {
	out := map[kafka.NodeID]int{}
	if t, ok := c.nodes[c.other(kafka.NoNode)].publisher.Image().Topic(topic); ok {
		for i := range int32(t.NumPartitions()) {
			p, _ := t.Partition(i)
			out[p.Leader]++
		}
	}
	return out
}

// TestTransactionsAcrossNodes: transactions whose partitions, groups and coordinators are led by different nodes are atomic.
func TestTransactionsAcrossNodes(t *testing.T) { transactionsAcross(t, 1, func(*testCluster, int) {}) }

// TestTransactionsOutliveANode: they are too when a node is lost in the middle, with what it led and coordinated.
func TestTransactionsOutliveANode(t *testing.T) {
	var once sync.Once
	transactionsAcross(t, 3, func(c *testCluster, round int) {
		if round == 4 {
			once.Do(func() { c.kill(2) })
		}
	})
}

// transactionsAcross runs transactions on topics of a replication factor and checks what consumers see. between is called
// in every transaction.
func transactionsAcross(t *testing.T, factor int16, between func(c *testCluster, round int)) {
	t.Helper()
	c := staticCluster(t, 3, fmt.Sprint("transaction.state.log.replication.factor=", factor), "transaction.state.log.num.partitions=6",
		fmt.Sprint("offsets.topic.replication.factor=", factor), "offsets.topic.num.partitions=6",
		fmt.Sprint("transaction.state.log.min.isr=", min(factor, 2)))
	c.start()
	c.create(c.active(), "in", 6, factor)
	c.create(c.active(), "out", 6, factor)
	if n := len(c.leaders("out")); n != 3 {
		t.Fatalf("%d nodes lead partitions of the topic", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	in, _ := c.nodes[1].publisher.Image().Topic("in")
	w := &txnWork{c, in.ID, between}
	var work sync.WaitGroup
	for id := range 6 {
		work.Go(func() { w.transact(ctx, id) })
	}
	work.Wait()
	if t.Failed() {
		return
	}
	got := map[string]int{}
	reader := c.client(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for len(got) < 6*4*6 && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got[string(r.Value)]++ })
	}
	for id := range 6 {
		for round := range 8 {
			for p := range 6 {
				v, want := fmt.Sprintf("%d/%d/%d", id, round, p), 1-round%2
				if got[v] != want {
					t.Errorf("%s is there %d times, want %d", v, got[v], want)
				}
			}
		}
	}
	if n := len(c.leaders(kafka.TransactionsTopic)); n != len(c.nodes) {
		t.Errorf("%d nodes coordinate transactions: not much of a test", n)
	}
	offsets, err := kadm.NewClient(reader).FetchOffsets(ctx, "group-3")
	if o, ok := offsets.Lookup("in", 3); err != nil || !ok || o.At != 6 {
		t.Errorf("%+v, %v: want the last that was committed", o, err)
	}
}

// txnWork is what producers do.
type txnWork struct {
	c       *testCluster
	in      kafka.UUID
	between func(c *testCluster, round int)
}

// transact runs transactions of one producer, every second of which it aborts: a record to every partition, and the
// offset of a group.
func (w *txnWork) transact(ctx context.Context, id int) {
	c := w.c
	cl := c.client(kgo.TransactionalID(fmt.Sprint("tx-", id)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for round := range 8 {
		if err := cl.BeginTransaction(); err != nil {
			c.t.Error(err)
			return
		}
		var records []*kgo.Record
		for p := range int32(6) {
			records = append(records, &kgo.Record{Topic: "out", Partition: p, Value: fmt.Appendf(nil, "%d/%d/%d", id, round, p)})
		}
		if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
			c.t.Errorf("producer %d, round %d: %v", id, round, err)
			return
		}
		w.between(c, round)
		if err := w.commitOffset(ctx, cl, fmt.Sprint("group-", id), int32(id), int64(round)); err != nil {
			c.t.Errorf("producer %d, round %d: offsets: %v", id, round, err)
			return
		}
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(round%2 == 0)); err != nil {
			c.t.Errorf("producer %d, round %d: %v", id, round, err)
			return
		}
	}
}

// commitOffset commits an offset within the open transaction, and tries again while the coordinator is loading or its node
// refuses connections: a client of one request does not look for another one by itself.
func (w *txnWork) commitOffset(ctx context.Context, cl *kgo.Client, group string, partition int32, offset int64) error {
	producer, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, _ = cl.OptValue(kgo.TransactionalID).(string)
	r.Group, r.ProducerID, r.ProducerEpoch = group, producer, epoch
	topic, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	topic.Topic, topic.TopicID, topic.Partitions = "in", w.in, append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	for {
		resp, err := r.RequestWith(ctx, cl)
		if err == nil {
			code := kafka.Code(resp.Topics[0].Partitions[0].ErrorCode)
			if code == kafka.None {
				return nil
			} else if !code.Retriable() {
				return code
			}
			err = code
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
