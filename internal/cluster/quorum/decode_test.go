package quorum

import (
	"bytes"
	"os"
	"testing"

	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// FuzzControl: whatever decodes is encoded to the same bytes again, and nothing panics.
func FuzzControl(f *testing.F) {
	bodies := []ControlBody{
		LeaderChangeRecord{Leader: 1, Voters: VoterSet{testVoter(1), testVoter(2)}.ids(), Granting: VoterSet{testVoter(2)}.ids()},
		SnapshotHeaderRecord{LastContainedMs: 7}, SnapshotFooterRecord{}, KRaftVersionRecord{Version: 1},
		VotersRecord{Voters: VoterSet{testVoter(1), testVoter(5)}},
	}
	for _, b := range bodies {
		f.Add(int16(b.controlType()), b.encode(nil))
	}
	f.Add(int16(6), []byte{0, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, kind int16, value []byte) {
		body, err := DecodeControl(putInt16(putInt16(nil, 0), kind), value)
		if err != nil {
			return
		}
		again, err := DecodeControl(putInt16(putInt16(nil, 0), kind), body.encode(nil))
		if err != nil || !bytes.Equal(again.encode(nil), body.encode(nil)) {
			t.Errorf("%+v became %+v, %v", body, again, err)
		}
	})
}

// FuzzElectionState: a file is either refused or means the same after it was written again.
func FuzzElectionState(f *testing.F) {
	for _, name := range []string{"kafka-4.4-quorum-state-v0", "kafka-4.4-quorum-state-v1"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"leaderId":-1,"leaderEpoch":3,"votedId":2,"votedDirectoryId":"KyRehxcdSd6DXFVu4X9_fw","data_version":1}\nrest`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeElectionState(b)
		if err != nil {
			return
		}
		if s.KRaftVersion == 0 {
			s.Voted.Directory = [16]byte{}
		}
		raw, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeElectionState(raw)
		if err != nil || again.election() != s.election() {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

func TestElectionStateRefused(t *testing.T) {
	for _, text := range []string{``, `{}`, `{"leaderId":1,"leaderEpoch":1,"votedId":-1}`,
		`{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}`, `{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"data_version":1}`,
		`{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"x","data_version":1}`} {
		if s, err := decodeElectionState([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

// FuzzSnapshot reads arbitrary bytes as a snapshot: an error or an end, no panic, no endless read.
func FuzzSnapshot(f *testing.F) {
	for _, name := range []string{"kafka-4.4-standalone.checkpoint", "kafka-4.4-25-1.checkpoint"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 0, byte(0))
		f.Add(b, 61, byte(1))
		f.Add(b[:len(b)-75], 0, byte(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, at int, flip byte) {
		if at >= 0 && at < len(b) {
			b = bytes.Clone(b)
			b[at] ^= flip
		}
		fsys := vfs.NewMem(vfs.MemOptions{})
		file, err := fsys.Open("s", os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		r, err := openSnapshotFile(fsys, "s", OffsetAndEpoch{25, 1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n := 0
		for _, err := range r.Batches() {
			if err != nil {
				return
			}
			n++
		}
		if n > len(b)/record.HeaderSize {
			t.Errorf("%d batches in %d bytes", n, len(b))
		}
	})
}

// TestSnapshotDamage flips every byte of a real snapshot: none goes unnoticed.
func TestSnapshotDamage(t *testing.T) {
	raw := golden(t, "kafka-4.4-25-1.checkpoint")
	fsys := vfs.NewMem(vfs.MemOptions{})
	for at := range raw {
		b := bytes.Clone(raw)
		b[at] ^= 0x10
		file, err := fsys.Open("s", os.O_CREATE|os.O_RDWR|os.O_TRUNC)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := checkSnapshot(fsys, "s", OffsetAndEpoch{25, 1}); err == nil && (at < 12 || at >= 16) && !isLeaderEpoch(t, raw, at) {
			t.Errorf("byte %d", at)
		}
	}
}

// isLeaderEpoch says whether a byte belongs to a batch's leader epoch, which no checksum covers.
func isLeaderEpoch(t *testing.T, raw []byte, at int) bool {
	t.Helper()
	pos := 0
	for _, b := range splitAll(t, raw) {
		if at >= pos+12 && at < pos+16 {
			return true
		}
		pos += len(b)
	}
	return false
}
