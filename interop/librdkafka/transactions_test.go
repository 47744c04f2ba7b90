package librdkafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const txnTopic = "librdkafka-txn"

func (s *suite) transactional(t *testing.T, id string) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": s.addr, "transactional.id": id,
		"transaction.timeout.ms": 20000, "go.delivery.reports": false})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.InitTransactions(s.ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// begin opens a transaction and writes a value to both partitions.
func (s *suite) begin(t *testing.T, p *kafka.Producer, value string) {
	t.Helper()
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	name := txnTopic
	for i := range int32(2) {
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &name, Partition: i}, Value: []byte(value)}
		if err := p.Produce(m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := p.Flush(10000); left > 0 {
		t.Fatalf("%s: %d records are not acknowledged", value, left)
	}
}

// transactions commits, aborts, sends a live member's offsets, and fences.
func (s *suite) transactions(t *testing.T) {
	spec := []kafka.TopicSpecification{{Topic: txnTopic, NumPartitions: 2, ReplicationFactor: 1}}
	if r, err := s.adm.CreateTopics(s.ctx, spec); err != nil || r[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(r, err)
	}
	reader := s.reader(t, "librdkafka-reads")
	p := s.transactional(t, "rd")
	var want []string
	for i := range 6 {
		value := fmt.Sprint(i)
		s.begin(t, p, value)
		if i%3 == 2 {
			if err := p.AbortTransaction(s.ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := p.CommitTransaction(s.ctx); err != nil {
			t.Fatal(err)
		}
		want = append(want, value, value)
	}
	read(t, reader, want)
	s.begin(t, p, "lost")
	next := s.transactional(t, "rd")
	s.begin(t, next, "kept")
	meta, err := reader.GetConsumerGroupMetadata()
	if err != nil {
		t.Fatal(err)
	}
	at, err := reader.Position([]kafka.TopicPartition{{Topic: txnTopicName(), Partition: 0}, {Topic: txnTopicName(), Partition: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.SendOffsetsToTransaction(s.ctx, at, meta); err != nil {
		t.Fatal(err)
	}
	if err := next.CommitTransaction(s.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	if err := p.CommitTransaction(ctx); err == nil {
		t.Error("a fenced producer commits")
	}
	read(t, reader, []string{"kept", "kept"})
	got, err := reader.Committed(at, 10000)
	if err != nil || got[0].Offset != at[0].Offset || got[1].Offset != at[1].Offset {
		t.Errorf("committed %v, want %v: %v", got, at, err)
	}
}

func txnTopicName() *string {
	name := txnTopic
	return &name
}

func (s *suite) reader(t *testing.T, group string) *kafka.Consumer {
	t.Helper()
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": s.addr, "group.id": group, "enable.auto.commit": false,
		"auto.offset.reset": "earliest", "isolation.level": "read_committed", "fetch.wait.max.ms": 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Subscribe(txnTopic, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// read reads what must come next, whatever partition it comes from.
func read(t *testing.T, c *kafka.Consumer, want []string) {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		m, err := c.ReadMessage(20 * time.Second)
		if err != nil {
			t.Fatalf("%v after %v", err, got)
		}
		got = append(got, string(m.Value))
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
