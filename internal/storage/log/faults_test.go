package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// TestErrorAtEveryCall lets each call of each script fail once, in several ways. The script ends with an error; nothing
// acknowledged may be lost, neither by a restart on the same page cache nor by a power cut.
func TestErrorAtEveryCall(t *testing.T) {
	rules := []string{
		"* * %d error EIO",
		"enospc * %d",
		"write * %d short 7 ENOSPC",
		"write * %d short 30",
		"sync * %d error EIO",
		"syncdir * %d error EIO",
	}
	for name, script := range crashScripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rule := range rules {
				stride := 1
				if !*long {
					stride = 9 // another part of the calls for each script and rule
				}
				for n := 1 + (len(name)+len(rule))%stride; ; n += stride {
					what := fmt.Sprintf(rule, n)
					if !failOnce(t, script, what) {
						break
					}
				}
			}
		})
	}
}

// failOnce runs a script with one rule; false when the rule never hit.
func failOnce(t *testing.T, script func(*crashRun), rule string) bool {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{})
	faulty, err := vfs.Faulty(mem, "")
	if err != nil {
		t.Fatal(err)
	}
	var id []vfs.RuleID
	counting := &countingFS{FS: faulty}
	x, err := runScript(t, mem, counting, func(x *crashRun) {
		var err error
		if id, err = faulty.Add(rule); err != nil {
			t.Fatal(err)
		}
		script(x)
	}, 0)
	hit := faulty.Hits(id[0]) > 0
	faulty.Clear()
	if err != nil {
		if !errors.Is(err, syscall.EIO) && !vfs.IsNoSpace(err) && !isShort(err) {
			t.Fatalf("%s: %v", rule, err)
		}
	}
	if x.log != nil {
		x.log.Close(false, x.now)
	}
	if n := counting.open.Load(); n != 0 {
		t.Fatalf("%s: %d files stay open", rule, n)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	x.check(t, mem.KillClone(), rule+", restart", false)
	x.check(t, mem.CrashClone(rnd, vfs.CrashOptions{}), rule+", all lost", false)
	x.check(t, mem.CrashClone(rnd, vfs.KeepSome(rnd)), rule+", some lost", true)
	return hit
}

func isShort(err error) bool {
	return err != nil && bytes.Contains([]byte(err.Error()), []byte("short write"))
}

// TestDiskFullAndBack fills the disk, checks that nothing half written stays, and goes on when space returns.
func TestDiskFullAndBack(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	c := smallConfig()
	r := newRig(t, mem, c)
	r.append(dataBatch(t, 2, epoch0.UnixMilli(), 50), leader(0))
	r.flush()
	for round := range 20 {
		free, err := mem.Free(testRoot)
		if err != nil {
			t.Fatal(err)
		}
		_ = free
		var used int64
		for _, s := range contents(mem, r.log.Path()) {
			used += int64((len(s) + 4095) / 4096 * 4096)
		}
		mem.SetCapacity(used + 4096*int64(2+round%4))
		var full error
		var end kafka.Offset
		for full == nil {
			end = r.log.View().End
			_, full = r.log.Append(dataBatch(t, 2, epoch0.UnixMilli(), 100+round*30), leader(0), epoch0)
		}
		if !vfs.IsNoSpace(full) || kafka.CodeOf(full) != kafka.KafkaStorageError {
			t.Fatalf("full disk: %v", full)
		}
		if v := r.log.View(); v.End != end {
			t.Fatalf("log end went from %d to %d", end, v.End)
		}
		if err := checkSegments(r.log); err != nil {
			t.Fatal(err)
		}
		mem.SetCapacity(0)
		r.append(dataBatch(t, 2, epoch0.UnixMilli(), 50), leader(0))
	}
	r.flush()
	want := int(r.log.View().End) / 2
	if got := readAll(t, r.log.View(), 0, 1<<20); len(got) != want {
		t.Fatalf("%d batches, want %d", len(got), want)
	}
	r.stop()
	if report := r.reopen(); !report.Clean {
		t.Fatalf("%+v", report)
	}
	if got := readAll(t, r.log.View(), 0, 1<<20); len(got) != want {
		t.Fatalf("%d batches after a restart, want %d", len(got), want)
	}
}

// TestReserve refuses plain appends while only the reserve is left, and lets the metadata log go on.
func TestReserve(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 1 << 20})
	r := newRig(t, mem, smallConfig())
	r.dir.SetReserve(900 << 10)
	meta, err := r.dir.Create(tp(kafka.MetadataTopic, 0), smallConfig(),
		CreateOptions{Options: Options{NoProducers: true, UseReserve: true}}, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	full := false
	for range 100 {
		if full, err = r.dir.CheckSpace(); err != nil {
			t.Fatal(err)
		}
		if full {
			break
		}
		r.append(dataBatch(t, 1, epoch0.UnixMilli(), 3000/2), leader(0))
	}
	_, err = r.log.Append(dataBatch(t, 1, epoch0.UnixMilli(), 10), leader(0), epoch0)
	if !full || !vfs.IsNoSpace(err) || kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatalf("full %v: %v", full, err)
	}
	if _, err := meta.Append(dataBatch(t, 1, epoch0.UnixMilli(), 10), leader(0), epoch0); err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(2 << 20)
	if full, err := r.dir.CheckSpace(); full || err != nil {
		t.Fatalf("full %v, %v", full, err)
	}
	r.append(dataBatch(t, 1, epoch0.UnixMilli(), 10), leader(0))
}

// TestFailedTransactionIndex: an abort marker whose index entry cannot be written is not in the log either.
func TestFailedTransactionIndex(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	faulty, err := vfs.Faulty(mem, "")
	if err != nil {
		t.Fatal(err)
	}
	x := newCrashRun(t, mem, faulty, crashConfig())
	x.create()
	x.produce(1, true)
	x.append(1)
	before, producers := x.log.View().End, x.log.Producers()
	ids, err := faulty.Add("create *.txnindex 1 error ENOSPC")
	if err != nil {
		t.Fatal(err)
	}
	marker, err := record.MarkerBatch(1, 0, record.EndTxnMarker{CoordinatorEpoch: 1}, x.ts)
	if err != nil {
		t.Fatal(err)
	}
	s := leader(0)
	s.Producer.Origin = FromCoordinator
	if _, err := x.log.Append(marker, s, x.now); !vfs.IsNoSpace(err) || faulty.Hits(ids[0]) == 0 {
		t.Fatalf("append: %v", err)
	}
	if v := x.log.View(); v.End != before || len(x.log.Producers()) != 1 || x.log.Producers()[0] != producers[0] {
		t.Fatalf("end %d, want %d; producers %+v", v.End, before, x.log.Producers())
	}
	if got := x.log.FirstUnstable(before); got != 0 {
		t.Fatalf("first unstable offset %d", got)
	}
	if _, err := x.log.Append(marker, s, x.now); err != nil {
		t.Fatal(err)
	}
	aborted, err := x.log.View().Aborted(0, before)
	if err != nil || len(aborted) != 1 || aborted[0].First != 0 || aborted[0].Last != before {
		t.Fatalf("aborted %+v, %v", aborted, err)
	}
}
