package replica

import (
	"os"
	"path"
	"testing"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// TestFollowersThatAlternateAreSuspected: each follower that asks for a place again is noticed, however many others do.
func TestFollowersThatAlternateAreSuspected(t *testing.T) {
	var s suspicion
	ask := func(id kafka.NodeID, at kafka.Offset) bool { return s.suspect(ReadSpec{Replica: id, Offset: at}, 10) }
	for id := range kafka.NodeID(4) {
		if ask(id, 7) {
			t.Errorf("%d is suspected of its first read", id)
		}
	}
	for id := range kafka.NodeID(4) {
		if !ask(id, 7) || ask(id, 8) {
			t.Errorf("%d asks twice for one place, then for the next", id)
		}
	}
	if ask(kafka.NoNode, 7) || ask(kafka.NoNode, 7) {
		t.Error("consumers are not followers")
	}
	for id := range kafka.NodeID(100) {
		ask(id, 1)
	}
	if len(s.seen) > maxSuspects {
		t.Errorf("%d are remembered", len(s.seen))
	}
}

// TestRotIsCutOnlyWhenNobodyCountsOnIt: a damaged replica stays whole but for the damage while it is in the in-sync set or
// eligible to lead, or the controller has not taken down that it is lost; then it is cut at the damage and is not well
// before it has everything again.
func TestRotIsCutOnlyWhenNobodyCountsOnIt(t *testing.T) {
	both := []kafka.NodeID{1, 2}
	follow := func(epoch int, s metadata.Partition) *metadata.Partition {
		s.Replicas, s.Leader, s.LeaderEpoch, s.PartitionEpoch = both, 2, 4, kafka.PartitionEpoch(epoch)
		return &s
	}
	for name, c := range map[string]struct {
		state metadata.Partition
		cut   bool
	}{
		"in sync":     {metadata.Partition{ISR: both, Directories: []kafka.UUID{kafka.DirectoryLost, {1}}}, false},
		"eligible":    {metadata.Partition{ISR: both[1:], ELR: both[:1], Directories: []kafka.UUID{kafka.DirectoryLost, {1}}}, false},
		"not told":    {metadata.Partition{ISR: both[1:], Directories: []kafka.UUID{{1}, {1}}}, false},
		"given up":    {metadata.Partition{ISR: both[1:], Directories: []kafka.UUID{kafka.DirectoryLost, {1}}}, true},
		"nobody else": {metadata.Partition{ISR: both[:1], Directories: []kafka.UUID{kafka.DirectoryLost, {1}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *log.Config) { c.FlushAsync = true }, both, both)
			for _, v := range []string{"a", "b", "c"} {
				if _, err := r.append(t, AcksLeader, batch(t, v)); err != nil {
					t.Fatal(err)
				}
			}
			if r.p.Rotten(1) {
				t.Fatal("a whole batch is taken for a damaged one")
			}
			r.damage(t, 1)
			if !r.p.Rotten(1) || r.p.Rotten(1) || r.p.Rotten(2) {
				t.Fatal("damage is told of once")
			}
			r.desk.run(r.p.Assign(t0, Assignment{State: follow(6, c.state)}))
			end := r.p.Log().View().End
			if lost, rotten := r.p.damage(); (end == 1) != c.cut || lost != c.cut || rotten == c.cut {
				t.Fatalf("the log ends at %d, lost %t, rotten %t", end, lost, rotten)
			}
			regained, e, err := r.p.Replicate(t0, nil, LeaderView{Epoch: 4, Offset: end, HighWatermark: 1})
			r.desk.run(e)
			if err != nil || regained != c.cut {
				t.Errorf("regained %t, %v", regained, err)
			}
		})
	}
}

// damage spoils the last byte of the n-th batch.
func (r *rig) damage(t *testing.T, n int) {
	t.Helper()
	f, err := r.fs.Open(path.Join(r.p.Log().Path(), "00000000000000000000.log"), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int(r.p.Log().View().Size()) / 3
	b := make([]byte, size*(n+1))
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}
