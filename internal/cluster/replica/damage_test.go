package replica

import (
	"errors"
	"os"
	"testing"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

const segmentFile = "/data/orders-0/00000000000000000000.log"

// TestDamageEndsOneReplicaOnly: what befalls the files of one log takes that replica offline, and never the directory
// with everybody else's.
func TestDamageEndsOneReplicaOnly(t *testing.T) {
	for name, c := range map[string]struct {
		harm    func(t *testing.T, fs *vfs.FaultFS)
		broken  bool // the replica goes offline
		offline bool // the whole directory does
	}{
		"torn tail": {harm: func(t *testing.T, fs *vfs.FaultFS) {
			f := openFile(t, fs)
			size, _ := f.Size()
			if err := f.Truncate(size - 3); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}, broken: true},
		"rotten header": {harm: func(t *testing.T, fs *vfs.FaultFS) {
			f := openFile(t, fs)
			if _, err := f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, 8); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}, broken: true},
		"missing file": {harm: func(t *testing.T, fs *vfs.FaultFS) {
			if err := fs.Remove(segmentFile); err != nil {
				t.Fatal(err)
			}
		}, broken: true},
		"no descriptor left": {harm: func(t *testing.T, fs *vfs.FaultFS) { fault(t, fs, "open *.log 1 error EMFILE") }},
		"broken disk": {harm: func(t *testing.T, fs *vfs.FaultFS) { fault(t, fs, "open *.log 1 error EIO") },
			offline: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, fs := newIdleRig(t)
			c.harm(t, fs)
			_, err := r.append(t, AcksLeader, batch(t, "b"))
			if !errors.Is(err, kafka.KafkaStorageError) {
				t.Fatalf("append gives %v", err)
			}
			if got := len(r.desk.failed) > 0; got != c.offline {
				t.Errorf("the directory is offline: %t", got)
			}
			if got := len(r.desk.broken) > 0; got != c.broken || (r.p.Role() == Offline) != c.broken {
				t.Errorf("the log counts as broken: %t; role %s", got, r.p.Role())
			}
			if !c.broken && !c.offline {
				if _, err := r.append(t, AcksLeader, batch(t, "c")); err != nil {
					t.Errorf("the next append gives %v", err)
				}
			}
		})
	}
}

// TestDamageAnswersWhoWaits: nobody waits for a disk that this replica will not hear of any more.
func TestDamageAnswersWhoWaits(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	a, _ := r.append(t, AcksLeader, batch(t, "a"))
	b, _ := r.append(t, AcksAll, batch(t, "b"))
	token := r.p.BeginFlush()
	e := Effects{p: r.p}
	r.p.mu.Lock()
	r.p.judge(kafka.Errorf(kafka.KafkaStorageError, "offset 7 after 9"), &e)
	r.p.mu.Unlock()
	r.desk.run(e)
	a.want(t, 1, kafka.KafkaStorageError)
	b.want(t, 1, kafka.KafkaStorageError)
	// A sync that fails after that still says that the disk is broken.
	token.Drop()
	r.desk.run(r.p.Flushed(t0, token, errors.New("EIO")))
	if len(r.desk.failed) != 1 {
		t.Fatalf("the host heard of %d failures", len(r.desk.failed))
	}
}

// TestFlushWithoutDescriptors: a sync that could not be tried is no failed sync.
func TestFlushWithoutDescriptors(t *testing.T) {
	r, fs := newIdleRig(t)
	r.assign(assignmentOf(4)) // a new epoch has to go into the epoch file with the flush
	a, err := r.append(t, AcksLeader, batch(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	fault(t, fs, "create *leader-epoch-checkpoint* 1 error EMFILE")
	r.desk.flush(t, t0)
	a.want(t, 0, nil)
	if len(r.desk.failed)+len(r.desk.broken) != 0 {
		t.Fatalf("failed %v, broken %v", r.desk.failed, r.desk.broken)
	}
	r.desk.flush(t, t0)
	a.want(t, 1, nil)
}

// newIdleRig makes a partition with one durable batch and no open file.
func newIdleRig(t *testing.T) (*rig, *vfs.FaultFS) {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{})
	fs, err := vfs.Faulty(mem, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{fs: mem, desk: &desk{}}
	r.dir = openDir(t, fs)
	c := log.DefaultConfig()
	l, err := r.dir.Create(orders, &c, log.CreateOptions{TopicID: topic}, t0)
	if err != nil {
		t.Fatal(err)
	}
	r.p = newPartition(1, orders, topic, l, 0, &Limits{})
	r.assign(assignmentOf(3))
	a, err := r.append(t, AcksLeader, batch(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	r.desk.flush(t, t0)
	a.want(t, 1, nil)
	for range 3 { // the first call ends the use, the second asks for a flush of the indexes
		pending, e := r.p.CloseIdle()
		r.desk.run(e)
		if pending {
			r.desk.flush(t, t0)
		}
	}
	return r, fs
}

func assignmentOf(epoch kafka.LeaderEpoch) *metadata.Partition {
	replicas, isr := one()
	return &metadata.Partition{Replicas: replicas, ISR: isr, Leader: 1, LeaderEpoch: epoch, PartitionEpoch: kafka.PartitionEpoch(epoch)}
}

func openFile(t *testing.T, fs vfs.FS) vfs.File {
	t.Helper()
	f, err := fs.Open(segmentFile, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fault(t *testing.T, fs *vfs.FaultFS, rule string) {
	t.Helper()
	if _, err := fs.Add(rule); err != nil {
		t.Fatal(err)
	}
}
