package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// cleanScript writes and compacts until an error. attempted is how far compaction may have come, durable what is
// acknowledged.
type cleanScript struct {
	*cleanRun
	attempted, durable kafka.Offset
	// beforeCut is the history that a cut at cutAt ended. Until the cut is durable a power cut may bring it back.
	beforeCut []record.Batch
	cutAt     kafka.Offset
}

// judgeEither is judge with either history; it gives the one that fits.
func (s *cleanScript) judgeEither(l *Log) ([]record.Batch, error) {
	err := s.judge(l, s.attempted)
	if err == nil || s.beforeCut == nil || s.durable > s.cutAt {
		return s.history, err
	}
	before := *s.cleanRun
	before.history = s.beforeCut
	return before.history, before.judge(l, s.attempted)
}

func (s *cleanScript) run(cut bool) error {
	if err := s.create(); err != nil {
		return err
	}
	for round := range 4 {
		s.now = s.now.Add(400 * time.Millisecond)
		err := s.fill(16)
		if err == nil && round != 1 {
			err = s.endAll()
		}
		if err == nil {
			err = s.roll()
		}
		if err != nil {
			return err
		}
		s.durable = s.log.Durable()
		s.attempted = s.log.View().last().base
		if _, err := s.clean(); err != nil {
			return err
		}
		if round == 1 {
			if err := s.dir.Checkpoint(nil); err != nil {
				return err
			}
		}
		if _, err := s.log.DeletePending(s.now); err != nil {
			return err
		}
		if cut && round == 2 {
			if err := s.cutAndGoOn(); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutAndGoOn cuts the log in the middle of a compaction, at the high watermark, and writes other things there.
func (s *cleanScript) cutAndGoOn() error {
	err := s.fill(16)
	if err == nil {
		err = s.endAll()
	}
	if err == nil {
		err = s.roll()
	}
	if err != nil {
		return err
	}
	s.attempted = s.log.View().last().base
	s.durable, s.highWatermark = s.log.Durable(), s.log.View().End
	if err := s.fill(5); err != nil {
		return err
	}
	c, err := s.begin()
	if err != nil {
		return err
	}
	for range 14 {
		if _, _, err := c.Step(900); err != nil {
			return err
		}
	}
	if err := s.log.TruncateTo(s.highWatermark); err != nil {
		return err
	}
	end := s.log.View().End
	s.beforeCut, s.cutAt = slices.Clone(s.history), s.highWatermark
	s.history = slices.DeleteFunc(s.history, func(b record.Batch) bool { return b.LastOffset() >= end })
	for err == nil {
		_, _, err = c.Step(900)
	}
	if err != ErrCleanAborted {
		return err
	}
	c.Abandon()
	s.epoch++
	clear(s.open)
	for id := range s.seq {
		delete(s.seq, id)
	}
	for _, p := range s.log.Producers() {
		s.seq[p.ProducerID] = record.AddSequence(p.LastSequence, 1)
	}
	s.highWatermark = 0
	return nil
}

func startScript(t tb, mem *vfs.Mem, fsys vfs.FS, crashAt int64) (*cleanScript, int64) {
	d := formatAndOpen(t, fsys, testRoot)
	before := mem.Calls()
	if crashAt > 0 {
		mem.CrashAt(before + crashAt)
	}
	return &cleanScript{cleanRun: newCleanRun(t, d, cleanConfig(), rand.New(rand.NewPCG(4, 4)))}, before
}

// TestCleanCrashAtEveryCall crashes a life with compactions at each mutating call. Whatever a power cut leaves: the newest
// value of each key is there, nothing that was aborted or deleted comes back, also after the next compaction.
func TestCleanCrashAtEveryCall(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", cut), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(vfs.MemOptions{})
			s, before := startScript(t, mem, mem, 0)
			must(t, s.run(cut))
			must(t, s.judge(s.log, s.attempted))
			calls := mem.Calls() - before
			t.Logf("%d calls, %d offsets, %d segments", calls, s.log.View().End, s.log.View().Segments())
			step := int64(17)
			if *long {
				step = 1
			}
			for at := 1 + calls%step; at <= calls; at += step {
				mem := vfs.NewMem(vfs.MemOptions{})
				s, _ := startScript(t, mem, mem, at)
				if err := s.run(cut); err != nil && !errors.Is(err, vfs.ErrCrashed) {
					t.Fatalf("call %d: %v", at, err)
				}
				rnd := rand.New(rand.NewPCG(uint64(at), 7))
				s.check(t, mem.KillClone(), fmt.Sprintf("call %d, kill", at))
				s.check(t, mem.CrashClone(rnd, vfs.CrashOptions{}), fmt.Sprintf("call %d, all lost", at))
				for i := range 4 { // names kept and lost in many combinations are what matters here
					s.glance(t, mem.CrashClone(rnd, vfs.CrashOptions{Blocks: 1, Sizes: 1, Names: 0.5}), fmt.Sprintf("call %d, names %d", at, i))
				}
				for i := range *crashSeeds {
					keep := vfs.KeepSome(rnd)
					s.check(t, mem.CrashClone(rnd, keep), fmt.Sprintf("call %d, random %d %+v", at, i, keep))
					s.checkNested(t, mem.CrashClone(rnd, vfs.KeepSome(rnd)), rnd, fmt.Sprintf("call %d, nested", at))
				}
			}
		})
	}
}

