package franz

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (s *suite) partitioners(t *testing.T) {
	name := s.topic(t, 4)
	total := 0
	for what, p := range map[string]kgo.Partitioner{
		"sticky": kgo.StickyPartitioner(), "sticky key": kgo.StickyKeyPartitioner(nil),
		"round robin": kgo.RoundRobinPartitioner(), "least backup": kgo.LeastBackupPartitioner(),
		"uniform bytes": kgo.UniformBytesPartitioner(1000, true, true, nil), "manual": kgo.ManualPartitioner(),
		"custom": kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(r *kgo.Record, n int) int { return int(r.Key[0]) % n }
		}),
	} {
		cl := s.client(t, kgo.RecordPartitioner(p))
		where := map[string]int32{}
		for i := range 40 {
			key := fmt.Appendf(nil, "k%d", i%8)
			r, err := cl.ProduceSync(s.ctx, &kgo.Record{Topic: name, Partition: int32(i % 4), Key: key,
				Value: []byte(what)}).First()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			total++
			if what == "manual" {
				equal(t, "manual partition", r.Partition, int32(i%4))
			}
			if before, ok := where[string(key)]; ok && what == "sticky key" {
				equal(t, "partition of a key", r.Partition, before)
			}
			where[string(key)] = r.Partition
		}
	}
	s.read(t, name, kgo.NewOffset().AtStart(), total)
}

func (s *suite) acks(t *testing.T) {
	name := s.topic(t, 1)
	for i, a := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		s.fill(t, name, 20, kgo.RequiredAcks(a), kgo.DisableIdempotentWrite())
		s.read(t, name, kgo.NewOffset().AtStart(), 20*(i+1))
	}
}

func (s *suite) idempotent(t *testing.T) {
	name := s.topic(t, 2)
	cl := s.client(t, kgo.ProducerBatchMaxBytes(1000))
	for i := range 500 {
		cl.Produce(s.ctx, &kgo.Record{Topic: name, Partition: int32(i % 2), Value: fmt.Appendf(nil, "%d", i)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
	}
	if err := cl.Flush(s.ctx); err != nil {
		t.Fatal(err)
	}
	last := map[int32]int{0: -2, 1: -1}
	for _, r := range s.read(t, name, kgo.NewOffset().AtStart(), 500) {
		var v int
		fmt.Sscan(string(r.Value), &v)
		equal(t, "order", v, last[r.Partition]+2)
		last[r.Partition] = v
		if r.ProducerID < 0 {
			t.Fatal("record without a producer id")
		}
	}
}

func (s *suite) compression(t *testing.T) {
	name := s.topic(t, 1)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.GzipCompression().WithLevel(9)}
	for i, c := range codecs {
		s.fill(t, name, 200, kgo.ProducerBatchCompression(c))
		rs := s.read(t, name, kgo.NewOffset().At(int64(200*i)), 200)
		equal(t, "codec", rs[0].Attrs.CompressionType(), []uint8{0, 1, 2, 3, 4, 1}[i])
		equal(t, "value", string(rs[199].Value), "v199")
	}
}

func (s *suite) topicCompression(t *testing.T) {
	for want, codec := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			name := s.topic(t, 1, "compression.type="+codec)
			s.fill(t, name, 300, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
			rs := s.read(t, name, kgo.NewOffset().AtStart(), 300)
			equal(t, "codec", rs[0].Attrs.CompressionType(), uint8(want))
			equal(t, "value", string(rs[299].Value), "v299")
		})
	}
}

func (s *suite) shapes(t *testing.T) {
	name := s.topic(t, 1)
	at := time.UnixMilli(1_700_000_000_123)
	in := []*kgo.Record{
		{Topic: name, Key: nil, Value: nil, Timestamp: at},
		{Topic: name, Key: []byte{}, Value: []byte{}, Timestamp: at},
		{Topic: name, Key: []byte("k"), Value: nil, Timestamp: at.Add(-time.Hour)},
		{Topic: name, Value: []byte("v"), Timestamp: at.Add(time.Millisecond), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}, {Key: "ü", Value: []byte{0, 255}}}},
	}
	if err := s.client(t).ProduceSync(s.ctx, in...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.read(t, name, kgo.NewOffset().AtStart(), len(in)) {
		w := in[i]
		if !bytes.Equal(r.Key, w.Key) || (r.Key == nil) != (w.Key == nil) || !bytes.Equal(r.Value, w.Value) ||
			(r.Value == nil) != (w.Value == nil) || !r.Timestamp.Equal(w.Timestamp) {
			t.Errorf("record %d: got %+v, want %+v", i, r, w)
		}
		equal(t, "headers", fmt.Sprintf("%q", r.Headers), fmt.Sprintf("%q", w.Headers))
	}
}

