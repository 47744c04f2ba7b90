package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

func benchHeartbeat(member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, "g", member, epoch, -1
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 5000, []string{"a"}
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return r
}

// BenchmarkHeartbeat is the heartbeat of a member for whom there is nothing new, in a group of a hundred.
func BenchmarkHeartbeat(b *testing.B) {
	s := newConsumerShard(b, 1)
	s.conf.AssignmentInterval = 0
	s.topic("a", kafka.UUID{1: 1}, 100)
	epochs := map[string]int32{}
	for i := range 100 {
		id := fmt.Sprint("m", i)
		a := s.askAs("c", benchHeartbeat(id, 0)).(*kmsg.ConsumerGroupHeartbeatResponse)
		epochs[id] = a.MemberEpoch
	}
	last := s.askAs("c", benchHeartbeat("m99", epochs["m99"])).(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch
	b.ReportAllocs()
	for b.Loop() {
		p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, benchHeartbeat("m99", last))
		r := s.m.Handle(s.now, p, s.rnd)
		if len(r.Records) > 0 || r.Replies[0].Err != nil {
			b.Fatal(r)
		}
	}
}

// BenchmarkJoin is a thousand members who join a group of a topic with ten thousand partitions until each has its part.
func BenchmarkJoin(b *testing.B) {
	for b.Loop() {
		s := newConsumerShard(b, 1)
		s.topic("a", kafka.UUID{1: 1}, 10_000)
		begin := time.Now()
		for i := range 1000 {
			s.event(coordinator.NewPending(coordinator.Call{}, benchHeartbeat(fmt.Sprint("m", i), 0)))
		}
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-to-join")
		s.now = s.now.Add(time.Second)
		begin = time.Now()
		for i := range 1000 {
			r := benchHeartbeat(fmt.Sprint("m", i), 2)
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			s.event(coordinator.NewPending(coordinator.Call{}, r))
		}
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-to-assign")
		s.log = nil
	}
}
