package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// TestFirstStart founds a standalone node and compares the beginning of its log with Kafka's: the batch that
// opens the first epoch and, proposed as Kafka's controller does, the bootstrap records.
func TestFirstStart(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	voters := goldenVoters(t, "kafka-4.4-standalone.log")
	n := sole(t, fsys, func(c *Config) {
		c.Self, c.Endpoints = voters[0].Key, voters[0].Endpoints
	})
	s := n.pump.State()
	if s.Role != Leader || s.Epoch != 1 || s.Leader != 1 || s.HighWatermark != 3 || s.LogEnd != 3 || s.EpochStart != 0 {
		t.Fatalf("state %+v", s)
	}
	if epoch, ok := n.pump.InOffice(); !ok || epoch != 1 {
		t.Fatalf("in office %d, %v", epoch, ok)
	}
	want := splitAll(t, golden(t, "kafka-4.4-standalone.log"))
	values, err := dataValues(want[1])
	if err != nil {
		t.Fatal(err)
	}
	records, err := DecodeRecords(values)
	if err != nil {
		t.Fatal(err)
	}
	last, err := n.propose(testTime(), records...)
	if err != nil || last != 11 {
		t.Fatalf("last offset %d, %v", last, err)
	}
	if n.offset != 3 || n.pump.State().HighWatermark != 3 {
		t.Fatalf("delivered to %d before the sync", n.offset)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatal(err)
	}
	if n.offset != 12 || n.image.MetadataVersion() != 33 {
		t.Fatalf("delivered to %d, metadata.version %d", n.offset, n.image.MetadataVersion())
	}
	got := splitAll(t, readAll(t, fsys, "data/__cluster_metadata-0/00000000000000000000.log"))
	for i, b := range got {
		expected := rebuildAt(t, want[i], testTime().UnixMilli())
		if !bytes.Equal(b, expected) {
			t.Errorf("batch %d:\n got %x\nwant %x", i, []byte(b), []byte(expected))
		}
	}
	state := readAll(t, fsys, "data/__cluster_metadata-0/quorum-state")
	if string(state) != `{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}` {
		t.Errorf("quorum-state %s", state)
	}
	if epochs := readAll(t, fsys, "data/__cluster_metadata-0/leader-epoch-checkpoint"); string(epochs) != "0\n1\n1 0\n" {
		t.Errorf("leader-epoch-checkpoint %q", epochs)
	}
	if id := readAll(t, fsys, "data/__cluster_metadata-0/partition.metadata"); !strings.Contains(string(id), "AAAAAAAAAAAAAAAAAAAAAQ") {
		t.Errorf("partition.metadata %q", id)
	}
}

// rebuildAt gives Kafka's batch another time.
func rebuildAt(t *testing.T, b record.Batch, ms int64) record.Batch {
	t.Helper()
	return record.Batch(withTime(t, b, ms))
}

// TestRestart: the next epoch, a LeaderChange alone as Kafka writes it, the same image.
func TestRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{})
			n := sole(t, fsys, nil)
			if _, err := n.propose(testTime(), feature("metadata.version", 33), setConfig("a", "1")); err != nil {
				t.Fatal(err)
			}
			if err := n.settle(testTime()); err != nil {
				t.Fatal(err)
			}
			text, end := n.text(), n.offset
			if clean {
				if err := n.close(testTime()); err != nil {
					t.Fatal(err)
				}
			} else {
				fsys = fsys.CrashClone(testRand(5), vfs.CrashOptions{})
			}
			n = n.reopen(t, fsys, testTime())
			if s := n.pump.State(); s.Epoch != 2 || s.Role != Leader || s.EpochStart != end || s.LogEnd != end+1 {
				t.Fatalf("state %+v", s)
			}
			if n.text() != text {
				t.Errorf("image\n%s\nwant\n%s", n.text(), text)
			}
			batches := splitAll(t, readAll(t, fsys, "data/__cluster_metadata-0/00000000000000000000.log"))
			var want record.Batch
			for _, b := range splitAll(t, golden(t, "kafka-4.4-standalone.log")) {
				if b.IsControl() {
					want = b
				}
			}
			want = rebuildAt(t, slices.Clone(want), testTime().UnixMilli())
			want.SetBaseOffset(end)
			if got := batches[len(batches)-1]; !bytes.Equal(got, want) {
				t.Errorf("last batch\n got %x\nwant %x", []byte(got), []byte(want))
			}
		})
	}
}

