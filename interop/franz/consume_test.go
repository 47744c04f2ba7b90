package franz

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (s *suite) seek(t *testing.T) {
	name := s.topic(t, 1, "segment.bytes=1048576")
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	cl := s.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 40 {
		var rs []*kgo.Record
		for j := range 10 {
			rs = append(rs, &kgo.Record{Topic: name, Value: make([]byte, 10_000),
				Timestamp: base.Add(time.Duration(10*i+j) * time.Second)})
		}
		if err := cl.ProduceSync(s.ctx, rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []int64{0, 1, 9, 10, 155, 399} {
		rs := s.read(t, name, kgo.NewOffset().At(o), int(400-o))
		equal(t, "offset", rs[0].Offset, o)
	}
	equal(t, "relative to the end", s.read(t, name, kgo.NewOffset().AtEnd().Relative(-3), 3)[0].Offset, 397)
	for _, sec := range []int64{-5, 0, 1, 77, 250, 399} {
		want := max(0, sec)
		ms := base.Add(time.Duration(sec) * time.Second).UnixMilli()
		got, err := s.adm.ListOffsetsAfterMilli(s.ctx, ms, name)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := got.Lookup(name, 0)
		equal(t, fmt.Sprintf("offset at second %d", sec), o.Offset, want)
		rs := s.read(t, name, kgo.NewOffset().AfterMilli(ms), int(400-want))
		equal(t, "consumed from a time", rs[0].Offset, want)
	}
	if start, end := s.offset(t, name, s.adm.ListStartOffsets), s.offset(t, name, s.adm.ListEndOffsets); start != 0 || end != 400 {
		t.Errorf("start %d, end %d", start, end)
	}
}

func (s *suite) offset(t *testing.T, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
	t.Helper()
	l, err := list(s.ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := l.Lookup(topic, 0)
	if !ok || o.Err != nil {
		t.Fatalf("offset of %s: %v", topic, o.Err)
	}
	return o.Offset
}

func (s *suite) specialOffsets(t *testing.T) {
	name := s.topic(t, 1)
	equal(t, "start of an empty topic", s.offset(t, name, s.adm.ListStartOffsets), 0)
	equal(t, "end of an empty topic", s.offset(t, name, s.adm.ListEndOffsets), 0)
	equal(t, "committed end of an empty topic", s.offset(t, name, s.adm.ListCommittedOffsets), 0)
	equal(t, "max timestamp of an empty topic", s.offset(t, name, s.adm.ListMaxTimestampOffsets), -1)
	s.fill(t, name, 7)
	equal(t, "end", s.offset(t, name, s.adm.ListEndOffsets), 7)
	equal(t, "committed end", s.offset(t, name, s.adm.ListCommittedOffsets), 7)
	l, err := s.adm.ListOffsetsAfterMilli(s.ctx, time.Now().Add(time.Hour).UnixMilli(), name)
	if err != nil {
		t.Fatal(err)
	}
	// kadm answers "no such record" with the end offset; the timestamp stays -1.
	o, _ := l.Lookup(name, 0)
	equal(t, "timestamp after the last record", o.Timestamp, -1)
}

func (s *suite) maxTimestamp(t *testing.T) {
	name := s.topic(t, 1)
	now := time.Now().Truncate(time.Millisecond)
	cl := s.client(t)
	for _, d := range []int{1, 9, 3} {
		r := &kgo.Record{Topic: name, Value: []byte("x"), Timestamp: now.Add(time.Duration(d) * time.Minute)}
		if err := cl.ProduceSync(s.ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.adm.ListMaxTimestampOffsets(s.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := l.Lookup(name, 0)
	equal(t, "offset", o.Offset, 1)
	equal(t, "timestamp", o.Timestamp, now.Add(9*time.Minute).UnixMilli())
}

func (s *suite) longPoll(t *testing.T) {
	name := s.topic(t, 1)
	cl := s.client(t, kgo.FetchMaxWait(10*time.Second),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}))
	s.fill(t, name, 1)
	poll(t, s.ctx, cl, 1)
	for range 5 {
		time.Sleep(200 * time.Millisecond)
		start := time.Now()
		s.fill(t, name, 1)
		poll(t, s.ctx, cl, 1)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("a waiting fetch was answered after %v", d)
		}
	}
}

// sessions adds, removes and pauses partitions of one consumer, which changes its incremental fetch session.
func (s *suite) sessions(t *testing.T) {
	name := s.topic(t, 6)
	prod := s.client(t)
	put := func(p int32) {
		t.Helper()
		if err := prod.ProduceSync(s.ctx, &kgo.Record{Topic: name, Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	at := func(ps ...int32) map[string]map[int32]kgo.Offset {
		m := map[int32]kgo.Offset{}
		for _, p := range ps {
			m[p] = kgo.NewOffset().AtStart()
		}
		return map[string]map[int32]kgo.Offset{name: m}
	}
	cl := s.client(t, kgo.ConsumePartitions(at(0, 1, 2)), kgo.FetchMaxWait(500*time.Millisecond))
	for p := range int32(6) {
		put(p)
	}
	poll(t, s.ctx, cl, 3)
	cl.AddConsumePartitions(at(3, 4))
	poll(t, s.ctx, cl, 2)
	cl.RemoveConsumePartitions(map[string][]int32{name: {0}})
	put(0)
	put(1)
	equal(t, "partition", poll(t, s.ctx, cl, 1)[0].Partition, 1)
	cl.PauseFetchPartitions(map[string][]int32{name: {2}})
	time.Sleep(600 * time.Millisecond)
	put(2)
	put(3)
	equal(t, "partition", poll(t, s.ctx, cl, 1)[0].Partition, 3)
	cl.ResumeFetchPartitions(map[string][]int32{name: {2}})
	equal(t, "partition", poll(t, s.ctx, cl, 1)[0].Partition, 2)
	cl.AddConsumePartitions(at(5))
	equal(t, "partition", poll(t, s.ctx, cl, 1)[0].Partition, 5)
}

func (s *suite) manyPartitions(t *testing.T) {
	n := int32(200)
	name := s.topic(t, n)
	cl := s.client(t)
	var rs []*kgo.Record
	for i := range 3 * n {
		rs = append(rs, &kgo.Record{Topic: name, Partition: i % n, Value: []byte("x")})
	}
	if err := cl.ProduceSync(s.ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.read(t, name, kgo.NewOffset().AtStart(), int(3*n))
}

func (s *suite) readCommitted(t *testing.T) {
	name := s.topic(t, 1)
	s.fill(t, name, 10)
	s.read(t, name, kgo.NewOffset().AtStart(), 10, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

// smallFetches reads a log with limits smaller than its batches: each fetch still makes progress.
func (s *suite) smallFetches(t *testing.T) {
	name := s.topic(t, 2)
	cl := s.client(t, kgo.ProducerBatchMaxBytes(20_000))
	var rs []*kgo.Record
	for i := range 400 {
		rs = append(rs, &kgo.Record{Topic: name, Partition: int32(i % 2), Value: make([]byte, 1000)})
	}
	if err := cl.ProduceSync(s.ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.read(t, name, kgo.NewOffset().AtStart(), 400, kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxBytes(1))
	s.read(t, name, kgo.NewOffset().AtStart(), 400, kgo.FetchMinBytes(1<<20), kgo.FetchMaxWait(200*time.Millisecond))
}
