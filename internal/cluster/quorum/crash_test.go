package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// soleLife is what was promised during the lives of a sole voter.
type soleLife struct {
	proposed int               // records appended so far: config keys 0, 1, 2, ...
	acked    int               // of those, the ones that were delivered
	epoch    kafka.LeaderEpoch // highest that was let out
}

func crashConfig() Config {
	c := testConfig(1)
	c.SegmentBytes, c.RetentionBytes, c.SnapshotBytes = 900, 2500, 1500
	return c
}

// live founds or restarts a sole voter and works until it is done or the disk fails. Everything that a power
// cut must not take back goes into life.
func live(fsys *vfs.Mem, life *soleLife, seed uint64) error {
	c, now := crashConfig(), testTime()
	if err := format(fsys, c, Standalone(c.Self, c.Endpoints), now); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	n, err := open(fsys, c, now, testRand(seed))
	if err != nil {
		return err
	}
	if err := n.settle(now); err != nil {
		return err
	}
	if err := life.check(n); err != nil {
		return err
	}
	for range 40 {
		now = now.Add(20 * time.Second)
		records := []metadata.Record{setConfig(fmt.Sprint(life.proposed), "x")}
		life.proposed++
		if _, err := n.propose(now, records...); err != nil {
			return err
		}
		if err := n.settle(now); err != nil {
			return err
		}
		life.acked = life.proposed
		n.pump.Tick(now)
		if n.pump.SnapshotDue(now) {
			if err := n.snapshot(now); err != nil {
				return err
			}
		}
	}
	return n.close(now)
}

// errBroken marks a broken promise, as opposed to a disk that has crashed.
type errBroken struct{ error }

// check compares a restarted replica with what was promised.
func (life *soleLife) check(n *testNode) error {
	s := n.pump.State()
	if s.Role != Leader || s.Epoch <= life.epoch {
		return errBroken{fmt.Errorf("%s of epoch %d after epoch %d", s.Role, s.Epoch, life.epoch)}
	}
	life.epoch = s.Epoch
	count := 0
	if configs := n.image.Config(metadata.BrokerResource, ""); configs != nil {
		for ok := true; ok; count++ {
			_, ok = configs.Get(fmt.Sprint(count))
		}
		count--
	}
	if count < life.acked || count > life.proposed {
		return errBroken{fmt.Errorf("%d records, acknowledged %d, proposed %d", count, life.acked, life.proposed)}
	}
	// What was not acknowledged may be there or not; from now on it is settled.
	life.proposed, life.acked = count, count
	return nil
}

// TestCrashAnywhere cuts the power at every mutating call of two lives, with several patterns of what the
// disk kept, then at random calls of the recovery, and looks for broken promises.
func TestCrashAnywhere(t *testing.T) {
	whole := vfs.NewMem(vfs.MemOptions{})
	if err := live(whole, &soleLife{}, 1); err != nil {
		t.Fatal(err)
	}
	calls := whole.Calls()
	n, err := open(whole, crashConfig(), testTime(), testRand(1))
	if err != nil {
		t.Fatal(err)
	}
	if start := n.pump.State().LogStart; calls < 150 || start == 0 {
		t.Fatalf("%d calls, log start %d: the script is too tame", calls, start)
	}
	for at := int64(1); at <= calls; at++ {
		for pattern := range uint64(3) {
			seed := uint64(at)*10 + pattern
			if err := crashOnce(at, pattern, testRand(seed)); err != nil {
				t.Fatalf("call %d, pattern %d: %v", at, pattern, err)
			}
		}
	}
}

func crashOnce(at int64, pattern uint64, rnd *rand.Rand) error {
	life := &soleLife{}
	disk := vfs.NewMem(vfs.MemOptions{})
	disk.CrashAt(at)
	err := live(disk, life, 1)
	for round := 0; ; round++ {
		if _, broken := errors.AsType[errBroken](err); broken {
			return err
		}
		if !disk.Crashed() {
			return err
		}
		keep := vfs.CrashOptions{}
		switch pattern {
		case 1:
			keep = vfs.KeepAll()
		case 2:
			keep = vfs.KeepSome(rnd)
		}
		disk = disk.CrashClone(rnd, keep)
		if round < 2 {
			disk.CrashAt(1 + rnd.Int64N(60))
		}
		err = live(disk, life, uint64(round))
	}
}