func (s *cleanScript) recover(mem *vfs.Mem) (*Dir, *Log, error) {
	d, err := OpenDir(mem, testRoot, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		return nil, nil, err
	}
	c := *s.config
	c.Compact = false // as when a node starts: what the topic is configured to is not known yet
	l, _, err := d.Open(tp("t", 0), &c, Options{}, s.now)
	return d, l, err
}

// glance recovers, once with a crash in between, and compares.
func (s *cleanScript) glance(t *testing.T, mem *vfs.Mem, what string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(len(what)), uint64(mem.Calls())))
	twin := mem.KillClone()
	twin.CrashAt(1 + s.rnd.Int64N(24))
	if _, _, err := s.recover(twin); err != nil && !errors.Is(err, vfs.ErrCrashed) && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s, cut: %v", what, err)
	}
	for _, m := range []*vfs.Mem{mem, twin.CrashClone(rnd, vfs.CrashOptions{Blocks: 1, Sizes: 1, Names: 0.5})} {
		_, l, err := s.recover(m)
		if errors.Is(err, fs.ErrNotExist) && s.durable == 0 {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := s.judgeEither(l); err != nil {
			t.Fatalf("%s: %v; files %v", what, err, listFiles(m, l.Path()))
		}
		l.Close(false, s.now)
	}
}

// check recovers, compares, compacts and compares again.
func (s *cleanScript) check(t *testing.T, mem *vfs.Mem, what string) {
	t.Helper()
	d, l, err := s.recover(mem)
	if errors.Is(err, fs.ErrNotExist) && s.durable == 0 {
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if end := l.View().End; end < s.durable {
		t.Fatalf("%s: log ends at %d, acknowledged %d", what, end, s.durable)
	}
	history, err := s.judgeEither(l)
	if err != nil {
		t.Fatalf("%s: %v; files %v", what, err, listFiles(mem, l.Path()))
	}
	for name := range contents(mem, l.Path()) {
		if strings.HasSuffix(name, swapSuffix) || strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, deletedSuffix) {
			t.Fatalf("%s: %s is left", what, name)
		}
	}
	y := *s.cleanRun
	y.dir, y.log, y.now = d, l, s.now.Add(500*time.Millisecond)
	end := l.View().End
	y.history = slices.DeleteFunc(slices.Clone(history), func(b record.Batch) bool { return b.LastOffset() >= end })
	l.SetConfig(s.config)
	must(t, y.roll())
	if _, err := y.clean(); err != nil {
		t.Fatalf("%s: next compaction: %v", what, err)
	}
	if err := y.judge(l, max(s.attempted, l.View().last().base)); err != nil {
		t.Fatalf("%s: after the next compaction: %v", what, err)
	}
	y.now = y.now.Add(2 * time.Second) // whatever can go goes
	must(t, y.put(buildBatch(t, record.Options{}, 1, y.now.UnixMilli(), 5), FromCoordinator))
	must(t, y.roll())
	if _, err := y.clean(); err != nil {
		t.Fatalf("%s: second compaction: %v", what, err)
	}
	if err := y.judge(l, l.View().last().base); err != nil {
		t.Fatalf("%s: after the second compaction: %v", what, err)
	}
	l.Close(false, s.now)
}

// checkNested crashes the recovery too.
func (s *cleanScript) checkNested(t *testing.T, mem *vfs.Mem, rnd *rand.Rand, what string) {
	t.Helper()
	mem.CrashAt(mem.Calls() + 1 + rnd.Int64N(20))
	if _, _, err := s.recover(mem); err != nil && !errors.Is(err, vfs.ErrCrashed) && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: %v", what, err)
	}
	s.check(t, mem.CrashClone(rnd, vfs.KeepSome(rnd)), what)
}

// TestCleanErrorAtEveryCall lets each call fail, for good or for lack of space: the compaction says so, what is on the
// disk stays whole, and a log that was not left half replaced goes on.
func TestCleanErrorAtEveryCall(t *testing.T) {
	for _, rule := range []string{"* * %d error EIO", "enospc * %d", "write * %d short 7 ENOSPC"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for at, failed := 1, true; failed; at += 7 {
				mem := vfs.NewMem(vfs.MemOptions{})
				faulty, err := vfs.Faulty(mem, "")
				must(t, err)
				files := &countingFS{FS: faulty}
				s, _ := startScript(t, mem, files, 0)
				must(t, s.create())
				must(t, s.fill(30))
				must(t, s.endAll())
				must(t, s.roll())
				s.durable, s.attempted = s.log.Durable(), s.log.View().last().base
				id, err := faulty.Add(fmt.Sprintf(rule, at))
				must(t, err)
				_, err = s.clean()
				failed = faulty.Hits(id[0]) > 0
				faulty.Clear()
				if err != nil && !errors.Is(err, kafka.KafkaStorageError) {
					t.Fatalf("call %d: %v", at, err)
				}
				if s.log.cleaning != nil {
					t.Fatalf("call %d: the compaction is not over", at)
				}
				if s.log.failed == nil {
					must(t, s.judge(s.log, s.attempted))
					must(t, s.fill(5))
				}
				s.log.Close(false, s.now)
				if n := files.open.Load(); n != 0 {
					t.Fatalf("call %d: %d files stay open", at, n)
				}
				s.check(t, mem.KillClone(), fmt.Sprintf("call %d of "+rule, at, at))
			}
		})
	}
}
