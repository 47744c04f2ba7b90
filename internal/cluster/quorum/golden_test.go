package quorum

import (
	"bytes"
	"io"
	"os"
	"path"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// The files kafka-4.4-* in testdata were written by one node of Apache Kafka 4.4.0: formatted with
// --standalone, started, stopped, started again and killed.

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(path.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(b record.Batch, err error) record.Batch {
	if err != nil {
		panic(err)
	}
	return b
}

func splitAll(t *testing.T, b []byte) []record.Batch {
	t.Helper()
	var out []record.Batch
	for len(b) > 0 {
		first, rest, err := record.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkBatch(first); err != nil {
			t.Fatal(err)
		}
		out, b = append(out, first), rest
	}
	return out
}

// rebuild takes a batch apart and puts it together again.
func rebuild(t *testing.T, b record.Batch) record.Batch {
	t.Helper()
	if !b.IsControl() {
		values, err := dataValues(b)
		if err != nil {
			t.Fatal(err)
		}
		return stamped(must(dataBatch(b.BaseTimestamp(), values)), b.BaseOffset(), b.LeaderEpoch())
	}
	records, err := controlRecords(b)
	if err != nil {
		t.Fatal(err)
	}
	var bodies []ControlBody
	for _, r := range records {
		bodies = append(bodies, r.Body)
	}
	return stamped(must(controlBatch(b.BaseTimestamp(), bodies)), b.BaseOffset(), b.LeaderEpoch())
}

// TestGoldenBatches rebuilds every batch of Kafka's log and snapshots from what we understand of it.
func TestGoldenBatches(t *testing.T) {
	for _, name := range []string{"kafka-4.4-standalone.log", "kafka-4.4-standalone.checkpoint", "kafka-4.4-25-1.checkpoint"} {
		batches := splitAll(t, golden(t, name))
		if len(batches) < 3 {
			t.Fatalf("%s: %d batches", name, len(batches))
		}
		for _, b := range batches {
			if got := rebuild(t, b); !bytes.Equal(got, b) {
				t.Errorf("%s: batch at %d:\n got %x\nwant %x", name, b.BaseOffset(), []byte(got), []byte(b))
			}
		}
	}
}

// withTime gives every batch of a snapshot one time, and its header too: what differs from run to run.
func withTime(t *testing.T, raw []byte, ms int64) []byte {
	t.Helper()
	var out []byte
	for _, b := range splitAll(t, raw) {
		if !b.IsControl() {
			values, _ := dataValues(b)
			out = append(out, stamped(must(dataBatch(ms, values)), b.BaseOffset(), b.LeaderEpoch())...)
			continue
		}
		records, _ := controlRecords(b)
		var bodies []ControlBody
		for _, r := range records {
			if _, ok := r.Body.(SnapshotHeaderRecord); ok {
				r.Body = SnapshotHeaderRecord{LastContainedMs: ms}
			}
			bodies = append(bodies, r.Body)
		}
		out = append(out, stamped(must(controlBatch(ms, bodies)), b.BaseOffset(), b.LeaderEpoch())...)
	}
	return out
}

func readAll(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// goldenVoters is the voter set in Kafka's files.
func goldenVoters(t *testing.T, name string) VoterSet {
	t.Helper()
	for _, b := range splitAll(t, golden(t, name)) {
		if !b.IsControl() {
			continue
		}
		records, err := controlRecords(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if v, ok := r.Body.(VotersRecord); ok {
				return v.Voters
			}
		}
	}
	t.Fatal("no voters")
	return nil
}

// TestFormatStandalone founds a cluster as `kafka-storage format --standalone` does, byte for byte.
func TestFormatStandalone(t *testing.T) {
	voters := goldenVoters(t, "kafka-4.4-standalone.checkpoint")
	if len(voters) != 1 || voters[0].Key.ID != 1 || voters[0].Endpoints[0] != (Endpoint{"CONTROLLER", "127.0.0.1", 29201}) {
		t.Fatalf("voters %+v", voters)
	}
	fsys := vfs.NewMem(vfs.MemOptions{})
	if err := fsys.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_000)
	o := FormatOptions{
		Voters:          Standalone(voters[0].Key, []Endpoint{{"CONTROLLER", "127.0.0.1", 29201}}),
		MetadataVersion: 33,
		Features: []metadata.FeatureLevel{{Name: "transaction.version", Level: 2}, {Name: "streams.version", Level: 1},
			{Name: "share.version", Level: 2}, {Name: "group.version", Level: 1}, {Name: "unused.version", Level: 0},
			{Name: "eligible.leader.replicas.version", Level: 1}},
		Now: now,
	}
	if err := Format(fsys, "data", o); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, fsys, "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
	if want := withTime(t, golden(t, "kafka-4.4-standalone.checkpoint"), now.UnixMilli()); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	if err := Format(fsys, "data", o); err == nil {
		t.Error("a founded directory was formatted again")
	}
}

// TestGoldenSnapshot writes Kafka's snapshot again from its content.
func TestGoldenSnapshot(t *testing.T) {
	raw := golden(t, "kafka-4.4-25-1.checkpoint")
	fsys := vfs.NewMem(vfs.MemOptions{})
	id := OffsetAndEpoch{Offset: 25, Epoch: 1}
	if err := fsys.MkdirAll("in"); err != nil {
		t.Fatal(err)
	}
	if err := fsys.MkdirAll("out"); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("in/"+snapshotName(id), os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(raw); err != nil {
		t.Fatal(err)
	}
	r, err := openSnapshot(fsys, "in", id)
	if err != nil {
		t.Fatal(err)
	}
	var values [][]byte
	for b, err := range r.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, b.Values...)
	}
	if records, err := DecodeRecords(values); err != nil || len(records) != 9 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if r.LastContainedMs() != 1796051526316 {
		t.Errorf("last contained time %d", r.LastContainedMs())
	}
	w, err := newSnapshotWriter(fsys, "out", snapshotStart{id: id, timestampMs: 7, lastContainedMs: 7, kraftVersion: 1,
		voters: goldenVoters(t, "kafka-4.4-25-1.checkpoint")})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(values...); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, fsys, "out/"+snapshotName(id)); !bytes.Equal(got, withTime(t, raw, 7)) {
		t.Errorf("got %x", got)
	}
}

func TestGoldenElectionState(t *testing.T) {
	for name, want := range map[string]ElectionState{
		"kafka-4.4-quorum-state-v1": {Epoch: 2, Leader: 1, Voted: NoReplica, KRaftVersion: 1},
		"kafka-4.4-quorum-state-v0": {Epoch: 1, Leader: 1, Voted: NoReplica, Voters: []kafka.NodeID{1}},
	} {
		raw := golden(t, name)
		got, err := decodeElectionState(raw)
		if err != nil {
			t.Fatal(name, err)
		}
		if got.election() != want.election() || got.KRaftVersion != want.KRaftVersion {
			t.Errorf("%s: %+v", name, got)
		}
		if b, err := want.encode(); err != nil || !bytes.Equal(b, raw) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}
