package replica

import (
	"testing"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// house is a Manager over two log directories on different file systems.
type house struct {
	*Manager
	desk *desk
	dirs [2]*log.Dir
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{desk: &desk{}}
	for i := range h.dirs {
		h.dirs[i] = openDir(t, vfs.NewMem(vfs.MemOptions{}))
	}
	c := log.DefaultConfig()
	h.Manager = NewManager(ManagerOptions{Self: 1, Dirs: h.dirs[:],
		Config:  func(*metadata.Image, string) *log.Config { return &c },
		NewUUID: func() kafka.UUID { return kafka.UUID{0: 3, 15: 77} }})
	return h
}

// ensure gives the node the partition orders, recorded in no directory yet.
func (h *house) ensure(t *testing.T) (*Partition, Applied) {
	t.Helper()
	var out Applied
	h.Manager.ensure(t0, metadata.New(), &metadata.Topic{Name: orders.Topic, ID: topic}, 0, &metadata.Partition{
		Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1, Directories: make([]kafka.UUID, 1)}, h.desk, &out)
	p, err := h.Get(orders)
	if err != nil {
		t.Fatal(err)
	}
	return p, out
}

func (h *house) create(t *testing.T, d *log.Dir) *log.Log {
	t.Helper()
	c := log.DefaultConfig()
	l, err := d.Create(orders, &c, log.CreateOptions{TopicID: topic}, t0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBrokenPartitionIsNeverMadeAnew(t *testing.T) {
	h := newHouse(t)
	h.Broken(orders)
	p, out := h.ensure(t)
	if p.Role() != Offline || out.Created != 0 || len(out.Failed) != 1 {
		t.Fatalf("role %s, %d created, failures %v", p.Role(), out.Created, out.Failed)
	}
	if h.Intact(h.dirs[0]) {
		t.Fatal("a directory with a partition that did not open counts as intact")
	}
}

func TestDirectoryThatFailedBeforeThePartitionWasKnown(t *testing.T) {
	h := newHouse(t)
	if err := h.Adopt(h.create(t, h.dirs[1])); err != nil {
		t.Fatal(err)
	}
	h.DirFailed(h.dirs[1], h.desk)
	if p, _ := h.ensure(t); p.Role() != Offline {
		t.Fatalf("a %s in a failed directory", p.Role())
	}
}

func TestFailedDeletionTakesTheDirectoryOffline(t *testing.T) {
	h := newHouse(t)
	fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "rename orders-0 1- error EIO")
	if err != nil {
		t.Fatal(err)
	}
	h.dirs[0] = openDir(t, fs)
	h.o.Dirs = h.dirs[:1]
	h.ensure(t)
	var out Applied
	h.remove(t0, orders, topic, h.desk, &out)
	if len(out.Failed) != 1 || len(h.desk.failed) != 1 {
		t.Fatalf("failures %v, directories failed %v", out.Failed, h.desk.failed)
	}
}

func TestCloseAnswersAndTellsWhatIsOwed(t *testing.T) {
	replicas, isr := one()
	for _, late := range []bool{false, true} {
		r := newRig(t, nil, replicas, isr)
		a, _ := r.append(t, AcksAll, batch(t, "a"))
		if err := r.p.PrepareClose(t0); err != nil {
			t.Fatal(err)
		}
		r.desk.flush(t, t0)
		a.want(t, 1, nil)
		var b, c *outcome
		if late {
			b, _ = r.append(t, AcksAll, batch(t, "b"))
			c, _ = r.append(t, AcksLeader, batch(t, "c"))
		}
		clean, e := r.p.Close(t0)
		r.desk.run(e)
		if clean == late {
			t.Fatalf("clean %t, written to after the flush %t", clean, late)
		}
		if late {
			b.want(t, 1, kafka.NotLeaderOrFollower)
			c.want(t, 1, kafka.NotLeaderOrFollower)
		}
	}
}

func TestReplicaIsMadeWhenSpaceReturns(t *testing.T) {
	h := newHouse(t)
	fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "mkdir orders-0 1 error ENOSPC")
	if err != nil {
		t.Fatal(err)
	}
	h.dirs[0] = openDir(t, fs)
	h.o.Dirs = h.dirs[:1]
	image, diff, err := metadata.New().Apply([]metadata.Record{
		&metadata.TopicRecord{Name: orders.Topic, TopicID: topic},
		&metadata.PartitionRecord{TopicID: topic, Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1,
			Directories: make([]kafka.UUID, 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Apply(t0, image, diff, true, h.desk)
	if p, err := h.Get(orders); err != nil || p.Role() != Offline || !h.Unmade() {
		t.Fatalf("without space: %v, waits %t", err, h.Unmade())
	}
	h.Remake(t0, image, h.desk)
	if p, err := h.Get(orders); err != nil || p.Role() != Leader || h.Unmade() {
		t.Fatalf("with space: %v, waits %t", err, h.Unmade())
	}
}
