package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// testNode is one replica with its disk, driven by hand.
type testNode struct {
	fs     vfs.FS
	dir    *log.Dir
	log    *log.Log
	pump   *Pump
	config Config
	// image is what was delivered, in encoded form: the last value of each key. See apply.
	image  *metadata.Image
	offset kafka.Offset
}

const testDir = "data"

func testConfig(id kafka.NodeID) Config {
	return Config{ClusterID: "MoldauTestCluster0000A", Self: keyOf(id), CanVote: true, Endpoints: testVoter(id).Endpoints}
}

// format founds a disk.
func format(fsys vfs.FS, c Config, voters VoterSet, now time.Time) error {
	if err := fsys.MkdirAll(testDir); err != nil {
		return err
	}
	err := Format(fsys, testDir, FormatOptions{Voters: voters, MetadataVersion: 33, Now: now,
		Features: []metadata.FeatureLevel{{Name: "group.version", Level: 1}, {Name: "transaction.version", Level: 2}}})
	if err != nil && !errors.Is(err, ErrFounded) {
		return err
	}
	return log.FormatDir(fsys, testDir, log.MetaProperties{ClusterID: c.ClusterID, NodeID: c.Self.ID,
		DirectoryID: c.Self.Directory})
}

// open starts a replica on a disk.
func open(fsys vfs.FS, c Config, now time.Time, rnd *rand.Rand) (*testNode, error) {
	d, err := log.OpenDir(fsys, testDir, log.MetaProperties{NodeID: c.Self.ID})
	if err != nil {
		return nil, err
	}
	p, err := Open(d, c, now, rnd)
	if err != nil {
		return nil, err
	}
	n := &testNode{fs: fsys, dir: d, log: p.Log(), pump: p, config: c, image: metadata.New()}
	p.Start(now)
	return n, nil
}

// work runs one item of work; false: there was none.
func (n *testNode) work(now time.Time) bool {
	w, ok := n.pump.Work()
	if ok {
		n.pump.Completed(now, w, w.Run())
	}
	return ok
}

// settle runs all work there is and applies what was committed.
func (n *testNode) settle(now time.Time) error {
	for {
		for n.work(now) {
		}
		if err := n.apply(); err != nil {
			return err
		}
		if len(n.pump.work) == 0 {
			return n.pump.Err()
		}
	}
}

// apply takes what was delivered into the image.
func (n *testNode) apply() error {
	for {
		d, ok := n.pump.Next()
		if !ok {
			return n.pump.Err()
		}
		if err := n.take(d); err != nil {
			return err
		}
	}
}

func (n *testNode) take(d Delivery) error {
	if d.Snapshot != nil {
		defer d.Snapshot.Close()
		n.image = metadata.New()
		for b, err := range d.Snapshot.Batches() {
			if err != nil {
				return err
			}
			if err := n.applyValues(b.Values); err != nil {
				return err
			}
		}
		id := d.Snapshot.ID()
		n.offset = id.Offset
		n.image = n.image.WithPosition(id.Offset-1, id.Epoch, d.Snapshot.LastContainedMs())
		return nil
	}
	if d.Batch.Base != n.offset {
		return fmt.Errorf("batch at %d delivered, expected %d", d.Batch.Base, n.offset)
	}
	values, err := d.Batch.Values()
	if err != nil {
		return err
	}
	if err := n.applyValues(values); err != nil {
		return err
	}
	n.offset = d.Batch.Last + 1
	n.image = n.image.WithPosition(d.Batch.Last, d.Batch.Epoch, d.Batch.TimestampMs)
	return nil
}

func (n *testNode) applyValues(values [][]byte) error {
	records, err := DecodeRecords(values)
	if err != nil {
		return err
	}
	image, _, err := n.image.Apply(records)
	if err == nil {
		n.image = image
	}
	return err
}

// snapshot writes a snapshot of the image.
func (n *testNode) snapshot(now time.Time) error {
	w, err := n.pump.NewSnapshot(now)
	if err != nil {
		return err
	}
	defer n.pump.SnapshotWritten(w)
	mv := n.image.MetadataVersion()
	for r := range n.image.Records(mv) {
		if err := w.Add(metadata.Encode(nil, r, metadata.VersionFor(r, mv))); err != nil {
			return err
		}
	}
	return w.Finish()
}

// text is the image as a comparable text.
func (n *testNode) text() string {
	out := ""
	for r := range n.image.Records(33) {
		out += fmt.Sprintf("%s %x\n", r.Type(), metadata.Encode(nil, r, metadata.VersionFor(r, 33)))
	}
	return out
}

// setConfig is a record that is easy to tell apart.
func setConfig(name, value string) metadata.Record {
	return &metadata.ConfigRecord{ResourceType: metadata.BrokerResource, Name: name, Value: &value}
}

func feature(name string, level int16) metadata.Record {
	return &metadata.FeatureLevelRecord{Name: name, Level: level}
}

func testTime() time.Time { return time.UnixMilli(1_800_000_000_000) }

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 99)) }

// sole founds and starts a cluster of one.
func sole(t *testing.T, fsys vfs.FS, change func(*Config)) *testNode {
	t.Helper()
	c := testConfig(1)
	if change != nil {
		change(&c)
	}
	if err := format(fsys, c, Standalone(c.Self, c.Endpoints), testTime()); err != nil {
		t.Fatal(err)
	}
	n, err := open(fsys, c, testTime(), testRand(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.settle(testTime()); err != nil {
		t.Fatal(err)
	}
	return n
}

// reopen starts the replica again on a disk.
func (n *testNode) reopen(t *testing.T, fsys vfs.FS, now time.Time) *testNode {
	t.Helper()
	next, err := open(fsys, n.config, now, testRand(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := next.settle(now); err != nil {
		t.Fatal(err)
	}
	return next
}

// close ends the replica in order.
func (n *testNode) close(now time.Time) error {
	n.pump.Shutdown(now)
	if err := n.settle(now); err != nil {
		return err
	}
	if err := n.pump.Close(now); err != nil {
		return err
	}
	return n.dir.Close(true, 0)
}

// propose appends records as the controller in office.
func (n *testNode) propose(now time.Time, records ...metadata.Record) (kafka.Offset, error) {
	epoch, ok := n.pump.InOffice()
	if !ok {
		return kafka.NoOffset, kafka.NotController
	}
	return n.pump.Propose(now, Proposal{Epoch: epoch, Records: records, MetadataVersion: 33, Atomic: true})
}
