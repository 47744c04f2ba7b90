package group

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

func benchRequest(group string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 9, group, -1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: partition, Offset: offset, LeaderEpoch: 3},
	}}}
	return r
}

// BenchmarkOffsetCommit is a commit of one partition: deciding, encoding and applying, without the runtime.
func BenchmarkOffsetCommit(b *testing.B) {
	s := newOffsetShard(b)
	s.change(s.topicRecords("orders", 12)...)
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.UnixMilli(1_700_000_000_000)
	r := benchRequest("billing", 7, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := coordinator.NewPending(coordinator.Call{}, r)
		result := s.m.Handle(now, p, rnd)
		if err := s.m.Apply(result.Records[0], coordinator.Origin{Offset: kafka.Offset(i), Producer: coordinator.NoStamp}); err != nil {
			b.Fatal(err)
		}
	}
}

// manyGroups are the records of n groups with five offsets each.
func manyGroups(b *testing.B, s *offsetShard, n int) []coordinator.Record {
	s.change(s.topicRecords("orders", 4)...)
	s.change(s.topicRecords("payments", 1)...)
	var out []coordinator.Record
	for i := range n {
		r := benchRequest(fmt.Sprintf("service-%d-consumer", i), 0, int64(i))
		for p := int32(1); p < 4; p++ {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions,
				kmsg.OffsetCommitRequestTopicPartition{Partition: p, Offset: int64(i)})
		}
		r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: "payments",
			Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}})
		result := s.m.Handle(s.now, coordinator.NewPending(coordinator.Call{}, r), s.rnd)
		out = append(out, result.Records...)
	}
	return out
}

// BenchmarkLoad applies the log of 10,000 groups with five offsets each and tells what they weigh.
func BenchmarkLoad(b *testing.B) {
	s := newOffsetShard(b)
	records := manyGroups(b, s, 10_000)
	b.ReportAllocs()
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := s.machine()
		b.StartTimer()
		for i, r := range records {
			if err := m.Apply(r, coordinator.Origin{Offset: kafka.Offset(i), Producer: coordinator.NoStamp}); err != nil {
				b.Fatal(err)
			}
		}
		m.Handle(s.now, coordinator.Loaded{Image: s.image}, s.rnd)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/10_000, "B/group")
		runtime.KeepAlive(m)
		b.StartTimer()
	}
}

// BenchmarkSweep is a pass over 10,000 groups in which nothing expires.
func BenchmarkSweep(b *testing.B) {
	s := newOffsetShard(b)
	for i, r := range manyGroups(b, s, 10_000) {
		if err := s.m.Apply(r, coordinator.Origin{Offset: kafka.Offset(i), Producer: coordinator.NoStamp}); err != nil {
			b.Fatal(err)
		}
	}
	s.advance(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		s.event(coordinator.TimerFired{Key: coordinator.TimerKey{Kind: timerExpiry}})
		for s.m.sweep.left != nil {
			s.event(coordinator.TimerFired{Key: coordinator.TimerKey{Kind: timerExpiry, Member: sweepStep}})
		}
	}
}