func (s *suite) large(t *testing.T) {
	name := s.topic(t, 1, "max.message.bytes=20000000")
	cl := s.client(t, kgo.ProducerBatchMaxBytes(19<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	rnd := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 1 << 20, 5 << 20, 16 << 20} {
		v := make([]byte, size)
		_, _ = rnd.Read(v)
		r, err := cl.ProduceSync(s.ctx, &kgo.Record{Topic: name, Value: v}).First()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		got := s.read(t, name, kgo.NewOffset().At(r.Offset), 1, kgo.FetchMaxPartitionBytes(1000),
			kgo.BrokerMaxReadBytes(100<<20))
		if !bytes.Equal(got[0].Value, v) {
			t.Errorf("%d bytes came back changed", size)
		}
	}
}

func (s *suite) tooLarge(t *testing.T) {
	name := s.topic(t, 1, "max.message.bytes=2000")
	cl := s.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	_, err := cl.ProduceSync(s.ctx, &kgo.Record{Topic: name, Value: make([]byte, 3000)}).First()
	expect(t, "a record over max.message.bytes", err, kerr.MessageTooLarge)
	if _, err := cl.ProduceSync(s.ctx, &kgo.Record{Topic: name, Value: make([]byte, 1000)}).First(); err != nil {
		t.Errorf("a smaller one after it: %v", err)
	}
	compact := s.topicNamed(t, name+"-compact", "cleanup.policy=compact")
	_, err = s.client(t).ProduceSync(s.ctx, &kgo.Record{Topic: compact, Value: []byte("v")}).First()
	expect(t, "no key in a compacted topic", err, kerr.InvalidRecord)
}

func (s *suite) topicNamed(t *testing.T, name, key string) string {
	t.Helper()
	k, v, _ := bytes.Cut([]byte(key), []byte("="))
	value := string(v)
	if _, err := s.adm.CreateTopic(s.ctx, 1, 1, map[string]*string{string(k): &value}, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func (s *suite) logAppendTime(t *testing.T) {
	name := s.topic(t, 1, "message.timestamp.type=LogAppendTime")
	before := time.Now().Add(-time.Second)
	r, err := s.client(t).ProduceSync(s.ctx, &kgo.Record{Topic: name, Timestamp: time.UnixMilli(1), Value: []byte("x")}).First()
	if err != nil {
		t.Fatal(err)
	}
	got := s.read(t, name, kgo.NewOffset().At(r.Offset), 1)[0]
	if got.Timestamp.Before(before) || got.Attrs.TimestampType() != 1 {
		t.Errorf("timestamp %v, type %d", got.Timestamp, got.Attrs.TimestampType())
	}
}

func (s *suite) autoCreate(t *testing.T) {
	cl := s.client(t, kgo.AllowAutoTopicCreation())
	name := "auto-created"
	if _, err := cl.ProduceSync(s.ctx, &kgo.Record{Topic: name, Value: []byte("x")}).First(); err != nil {
		t.Fatal(err)
	}
	meta, _ := s.adm.ListTopics(s.ctx, name)
	equal(t, "partitions", len(meta[name].Partitions), 4)
	quick, cancel := context.WithTimeout(s.ctx, 3*time.Second)
	defer cancel()
	strict := s.client(t, kgo.UnknownTopicRetries(1))
	_, err := strict.ProduceSync(quick, &kgo.Record{Topic: "not-created", Value: []byte("x")}).First()
	expect(t, "without asking for creation", err, kerr.UnknownTopicOrPartition)
}

func (s *suite) producers(t *testing.T) {
	name := s.topic(t, 1)
	s.fill(t, name, 5)
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = name, []int32{0, 7}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(s.ctx, s.client(t).SeedBrokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Partition == 7 {
			expect(t, "unknown partition", kerr.ErrorForCode(p.ErrorCode), kerr.UnknownTopicOrPartition)
		} else if p.ErrorCode != 0 || len(p.ActiveProducers) != 1 || p.ActiveProducers[0].LastSequence != 4 {
			t.Errorf("producers %+v", p)
		}
	}
}
