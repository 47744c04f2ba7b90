// Package datadir checks that Moldau and Apache Kafka open each other's directories: records, topic ids, configs and
// the cluster id are kept, after a clean stop and after a kill, and both go on writing.
package datadir

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

const (
	topic      = "moved"
	partitions = 3
)

// TestKafkaToMoldauAndBack goes over one directory that Apache Kafka formats: Kafka, Moldau, Kafka.
func TestKafkaToMoldauAndBack(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			if crash && testing.Short() {
				t.Skip("short")
			}
			props, file := directory(t)
			kafka.Tool(t, "storage", "format", "--standalone", "-t", kafka.ClusterID, "-c", file)
			alternate(t, crash, kafka.Open(t, file, props), broker.MoldauConfig(t, file, props), kafka.Open(t, file, props))
		})
	}
}

// TestMoldauToKafkaAndBack goes over one directory that Moldau founds: Moldau, Kafka, Moldau.
func TestMoldauToKafkaAndBack(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			kafka.Libs(t)
			props, file := directory(t)
			alternate(t, crash, broker.MoldauConfig(t, file, props), kafka.Open(t, file, props), broker.MoldauConfig(t, file, props))
		})
	}
}

func directory(t *testing.T) (props map[string]string, file string) {
	kafka.Libs(t)
	dir := t.TempDir()
	// Small segments, so that sealed segments with their indexes and snapshots move too.
	props = kafka.Properties(t, filepath.Join(dir, "data"), map[string]string{"log.segment.bytes": "1048576"})
	return props, kafka.WriteProperties(t, dir, props)
}

// alternate lets the nodes run one after the other on their common directory; each must see what all before it wrote
// and adds to it.
func alternate(t *testing.T, crash bool, nodes ...*process.Node) {
	var first state
	for round, n := range nodes {
		n.Start(t)
		s := &session{addr: n.Addr}
		if round == 0 {
			s.create(t)
		}
		s.check(t, round)
		s.write(t, round)
		s.check(t, round+1)
		now := s.state(t)
		if round == 0 {
			first = now
		} else if now != first {
			t.Errorf("%s sees %+v, the first node saw %+v", n.Name, now, first)
		}
		if t.Failed() {
			t.Fatalf("round %d, %s printed\n%s", round, n.Name, n.Tail())
		}
		if crash {
			n.Kill()
		} else {
			n.Stop(t)
		}
	}
}

type session struct{ addr string }

// state is what must never change.
type state struct {
	cluster, topicID, retention string
}

func (s *session) client(t *testing.T, opts ...kgo.Opt) (*kgo.Client, context.Context) {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() { cancel(); cl.Close() })
	return cl, ctx
}

func (s *session) create(t *testing.T) {
	cl, ctx := s.client(t)
	retention := "987654321"
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &retention}, topic); err != nil {
		t.Fatal(err)
	}
}

// perRound records go into each partition in each round, in every codec, some with large values.
const perRound = 100

var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
	kgo.Lz4Compression(), kgo.ZstdCompression()}

func (s *session) write(t *testing.T, round int) {
	t.Helper()
	for i, codec := range codecs {
		cl, ctx := s.client(t, kgo.ProducerBatchCompression(codec))
		var rs []*kgo.Record
		for p := range partitions {
			for j := range perRound / len(codecs) {
				n := round*perRound + i*perRound/len(codecs) + j
				rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(p), Key: fmt.Append(nil, n),
					Value: value(n), Headers: []kgo.RecordHeader{{Key: "round", Value: fmt.Append(nil, round)}}})
			}
		}
		if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		cl.Close()
	}
}

// value of record n; 30 KiB of it does not compress to nothing because the number varies.
func value(n int) []byte {
	b := make([]byte, 0, 30_000)
	for x := uint32(n) + 1; len(b) < cap(b)-10; x = x*1664525 + 1013904223 {
		b = fmt.Append(b, x)
	}
	return b
}

// check reads the whole topic: the records of the given number of rounds, in order.
func (s *session) check(t *testing.T, rounds int) {
	t.Helper()
	at := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		at[p] = kgo.NewOffset().AtStart()
	}
	cl, ctx := s.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	defer cl.Close()
	next := map[int32]int{}
	for left := rounds * perRound * partitions; left > 0; {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			t.Fatalf("fetch: %v", errs)
		}
		for _, r := range fs.Records() {
			n := next[r.Partition]
			if r.Offset != int64(n) || string(r.Key) != fmt.Sprint(n) || string(r.Value) != string(value(n)) {
				t.Fatalf("partition %d: offset %d, key %s at place %d", r.Partition, r.Offset, r.Key, n)
			}
			next[r.Partition]++
			left--
		}
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != int64(rounds*perRound) || o.Err != nil {
			t.Errorf("partition %d ends at %d (%v), want %d", o.Partition, o.Offset, o.Err, rounds*perRound)
		}
	})
}

func (s *session) state(t *testing.T) state {
	t.Helper()
	cl, ctx := s.client(t)
	adm := kadm.NewClient(cl)
	meta, err := adm.Metadata(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	st := state{cluster: meta.Cluster, topicID: meta.Topics[topic].ID.String()}
	for _, c := range configs[0].Configs {
		if c.Key == "retention.ms" {
			st.retention = c.MaybeValue()
		}
	}
	return st
}
