package sarama

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

func (s *suite) transactional(t *testing.T, id string) sarama.SyncProducer {
	t.Helper()
	c := s.config()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	c.Producer.Transaction.ID, c.Producer.Transaction.Timeout = id, 20*time.Second
	c.Producer.Transaction.Retry.Max, c.Producer.Transaction.Retry.Backoff = 100, 20*time.Millisecond
	p, err := sarama.NewSyncProducer(s.addr, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// transactions commits, aborts, commits offsets in a transaction, and fences.
func (s *suite) transactions(t *testing.T) {
	topic, id, group := s.topic+"-txn", "sarama-"+s.version.String(), s.topic+"-group"
	if err := s.admin(t).CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		t.Fatal(err)
	}
	p := s.transactional(t, id)
	send := func(p sarama.SyncProducer, value string) error {
		for i := range int32(2) {
			m := &sarama.ProducerMessage{Topic: topic, Partition: i, Value: sarama.StringEncoder(value)}
			if _, _, err := p.SendMessage(m); err != nil {
				return err
			}
		}
		return nil
	}
	var want []string
	for i := range 6 {
		if err := p.BeginTxn(); err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprint(i)
		if err := send(p, value); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			if err := p.AbortTxn(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(i + 1)}}}
		if err := p.AddOffsetsToTxn(offsets, group); err != nil {
			t.Fatal(err)
		}
		if err := p.CommitTxn(); err != nil {
			t.Fatal(err)
		}
		want = append(want, value, value)
	}
	if got := s.committed(t, topic, len(want)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, err := s.admin(t).ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
		if err == nil && r.GetBlock(topic, 0).Offset == 5 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("offsets: %v %+v", err, r)
		}
	}
	if err := p.BeginTxn(); err != nil {
		t.Fatal(err)
	}
	if err := send(p, "lost"); err != nil {
		t.Fatal(err)
	}
	next := s.transactional(t, id)
	if err := next.BeginTxn(); err != nil {
		t.Fatal(err)
	}
	if err := send(next, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := next.CommitTxn(); err != nil {
		t.Fatal(err)
	}
	err := p.CommitTxn()
	if err == nil || !errors.Is(err, sarama.ErrProducerFenced) && !errors.Is(err, sarama.ErrInvalidProducerEpoch) &&
		p.TxnStatus()&sarama.ProducerTxnFlagFatalError == 0 {
		t.Errorf("a fenced producer commits: %v", err)
	}
	want = append(want, "kept", "kept")
	if got := s.committed(t, topic, len(want)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// committed reads n records of two partitions, merged in order.
func (s *suite) committed(t *testing.T, topic string, n int) []string {
	t.Helper()
	c := s.config()
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(s.addr, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = consumer.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var by [2][]string
	for i := range int32(2) {
		pc, err := consumer.ConsumePartition(topic, i, sarama.OffsetOldest)
		if err != nil {
			t.Fatal(err)
		}
		for len(by[i]) < n/2 {
			select {
			case m := <-pc.Messages():
				by[i] = append(by[i], string(m.Value))
			case <-ctx.Done():
				t.Fatalf("partition %d: %v", i, by[i])
			}
		}
		_ = pc.Close()
	}
	var out []string
	for k := range by[0] {
		out = append(out, by[0][k], by[1][k])
	}
	return out
}
