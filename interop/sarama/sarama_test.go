// Package sarama runs sarama, a Go client of an older kind, against the broker with several protocol versions.
package sarama

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"moldau/interop/broker"
)

func TestSarama(t *testing.T) {
	n := broker.Start(t)
	for _, v := range []sarama.KafkaVersion{sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.V4_0_0_0} {
		s := &suite{addr: []string{n.Addr}, version: v, topic: "sarama-" + v.String()}
		t.Run(v.String(), func(t *testing.T) {
			t.Run("create", s.create)
			t.Run("produce", s.produce)
			t.Run("async", s.async)
			t.Run("consume", s.consume)
			t.Run("offsets", s.offsets)
			t.Run("transactions", s.transactions)
			t.Run("configs", s.configs)
			t.Run("groups", s.groups)
			t.Run("delete", s.delete)
		})
	}
	n.Stop(t)
}

type suite struct {
	addr    []string
	version sarama.KafkaVersion
	topic   string
}

func (s *suite) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Metadata.Retry.Backoff = 50 * time.Millisecond
	return c
}

func (s *suite) admin(t *testing.T) sarama.ClusterAdmin {
	t.Helper()
	a, err := sarama.NewClusterAdmin(s.addr, s.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func (s *suite) create(t *testing.T) {
	a, retention := s.admin(t), "7654321"
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	if err := a.CreateTopic(s.topic, detail, false); err != nil {
		t.Fatal(err)
	}
	if err := a.CreateTopic(s.topic, detail, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		t.Errorf("create again: %v", err)
	}
	if err := a.CreatePartitions(s.topic, 3, nil, false); err != nil {
		t.Errorf("grow: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		md, err := a.DescribeTopics([]string{s.topic})
		if err == nil && md[0].Err == sarama.ErrNoError && len(md[0].Partitions) == 3 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("describe: %v %+v", err, md)
		}
	}
}

var codecs = []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy,
	sarama.CompressionLZ4, sarama.CompressionZSTD}

// produce writes ten records per codec to partition 0.
func (s *suite) produce(t *testing.T) {
	for i, codec := range codecs {
		c := s.config()
		c.Producer.Compression, c.Producer.RequiredAcks = codec, sarama.WaitForAll
		p, err := sarama.NewSyncProducer(s.addr, c)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 10 {
			_, offset, err := p.SendMessage(&sarama.ProducerMessage{Topic: s.topic, Partition: 0,
				Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(fmt.Sprint(10*i + j)),
				Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("x")}}})
			if err != nil || offset != int64(10*i+j) {
				t.Fatalf("%s: offset %d, %v", codec, offset, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// async writes 500 records to partition 1 as an idempotent producer.
func (s *suite) async(t *testing.T) {
	c := s.config()
	c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.RequiredAcks = true, 1, sarama.WaitForAll
	p, err := sarama.NewAsyncProducer(s.addr, c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.AsyncClose()
	go func() {
		for i := range 500 {
			p.Input() <- &sarama.ProducerMessage{Topic: s.topic, Partition: 1, Value: sarama.StringEncoder(fmt.Sprint(i))}
		}
	}()
	for range 500 {
		select {
		case <-p.Successes():
		case err := <-p.Errors():
			t.Fatal(err)
		case <-time.After(30 * time.Second):
			t.Fatal("no answer")
		}
	}
}

func (s *suite) consume(t *testing.T) {
	c, err := sarama.NewConsumer(s.addr, s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for p, want := range map[int32]int{0: 50, 1: 500} {
		for _, from := range []int64{sarama.OffsetOldest, 25} {
			pc, err := c.ConsumePartition(s.topic, p, from)
			if err != nil {
				t.Fatal(err)
			}
			for i := max(0, int(from)); i < want; i++ {
				select {
				case m := <-pc.Messages():
					if m.Offset != int64(i) || string(m.Value) != fmt.Sprint(i) {
						t.Fatalf("partition %d: offset %d, value %s at %d", p, m.Offset, m.Value, i)
					}
				case err := <-pc.Errors():
					t.Fatal(err)
				case <-time.After(20 * time.Second):
					t.Fatalf("partition %d: %d of %d records", p, i, want)
				}
			}
			_ = pc.Close()
		}
	}
	if _, err := c.ConsumePartition(s.topic, 0, 1000); !errors.Is(err, sarama.ErrOffsetOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
}

func (s *suite) offsets(t *testing.T) {
	cl, err := sarama.NewClient(s.addr, s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for at, want := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: 50, 1: 0} {
		if o, err := cl.GetOffset(s.topic, 0, at); err != nil || o != want {
			t.Errorf("offset at %d: %d, %v; want %d", at, o, err, want)
		}
	}
	if err := s.admin(t).DeleteRecords(s.topic, map[int32]int64{0: 30}); err != nil {
		t.Errorf("delete records: %v", err)
	}
	if o, err := cl.GetOffset(s.topic, 0, sarama.OffsetOldest); err != nil || o != 30 {
		t.Errorf("start after deleting: %d, %v", o, err)
	}
}

func (s *suite) configs(t *testing.T) {
	a, value := s.admin(t), "1111111"
	if err := a.AlterConfig(sarama.TopicResource, s.topic, map[string]*string{"retention.ms": &value}, false); err != nil {
		t.Fatal(err)
	}
	entries, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: s.topic, ConfigNames: []string{"retention.ms"}})
	if err != nil || len(entries) != 1 || entries[0].Value != value {
		t.Errorf("describe: %v %+v", err, entries)
	}
	if _, id, err := a.DescribeCluster(); err != nil || id != 1 {
		t.Errorf("cluster: controller %d, %v", id, err)
	}
	if dirs, err := a.DescribeLogDirs([]int32{1}); err != nil || len(dirs[1]) != 1 {
		t.Errorf("log dirs: %v %+v", err, dirs)
	}
}

func (s *suite) delete(t *testing.T) {
	a := s.admin(t)
	if err := a.DeleteTopic(s.topic); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteTopic("sarama-never-there"); !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		t.Errorf("delete what is not there: %v", err)
	}
}