func TestBootstrap(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	n := sole(t, fsys, nil)
	records, err := n.pump.Bootstrap()
	if err != nil || len(records) != 3 {
		t.Fatalf("%v, %v", records, err)
	}
	if r := records[0].(*metadata.FeatureLevelRecord); r.Name != "metadata.version" || r.Level != 33 {
		t.Errorf("first %+v", r)
	}
	// The file of earlier releases, at the top of the directory.
	raw := readAll(t, fsys, "data/__cluster_metadata-0/"+snapshotName(bootstrapID))
	if err := fsys.Remove("data/__cluster_metadata-0/" + snapshotName(bootstrapID)); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("data/bootstrap.checkpoint", os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(raw); err != nil {
		t.Fatal(err)
	}
	if records, err := n.pump.Bootstrap(); err != nil || len(records) != 3 {
		t.Fatalf("%v, %v", records, err)
	}
}

func TestProposeLimits(t *testing.T) {
	n := sole(t, vfs.NewMem(vfs.MemOptions{}), nil)
	many := make([]metadata.Record, MaxBatchRecords+1)
	for i := range many {
		many[i] = &metadata.NoOpRecord{}
	}
	if _, err := n.propose(testTime(), many...); !errors.Is(err, kafka.RecordListTooLarge) {
		t.Errorf("%d atomic records: %v", len(many), err)
	}
	var large []metadata.Record
	for range 300 {
		large = append(large, setConfig("a", strings.Repeat("x", 30<<10)))
	}
	if _, err := n.propose(testTime(), large...); !errors.Is(err, kafka.RecordListTooLarge) {
		t.Errorf("300 x 30 KiB of atomic records: %v", err)
	}
	if end := n.pump.NextOffset(); end != 3 {
		t.Fatalf("something was appended: %d", end)
	}
	last, err := n.pump.Propose(testTime(), Proposal{Epoch: 1, Records: append(many, large...), MetadataVersion: 33})
	if err != nil || last != 3+kafka.Offset(len(many)+len(large))-1 {
		t.Fatalf("last %d, %v", last, err)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatal(err)
	}
	if n.offset != last+1 {
		t.Errorf("delivered to %d, proposed to %d", n.offset, last)
	}
	if _, err := n.pump.Propose(testTime(), Proposal{Epoch: 2, Records: many[:1]}); !errors.Is(err, kafka.NotController) {
		t.Errorf("another epoch: %v", err)
	}
}

// TestNothingBeforeTheVote: while the election state is not on disk the replica says and does nothing.
func TestNothingBeforeTheVote(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	c := testConfig(1)
	if err := format(fsys, c, Standalone(c.Self, c.Endpoints), testTime()); err != nil {
		t.Fatal(err)
	}
	n, err := open(fsys, c, testTime(), testRand(1))
	if err != nil {
		t.Fatal(err)
	}
	cluster := c.ClusterID
	n.pump.Receive(testTime(), Message{Request: 7, Peer: Peer{ID: 2}, Body: &VoteRequest{ClusterID: &cluster, Voter: c.Self,
		Candidate: keyOf(2), Epoch: 9, Last: OffsetAndEpoch{5, 5}}})
	if s := n.pump.State(); s.Role == Leader || s.LogEnd != 0 || len(n.pump.Messages()) > 0 {
		t.Fatalf("state %+v", s)
	}
	if _, err := n.pump.Propose(testTime(), Proposal{Epoch: 1}); !errors.Is(err, kafka.NotController) {
		t.Fatalf("propose: %v", err)
	}
	if !n.work(testTime()) { // the leadership of epoch 1
		t.Fatal("no work")
	}
	// The request is taken after it, and its own consequence, an epoch without vote yet, has to be written
	// again.
	if s := n.pump.State(); s.Epoch != 1 || len(n.pump.Messages()) > 0 {
		t.Fatalf("state %+v", s)
	}
	if !n.work(testTime()) {
		t.Fatal("no work")
	}
	if m := n.pump.Messages(); len(m) == 0 {
		t.Fatal("no answer")
	}
}

func TestSnapshotAndTrim(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	n := sole(t, fsys, func(c *Config) { c.SegmentBytes, c.RetentionBytes, c.SnapshotBytes = 2000, 8000, 5000 })
	now := testTime()
	if _, err := n.propose(now, feature("metadata.version", 33)); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range 400 {
		now = now.Add(time.Second)
		if _, err := n.propose(now, setConfig(fmt.Sprintf("key%d", i%50), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		n.pump.Tick(now)
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
		if n.pump.SnapshotDue(now) {
			taken++
			if err := n.snapshot(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if taken < 4 {
		t.Fatalf("%d snapshots", taken)
	}
	now = now.Add(2 * time.Minute)
	n.pump.Tick(now)
	if err := n.settle(now); err != nil {
		t.Fatal(err)
	}
	s := n.pump.State()
	if s.LogStart == 0 || s.LogStart != n.pump.store.snapshots[0].id.Offset {
		t.Errorf("log start %d, snapshots %v", s.LogStart, n.pump.store.snapshots)
	}
	size := n.log.View().Size()
	if size > 14000 {
		t.Errorf("%d bytes of log are left", size)
	}
	text := n.text()
	n = n.reopen(t, fsys.CrashClone(testRand(5), vfs.CrashOptions{}), now)
	if n.text() != text {
		t.Errorf("image\n%s\nwant\n%s", n.text(), text)
	}
	if got := n.pump.State(); got.LogStart != n.pump.store.snapshots[0].id.Offset || got.KRaftVersion != 1 || !got.Voters.Contains(keyOf(1)) {
		t.Errorf("state %+v", got)
	}
}

// TestTrimByAge: old snapshots go, the newest stays however old it is.
func TestTrimByAge(t *testing.T) {
	n := sole(t, vfs.NewMem(vfs.MemOptions{}), func(c *Config) { c.Retention = time.Hour; c.SnapshotInterval = 10 * time.Minute })
	now := testTime()
	step := func() {
		if _, err := n.propose(now, setConfig("a", now.String())); err != nil {
			t.Fatal(err)
		}
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		now = now.Add(5 * time.Minute)
		step()
		n.pump.Tick(now)
		if n.pump.SnapshotDue(now) {
			if err := n.snapshot(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(n.pump.store.snapshots); got < 5 || got > 8 {
		t.Errorf("%d snapshots", got)
	}
	now = now.Add(24 * time.Hour)
	n.pump.Tick(now)
	if got := len(n.pump.store.snapshots); got != 1 {
		t.Errorf("%d snapshots", got)
	}
	if n.pump.SnapshotDue(now) != (n.pump.reader.bytes > 0) {
		t.Error("due without news, or not due with")
	}
}

// TestFullDisk: a full disk refuses proposals and is forgiven; nothing that was committed suffers.
func TestFullDisk(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	n := sole(t, fsys, nil)
	if _, err := n.propose(testTime(), setConfig("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatal(err)
	}
	fsys.SetCapacity(1)
	if _, err := n.propose(testTime(), setConfig("b", strings.Repeat("x", 9000))); !errors.Is(err, kafka.KafkaStorageError) {
		t.Fatalf("propose on a full disk: %v", err)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatalf("a full disk stopped the node: %v", err)
	}
	fsys.SetCapacity(0)
	last, err := n.propose(testTime(), setConfig("c", "1"))
	if err != nil || last != 4 {
		t.Fatalf("last %d, %v", last, err)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatal(err)
	}
	if n.offset != 5 {
		t.Errorf("delivered to %d", n.offset)
	}
}

// TestFullDiskAtElection: an election state that finds no room is written when there is room again, and not
// before does anything happen.
func TestFullDiskAtElection(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	c, now := testConfig(1), testTime()
	if err := format(fsys, c, Standalone(c.Self, c.Endpoints), now); err != nil {
		t.Fatal(err)
	}
	n, err := open(fsys, c, now, testRand(1))
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetCapacity(1)
	for range 3 {
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
		if s := n.pump.State(); s.Role != Unattached || s.LogEnd != 0 {
			t.Fatalf("state %+v", s)
		}
		if now = n.pump.Deadline(); now.IsZero() {
			t.Fatal("no retry")
		}
		n.pump.Tick(now)
	}
	fsys.SetCapacity(0)
	if err := n.settle(now); err != nil {
		t.Fatal(err)
	}
	if s := n.pump.State(); s.Role != Leader || s.HighWatermark != 3 {
		t.Fatalf("state %+v", s)
	}
}

// TestFailedSync: a failed sync of the log stops the node for good, and nothing unsynced was delivered.
func TestFailedSync(t *testing.T) {
	n := sole(t, vfs.NewMem(vfs.MemOptions{}), nil)
	if _, err := n.propose(testTime(), setConfig("a", "1")); err != nil {
		t.Fatal(err)
	}
	w, ok := n.pump.Work()
	if !ok {
		t.Fatal("no work")
	}
	w.token.Drop()
	n.pump.Completed(testTime(), w, errors.New("broken"))

	if n.pump.Err() == nil || n.offset != 3 {
		t.Errorf("error %v, delivered to %d", n.pump.Err(), n.offset)
	}
	if _, ok := n.pump.Next(); ok {
		t.Error("something was delivered")
	}
	if _, ok := n.pump.InOffice(); ok {
		t.Error("still in office")
	}
}

func TestDamagedSnapshot(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	n := sole(t, fsys, nil)
	now := testTime()
	for i := range 3 {
		if _, err := n.propose(now, feature("metadata.version", 33), setConfig("a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			if err := n.snapshot(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := n.text()
	latest, _ := n.pump.store.latest()
	name := "data/__cluster_metadata-0/" + snapshotName(latest.id)
	f, err := fsys.Open(name, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0x55}, 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	n = n.reopen(t, fsys.CrashClone(testRand(1), vfs.KeepAll()), now)
	if n.text() != text || len(n.pump.store.damaged) != 1 {
		t.Errorf("image\n%s\nwant\n%s\ndamaged %v", n.text(), text, n.pump.store.damaged)
	}
}

// TestTrimmedWithoutSnapshot: a log that does not begin at 0 is of no use without its snapshot, and says so.
func TestTrimmedWithoutSnapshot(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	n := sole(t, fsys, func(c *Config) { c.RetentionBytes = 1 })
	now := testTime()
	for i := range 3 {
		if _, err := n.propose(now, feature("metadata.version", 33), setConfig("a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
		if err := n.snapshot(now); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		now = now.Add(time.Hour)
		n.pump.Tick(now)
		if err := n.settle(now); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.pump.store.snapshots) != 1 || n.pump.State().LogStart == 0 {
		t.Fatalf("snapshots %v, start %d", n.pump.store.snapshots, n.pump.State().LogStart)
	}
	if err := n.close(now); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove("data/__cluster_metadata-0/" + snapshotName(n.pump.store.snapshots[0].id)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(fsys, n.config, now, testRand(1)); err == nil || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("open: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	n := sole(t, vfs.NewMem(vfs.MemOptions{}), nil)
	d, err := n.pump.Describe(testTime())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Voters) != 1 || d.Voters[0] != (ReplicaDescription{keyOf(1), 3, testTime().UnixMilli(), testTime().UnixMilli()}) ||
		d.HighWatermark != 3 || len(d.Nodes) != 1 || d.Nodes[0].Endpoints[0].Host != "n1" {
		t.Errorf("%+v", d)
	}
}
