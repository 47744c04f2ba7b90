// Package franz runs franz-go, a Go client, against the broker: every way of producing, of consuming without a
// group, and the administration calls.
package franz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
)

// suite is one broker with what the cases share.
type suite struct {
	addr string
	adm  *kadm.Client
	ctx  context.Context
}

func TestFranz(t *testing.T) {
	n := broker.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	s := &suite{addr: n.Addr, ctx: ctx}
	s.adm = kadm.NewClient(s.client(t))
	for name, run := range map[string]func(*testing.T){
		"topics": s.topics, "configs": s.configs, "partitioners": s.partitioners, "acks": s.acks,
		"compression": s.compression, "headers and nulls": s.shapes, "large records": s.large,
		"seek": s.seek, "delete records": s.deleteRecords, "special offsets": s.specialOffsets,
		"max timestamp": s.maxTimestamp, "long poll": s.longPoll, "sessions": s.sessions,
		"many partitions": s.manyPartitions, "auto create": s.autoCreate, "recreate": s.recreate,
		"idempotent": s.idempotent, "read committed": s.readCommitted, "log dirs": s.logDirs,
		"cluster": s.cluster, "log append time": s.logAppendTime, "producers": s.producers,
		"topic compression": s.topicCompression, "too large": s.tooLarge, "slow consumer": s.smallFetches,
	} {
		t.Run(name, run)
	}
	n.Stop(t)
}

func (s *suite) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// topic creates a topic named after the test.
func (s *suite) topic(t *testing.T, partitions int32, config ...string) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", "#", "-").Replace(t.Name())
	configs := map[string]*string{}
	for _, kv := range config {
		k, v, _ := strings.Cut(kv, "=")
		configs[k] = &v
	}
	if _, err := s.adm.CreateTopic(s.ctx, partitions, 1, configs, name); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return name
}

// fill produces n records of the value "v<i>" to partition 0.
func (s *suite) fill(t *testing.T, topic string, n int, opts ...kgo.Opt) {
	t.Helper()
	cl := s.client(t, opts...)
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "v%d", i)})
	}
	if err := cl.ProduceSync(s.ctx, rs...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// read consumes n records of a topic from the given place and checks that no more follow.
func (s *suite) read(t *testing.T, topic string, at kgo.Offset, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	parts := map[int32]kgo.Offset{}
	meta, err := s.adm.ListTopics(s.ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for p := range meta[topic].Partitions {
		parts[p] = at
	}
	cl := s.client(t, append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts})}, opts...)...)
	defer cl.Close()
	return poll(t, s.ctx, cl, n)
}

func poll(t *testing.T, ctx context.Context, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var rs []*kgo.Record
	for len(rs) < n {
		fs := cl.PollFetches(ctx)
		fs.EachError(func(topic string, p int32, err error) {
			t.Fatalf("fetch %s-%d after %d of %d records: %v", topic, p, len(rs), n, err)
		})
		rs = append(rs, fs.Records()...)
	}
	if len(rs) != n {
		t.Fatalf("got %d records, want %d", len(rs), n)
	}
	return rs
}

func expect(t *testing.T, what string, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
