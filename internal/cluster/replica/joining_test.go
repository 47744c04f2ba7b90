package replica

import (
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// TestHighWatermarkWaitsForWhoIsAboutToJoin: a follower that keeps up gets into the in-sync set although the others'
// answers move the watermark all the time; one that is dead, fenced or far behind holds nobody up.
func TestHighWatermarkWaitsForWhoIsAboutToJoin(t *testing.T) {
	r := newRig(t, nil, []kafka.NodeID{1, 2, 3}, []kafka.NodeID{1, 2})
	active := true
	r.p.limits.ReplicaLag = 30 * time.Second
	r.p.limits.eligible = func(kafka.NodeID) (kafka.BrokerEpoch, bool) { return 40, active }
	now := t0
	fetch := func(id kafka.NodeID, offset kafka.Offset) {
		r.desk.run(r.p.Fetched(now, FollowerFetch{Replica: id, Epoch: 40, LeaderEpoch: 3, Offset: offset}, r.p.limits.eligible))
	}
	more := func(n kafka.Offset) {
		_, _ = r.append(t, AcksLeader, batch(t, "x"))
		r.desk.flush(t, t0)
		fetch(2, n)
	}
	want := func(hw kafka.Offset) {
		t.Helper()
		if got := r.p.HighWatermark(); got != hw {
			t.Fatalf("high watermark %d, want %d", got, hw)
		}
	}
	more(1)
	want(1)     // node 3 was never heard of
	fetch(3, 1) // has everything: joins
	if len(r.desk.proposals) != 1 {
		t.Fatal("not proposed")
	}
	r.desk.run(r.p.ISRRefused(now, r.desk.proposals[0]))
	more(2)
	want(1) // it has had everything a moment ago
	active = false
	more(3)
	want(3)
	active, now = true, now.Add(31*time.Second)
	more(4)
	want(4)
}

// TestAcceptedSetCountsWithItsImage: from the controller's answer to the image that shows the new set, the new member
// still holds the high watermark back.
func TestAcceptedSetCountsWithItsImage(t *testing.T) {
	r := newRig(t, nil, []kafka.NodeID{1, 2}, []kafka.NodeID{1})
	eligible := func(kafka.NodeID) (kafka.BrokerEpoch, bool) { return 40, true }
	r.desk.run(r.p.Fetched(t0, FollowerFetch{Replica: 2, Epoch: 40, LeaderEpoch: 3}, eligible))
	p := r.desk.proposals[0]
	if !r.p.Proposes(p) {
		t.Fatal("the proposal does not stand")
	}
	r.desk.run(r.p.ISRAccepted(t0, p, p.PartitionEpoch+1))
	_, _ = r.append(t, AcksLeader, batch(t, "a"))
	r.desk.flush(t, t0)
	if hw := r.p.HighWatermark(); hw != 0 {
		t.Fatalf("high watermark %d runs ahead of a member", hw)
	}
	r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1}, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 5})
	if !r.p.Proposes(p) {
		t.Fatal("an image that says nothing new ended the proposal")
	}
	r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1, 2}, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 6})
	if r.p.Proposes(p) {
		t.Fatal("the proposal outlives its image")
	}
	r.desk.run(r.p.ISRRefused(t0, p)) // too late, and of another epoch
	r.desk.run(r.p.Fetched(t0, FollowerFetch{Replica: 2, Epoch: 40, LeaderEpoch: 3, Offset: 1}, eligible))
	if hw := r.p.HighWatermark(); hw != 1 {
		t.Fatalf("high watermark %d", hw)
	}
}

// TestStalePositionIsNotCounted: what a follower of another term or an earlier incarnation had says nothing.
func TestStalePositionIsNotCounted(t *testing.T) {
	r := newRig(t, nil, []kafka.NodeID{1, 2}, []kafka.NodeID{1, 2})
	_, _ = r.append(t, AcksLeader, batch(t, "a"))
	r.desk.flush(t, t0)
	for _, f := range []FollowerFetch{{Replica: 2, Epoch: 41, LeaderEpoch: 3, Offset: 0},
		{Replica: 2, Epoch: 40, LeaderEpoch: 3, Offset: 1}, {Replica: 2, Epoch: 41, LeaderEpoch: 2, Offset: 1}} {
		r.desk.run(r.p.Fetched(t0, f, nil))
	}
	if hw := r.p.HighWatermark(); hw != 0 {
		t.Fatalf("high watermark %d", hw)
	}
}
