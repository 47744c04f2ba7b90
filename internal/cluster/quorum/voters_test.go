package quorum

import (
	"testing"

	"moldau/internal/kafka"
)

func TestVoterSet(t *testing.T) {
	set, err := NewVoterSet(testVoter(3), testVoter(1), testVoter(2))
	if err != nil || set[0].Key.ID != 1 || set[2].Key.ID != 3 {
		t.Fatalf("%v, %v", set, err)
	}
	if _, err := NewVoterSet(testVoter(1), testVoter(1)); err == nil {
		t.Error("two voters of one id")
	}
	if _, err := NewVoterSet(testVoter(-1)); err == nil {
		t.Error("a negative id")
	}
	other := ReplicaKey{ID: 2, Directory: kafka.UUID{1}}
	if !set.Contains(keyOf(2)) || set.Contains(other) || set.Contains(keyOf(4)) || set.IsOnly(keyOf(2)) {
		t.Error("membership")
	}
	// Without directory ids (kraft.version 0) the id alone counts.
	if s := (VoterSet{{Key: ReplicaKey{ID: 2}}}); !s.Contains(other) || !s.IsOnly(keyOf(2)) {
		t.Error("membership without directories")
	}
	grown := set.With(testVoter(0)).Without(2)
	if got := grown.ids(); len(got) != 3 || got[0] != 0 || got[2] != 3 || len(set) != 3 || set[1].Key.ID != 2 {
		t.Errorf("%v from %v", got, set.ids())
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		if got := make(VoterSet, n).majority(); got != want {
			t.Errorf("majority of %d: %d", n, got)
		}
	}
}

// TestVoterHistory: in force from the append on, taken back by truncation, as of any offset for snapshots.
func TestVoterHistory(t *testing.T) {
	one, two, three := VoterSet{testVoter(1)}, VoterSet{testVoter(1), testVoter(2)}, VoterSet{testVoter(2)}
	h := NewVoterHistory(three)
	if !h.Latest().Equal(three) || h.LatestOffset() != kafka.NoOffset || h.KRaftVersion() != 0 {
		t.Fatal("configured voters")
	}
	if version, voters := h.At(10); version != 0 || voters != nil {
		t.Fatal("configured voters are no part of a snapshot")
	}
	h.apply([]ControlRecord{{-1, KRaftVersionRecord{1}}, {-1, VotersRecord{one}}})
	if !h.Latest().Equal(one) || h.LatestOffset() != bootstrapOffset || h.KRaftVersion() != 1 {
		t.Fatal("bootstrap")
	}
	h.apply([]ControlRecord{{2, VotersRecord{one}}, {20, VotersRecord{two}}, {30, VotersRecord{three}}})
	if !h.Latest().Equal(three) || h.LatestOffset() != 30 {
		t.Fatal("latest")
	}
	if version, voters := h.At(30); version != 1 || !voters.Equal(two) {
		t.Errorf("as of 30: %d, %v", version, voters)
	}
	if _, voters := h.At(20); !voters.Equal(one) {
		t.Errorf("as of 20: %v", voters)
	}
	h.TruncateTo(30)
	if !h.Latest().Equal(two) || h.LatestOffset() != 20 {
		t.Error("truncated")
	}
	h.AdvanceStart(21)
	if _, voters := h.At(21); !voters.Equal(two) || len(h.voters) != 1 || h.KRaftVersion() != 1 {
		t.Errorf("after the log start: %v, %d entries", voters, len(h.voters))
	}
}

func TestSnapshotNames(t *testing.T) {
	id := OffsetAndEpoch{25, 3}
	if name := snapshotName(id); name != "00000000000000000025-0000000003.checkpoint" {
		t.Error(name)
	}
	if got, ok := parseSnapshotName(snapshotName(id)); !ok || got != id {
		t.Error(got, ok)
	}
	for _, name := range []string{"00000000000000000025.log", "25-3.checkpoint", partName(id, 0),
		"00000000000000000025-0000000003.checkpoint.deleted", "0000000000000000002x-0000000003.checkpoint",
		"-0000000000000000025-000000003.checkpoint", "99999999999999999999-0000000003.checkpoint"} {
		if _, ok := parseSnapshotName(name); ok {
			t.Error(name)
		}
	}
}
