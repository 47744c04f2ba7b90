// Package librdkafka runs librdkafka, the client most languages bind to, through its Go binding. It is a module of its
// own because the binding needs a C compiler.
package librdkafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"moldau/interop/broker"
)

const topic = "librdkafka"

type suite struct {
	addr string
	ctx  context.Context
	adm  *kafka.AdminClient
}

func newSuite(t *testing.T, addr string) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	adm, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adm.Close)
	return &suite{addr: addr, ctx: ctx, adm: adm}
}

func TestLibrdkafka(t *testing.T) {
	n := broker.Start(t)
	s := newSuite(t, n.Addr)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"create", s.create}, {"produce", s.produce}, {"consume", s.consume}, {"offsets", s.offsets},
		{"transactions", s.transactions}, {"configs", s.configs}, {"cluster", s.cluster},
		{"delete records", s.deleteRecords}, {"delete", s.delete},
	} {
		t.Run(c.name, c.run)
	}
	n.Stop(t)
}

func (s *suite) create(t *testing.T) {
	spec := []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1,
		Config: map[string]string{"retention.ms": "7654321"}}}
	for _, want := range []kafka.ErrorCode{kafka.ErrNoError, kafka.ErrTopicAlreadyExists} {
		r, err := s.adm.CreateTopics(s.ctx, spec)
		if err != nil || r[0].Error.Code() != want {
			t.Fatalf("create: %v %v, want %v", err, r, want)
		}
	}
	r, err := s.adm.CreatePartitions(s.ctx, []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: 6}})
	if err != nil || r[0].Error.Code() != kafka.ErrNoError {
		t.Errorf("grow: %v %v", err, r)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		d, err := s.adm.DescribeTopics(s.ctx, kafka.NewTopicCollectionOfTopicNames([]string{topic}))
		if err == nil && len(d.TopicDescriptions[0].Partitions) == 6 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("describe: %v %+v", err, d)
		}
	}
}

// produce fills partition 0 to 5, one way each, with 100 records.
func (s *suite) produce(t *testing.T) {
	for p, config := range []kafka.ConfigMap{
		{"acks": "all", "compression.type": "none"}, {"acks": 1, "compression.type": "gzip"},
		{"acks": 0, "compression.type": "snappy"}, {"acks": "all", "compression.type": "lz4", "batch.num.messages": 7},
		{"acks": "all", "compression.type": "zstd"}, {"enable.idempotence": true, "batch.num.messages": 3},
	} {
		config["bootstrap.servers"] = s.addr
		producer, err := kafka.NewProducer(&config)
		if err != nil {
			t.Fatal(err)
		}
		name, done := topic, make(chan kafka.Event, 100)
		for i := range 100 {
			m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &name, Partition: int32(p)},
				Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "value %d", i), Headers: []kafka.Header{{Key: "h", Value: []byte("x")}}}
			if err := producer.Produce(m, done); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			if m := (<-done).(*kafka.Message); m.TopicPartition.Error != nil {
				t.Fatalf("partition %d: %v", p, m.TopicPartition.Error)
			}
		}
		producer.Close()
	}
}

func (s *suite) consume(t *testing.T) {
	// A group id is obligatory but nothing joins or commits.
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": s.addr, "group.id": "unused",
		"enable.auto.commit": false, "fetch.wait.max.ms": 200})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := topic
	var at []kafka.TopicPartition
	next := map[int32]int{}
	for p := range int32(6) {
		at = append(at, kafka.TopicPartition{Topic: &name, Partition: p, Offset: kafka.Offset(10 * p)})
		next[p] = int(10 * p)
	}
	if err := c.Assign(at); err != nil {
		t.Fatal(err)
	}
	for left := 100 + 90 + 80 + 70 + 60 + 50; left > 0; left-- {
		m, err := c.ReadMessage(20 * time.Second)
		if err != nil {
			t.Fatalf("%d records missing: %v", left, err)
		}
		p := m.TopicPartition.Partition
		if want := fmt.Sprintf("value %d", next[p]); string(m.Value) != want || len(m.Headers) != 1 {
			t.Fatalf("partition %d: %s, want %s", p, m.Value, want)
		}
		next[p]++
	}
	low, high, err := c.QueryWatermarkOffsets(topic, 0, 5000)
	if err != nil || low != 0 || high != 100 {
		t.Errorf("watermarks %d, %d, %v", low, high, err)
	}
	times, err := c.OffsetsForTimes([]kafka.TopicPartition{{Topic: &name, Partition: 0, Offset: 1}}, 5000)
	if err != nil || times[0].Offset != 0 {
		t.Errorf("offset for a time: %v %v", times, err)
	}
}

func (s *suite) offsets(t *testing.T) {
	name := topic
	for spec, want := range map[kafka.OffsetSpec]kafka.Offset{kafka.EarliestOffsetSpec: 0, kafka.LatestOffsetSpec: 100,
		kafka.NewOffsetSpecForTimestamp(1): 0} {
		r, err := s.adm.ListOffsets(s.ctx, map[kafka.TopicPartition]kafka.OffsetSpec{{Topic: &name, Partition: 0}: spec})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range r.ResultInfos {
			if o.Error.Code() != kafka.ErrNoError || o.Offset != want {
				t.Errorf("offset of %v: %v %v, want %v", spec, o.Offset, o.Error, want)
			}
		}
	}
}

func (s *suite) configs(t *testing.T) {
	resource := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: topic}
	get := func() string {
		r, err := s.adm.DescribeConfigs(s.ctx, []kafka.ConfigResource{resource})
		if err != nil || r[0].Error.Code() != kafka.ErrNoError {
			t.Fatalf("describe: %v %v", err, r)
		}
		return r[0].Config["retention.ms"].Value
	}
	if got := get(); got != "7654321" {
		t.Errorf("retention.ms %s", got)
	}
	resource.Config = []kafka.ConfigEntry{{Name: "retention.ms", Value: "1111111", IncrementalOperation: kafka.AlterConfigOpTypeSet}}
	r, err := s.adm.IncrementalAlterConfigs(s.ctx, []kafka.ConfigResource{resource})
	if err != nil || r[0].Error.Code() != kafka.ErrNoError {
		t.Fatalf("alter: %v %v", err, r)
	}
	for i := 0; get() != "1111111"; i++ {
		if i == 50 {
			t.Fatal("the new value does not show")
		}
	}
}

func (s *suite) cluster(t *testing.T) {
	d, err := s.adm.DescribeCluster(s.ctx)
	if err != nil || len(d.Nodes) != 1 || d.ClusterID == nil || *d.ClusterID == "" {
		t.Errorf("cluster: %v %+v", err, d)
	}
}

func (s *suite) deleteRecords(t *testing.T) {
	name := topic
	r, err := s.adm.DeleteRecords(s.ctx, []kafka.TopicPartition{{Topic: &name, Partition: 0, Offset: 40}})
	if err != nil || r.DeleteRecordsResults[0].TopicPartition.Error != nil ||
		r.DeleteRecordsResults[0].DeletedRecords.LowWatermark != 40 {
		t.Errorf("delete records: %v %+v", err, r)
	}
}

func (s *suite) delete(t *testing.T) {
	for _, want := range []kafka.ErrorCode{kafka.ErrNoError, kafka.ErrUnknownTopicOrPart} {
		r, err := s.adm.DeleteTopics(s.ctx, []string{topic})
		if err != nil || r[0].Error.Code() != want {
			t.Fatalf("delete: %v %v, want %v", err, r, want)
		}
	}
}
