package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// BenchmarkClassicHeartbeat is one heartbeat in a stable group of a thousand.
func BenchmarkClassicHeartbeat(b *testing.B) {
	bench, ids := stableGroup(b, 1000)
	reqs := make([]*coordinator.Pending, len(ids))
	for i, id := range ids {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, "g", id, 1
		reqs[i] = coordinator.NewPending(coordinator.Call{}, r)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r := bench.m.Handle(bench.now, reqs[i%len(reqs)], nil); len(r.Timers) > 0 || len(r.Replies) != 1 {
			b.Fatal("a heartbeat sets a timer")
		}
	}
}

// BenchmarkClassicRebalance is a whole generation of a thousand members: all join and sync.
func BenchmarkClassicRebalance(b *testing.B) {
	for b.Loop() {
		stableGroup(b, 1000)
	}
}

// stableGroup makes a group of n members and gives their ids.
func stableGroup(b *testing.B, n int) (*classicBench, []string) {
	bench := newClassicBench(b, 1)
	var ids []string
	bench.answered = func(p *coordinator.Pending, a coordinator.Answer) {
		if r, ok := a.Body.(*kmsg.JoinGroupResponse); ok {
			ids = append(ids, r.MemberID)
		}
	}
	for i := range n {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 3, "g", 45_000, 60_000, "consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}, {Name: "sticky", Metadata: []byte("m")}}
		bench.request(fmt.Sprint("c", i), r)
	}
	bench.advance(bench.settings.InitialRebalanceDelay * 2)
	c := bench.m.groups["g"].classic()
	for i := range ids {
		id := ids[len(ids)-1-i] // the leader comes last
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, "g", id, 1
		if id == c.leader {
			for _, m := range ids {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte("p")})
			}
		}
		bench.request("c", r)
	}
	if c.phase != phaseStable || len(bench.parked) > 0 {
		b.Fatalf("%s, %d parked", c.state(), len(bench.parked))
	}
	return bench, ids
}
