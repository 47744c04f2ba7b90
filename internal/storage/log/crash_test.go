package log

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

var (
	crashSeeds = flag.Int("crash.seeds", 1, "random loss patterns per crash point")
	long       = flag.Bool("long", false, "fail every call of every script, not every ninth")
)

// stopped ends a script at the crash.
type stopped struct{ err error }

// crashRun is one run of a script, with what must and what may be found afterwards.
type crashRun struct {
	t      tb
	mem    *vfs.Mem
	fs     vfs.FS
	dir    *Dir
	log    *Log
	config *Config
	tp     kafka.TopicPartition
	now    time.Time
	seq    map[kafka.ProducerID]int32
	ts     int64
	epoch  kafka.LeaderEpoch

	inLog   []record.Batch // as the script believes
	written []record.Batch // everything ever handed to Append
	must    []record.Batch // acknowledged and not taken back
	gaps    bool
}

func newCrashRun(t tb, mem *vfs.Mem, fsys vfs.FS, c *Config) *crashRun {
	t.Helper()
	x := &crashRun{t: t, mem: mem, fs: fsys, config: c, tp: tp("t", 0), now: epoch0, ts: epoch0.UnixMilli(),
		seq: map[kafka.ProducerID]int32{}}
	if err := FormatDir(fsys, testRoot, MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{14: 1}}); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(fsys, testRoot, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		t.Fatal(err)
	}
	x.dir = d
	return x
}

func (x *crashRun) do(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

func (x *crashRun) create() {
	l, err := x.dir.Create(x.tp, x.config, CreateOptions{TopicID: kafka.UUID{3: 3, 15: 200}}, x.now)
	x.do(err)
	x.log = l
	x.log.AssignEpoch(x.epoch)
}

func (x *crashRun) add(b record.Batch, s Stamp) Appended {
	end := x.log.View().End
	b.SetBaseOffset(end)
	if s.Assign {
		b.SetLeaderEpoch(s.LeaderEpoch)
	}
	x.written = append(x.written, bytes.Clone(b)) // before the call: a crash may leave it whole
	got, err := x.log.Append(b, s, x.now)
	x.do(err)
	if !got.Duplicate {
		x.inLog = append(x.inLog, bytes.Clone(b))
	}
	return got
}

func (x *crashRun) append(n int) {
	for i := range n {
		x.ts += 5
		x.add(buildBatch(x.t, record.Options{}, 1+i%3, x.ts, 40+20*(i%4)), leader(x.epoch))
	}
}

func (x *crashRun) produce(id kafka.ProducerID, txn bool) {
	x.ts += 5
	b := buildBatch(x.t, record.Options{
		Producer: &record.Producer{ID: id, Sequence: x.seq[id]}, Transactional: txn,
	}, 2, x.ts, 60)
	x.seq[id] += 2
	s := leader(x.epoch)
	s.Producer.Origin = FromClient
	x.add(b, s)
}

func (x *crashRun) marker(id kafka.ProducerID, typ record.ControlType) {
	x.ts += 5
	b, err := record.MarkerBatch(id, 0, record.EndTxnMarker{Commit: typ == record.ControlCommit, CoordinatorEpoch: 1}, x.ts)
	if err != nil {
		x.t.Fatal(err)
	}
	s := leader(x.epoch)
	s.Producer.Origin = FromCoordinator
	x.add(b, s)
}

func (x *crashRun) newEpoch() {
	x.epoch++
	x.log.AssignEpoch(x.epoch)
}

// flush acknowledges what is durable afterwards.
func (x *crashRun) flush() {
	t := x.log.Dirty()
	x.do(t.Sync())
	x.log.MarkDurable(t)
	x.acknowledge()
}

func (x *crashRun) flushGroup() {
	t := x.log.Dirty()
	ok, err := SyncGroup(x.dir, []FlushToken{t})
	if err != nil {
		t.Drop()
	}
	x.do(err)
	if !ok {
		x.t.Fatal("no group sync")
	}
	x.log.MarkDurable(t)
	x.acknowledge()
}

func (x *crashRun) acknowledge() {
	durable := x.log.Durable()
	x.must = slices.Clone(x.inLog)
	x.must = slices.DeleteFunc(x.must, func(b record.Batch) bool { return b.NextOffset() > durable })
}

func (x *crashRun) truncate(end kafka.Offset) {
	gone := func(b record.Batch) bool { return b.LastOffset() >= end }
	x.must = slices.DeleteFunc(x.must, gone)
	x.inLog = slices.DeleteFunc(x.inLog, gone)
	x.do(x.log.TruncateTo(end))
}

func (x *crashRun) startAt(start kafka.Offset) {
	x.must, x.inLog = nil, nil
	x.do(x.log.TruncateFullyAndStartAt(start))
}

func (x *crashRun) start(offset kafka.Offset) {
	x.must = slices.DeleteFunc(x.must, func(b record.Batch) bool { return b.LastOffset() < offset })
	x.do(x.log.AdvanceStart(offset))
}

func (x *crashRun) retain() {
	v := x.log.View()
	got, err := x.log.Retain(v.Durable, x.now)
	x.do(err)
	x.must = slices.DeleteFunc(x.must, func(b record.Batch) bool { return b.LastOffset() < got.Start })
	x.inLog = slices.DeleteFunc(x.inLog, func(b record.Batch) bool { return b.LastOffset() < got.Start })
}

func (x *crashRun) deletePending() {
	x.now = x.now.Add(2 * time.Minute)
	_, err := x.log.DeletePending(x.now)
	x.do(err)
}

func (x *crashRun) checkpoint() {
	x.do(x.dir.Checkpoint(map[kafka.TopicPartition]kafka.Offset{x.tp: x.log.Durable()}))
}

func (x *crashRun) idle() {
	for range 3 {
		pending, err := x.log.Idle()
		x.do(err)
		if pending {
			x.flush()
		}
	}
}

func (x *crashRun) restart() {
	x.do(x.log.Close(true, x.now))
	x.acknowledge()
	x.do(x.dir.Close(true, 1))
	x.openAgain(true)
}

func (x *crashRun) openAgain(clean bool) {
	var err error
	x.dir, err = OpenDir(x.fs, testRoot, MetaProperties{NodeID: kafka.NoNode})
	x.do(err)
	l, report, err := x.dir.Open(x.tp, x.config, Options{}, x.now)
	x.do(err)
	if report.Clean != clean {
		x.t.Fatalf("clean is %v: %+v", report.Clean, report)
	}
	x.log = l
	x.acknowledge()
}

// kill stops the process without a word and starts it again on the same page cache.
func (x *crashRun) kill() {
	x.log.Close(false, x.now)
	x.dir.Close(false, 1)
	x.openAgain(false)
}

// crashScripts are what the log does in its life, in short.
var crashScripts = map[string]func(x *crashRun){
	"append and flush": func(x *crashRun) {
		x.create()
		for range 6 {
			x.append(3)
			x.flush()
		}
	},
	"group flush over epochs": func(x *crashRun) {
		x.create()
		x.append(2)
		x.flushGroup()
		x.newEpoch()
		x.append(1)
		x.flushGroup()
		x.newEpoch()
		x.newEpoch()
		x.append(8)
		x.flushGroup()
		x.append(1)
		x.checkpoint()
		x.newEpoch()
		x.append(1)
		x.flushGroup()
	},
	"roll many": func(x *crashRun) {
		x.create()
		for range 3 {
			x.append(12)
			x.flush()
			x.checkpoint()
			x.append(7)
		}
	},
	"truncate and go on": func(x *crashRun) {
		x.create()
		x.append(30)
		x.flush()
		x.checkpoint()
		x.truncate(x.log.View().End - 4)
		x.newEpoch()
		x.append(5)
		x.flush()
		x.checkpoint()
		x.truncate(x.log.View().segments[1].base + 1)
		x.newEpoch()
		x.append(20)
		x.flush()
		x.truncate(3)
		x.newEpoch()
		x.append(4)
		x.flush()
	},
	"start over": func(x *crashRun) {
		x.create()
		x.append(25)
		x.flush()
		x.checkpoint()
		x.startAt(x.log.View().End + 100)
		x.newEpoch()
		x.append(10)
		x.flush()
		x.startAt(7)
		x.newEpoch()
		x.append(3)
		x.flush()
		x.checkpoint()
	},
	"retention": func(x *crashRun) {
		x.config.RetentionBytes = 1500
		x.create()
		x.append(40)
		x.flush()
		x.retain()
		x.deletePending()
		x.checkpoint()
		x.append(10)
		x.deletePending()
		x.flush()
		x.config.RetentionBytes, x.config.RetentionMs = -1, 1
		x.now = x.now.Add(time.Hour)
		x.retain()
		x.append(1)
		x.deletePending()
		x.flush()
		x.deletePending()
	},
	"delete records": func(x *crashRun) {
		x.create()
		x.append(30)
		x.flush()
		x.start(20)
		x.checkpoint()
		x.retain()
		x.deletePending()
		x.start(x.log.View().End)
		x.append(2)
		x.flush()
		x.retain()
		x.deletePending()
		x.deletePending()
		x.checkpoint()
	},
	"the start moves back": func(x *crashRun) {
		x.create()
		x.append(30)
		x.flush()
		x.start(25)
		x.checkpoint()
		x.truncate(12)
		x.newEpoch()
		x.append(10)
		x.flush()
		x.start(20)
		x.checkpoint()
		x.startAt(3)
		x.newEpoch()
		x.append(12)
		x.flush()
		x.checkpoint()
		x.append(1)
	},
	"producers and transactions": func(x *crashRun) {
		x.create()
		for i := range 4 {
			x.produce(1, false)
			x.produce(2, true)
			x.append(2)
			x.produce(3, true)
			x.flush()
			x.marker(2, []record.ControlType{record.ControlCommit, record.ControlAbort}[i%2])
			x.produce(1, false)
			x.marker(3, record.ControlAbort)
			x.append(2)
			x.checkpoint()
		}
		x.flush()
		x.truncate(x.log.View().End - 12)
		x.newEpoch()
		x.append(2)
		x.flush()
	},
	"orderly stops": func(x *crashRun) {
		x.create()
		x.append(2)
		x.restart()
		x.append(20)
		x.produce(1, false)
		x.flush()
		x.restart()
		x.restart()
		x.newEpoch()
		x.append(1)
		x.flush()
		x.idle()
		x.append(1)
		x.restart()
	},
	"idle": func(x *crashRun) {
		x.create()
		x.append(5)
		x.flush()
		x.idle()
		x.append(5)
		x.idle()
		x.append(15)
		x.idle()
		x.checkpoint()
		x.append(1)
		x.flush()
	},
	"kills": func(x *crashRun) {
		x.create()
		x.append(4)
		x.flush()
		x.append(10)
		x.kill()
		x.append(3)
		x.checkpoint()
		x.kill()
		x.newEpoch()
		x.append(12)
		x.flush()
		x.checkpoint()
		x.append(1)
		x.kill()
	},
}

func crashConfig() *Config {
	c := smallConfig()
	c.SegmentBytes = 1200
	c.IndexIntervalBytes = 150
	c.ProducerExpiryMs = 1 << 50
	return c
}

// runScript runs a script until its end or its crash.
func runScript(t tb, mem *vfs.Mem, fsys vfs.FS, script func(*crashRun), crashAt int64) (x *crashRun, err error) {
	x = newCrashRun(t, mem, fsys, crashConfig())
	if crashAt > 0 {
		mem.CrashAt(mem.Calls() + crashAt)
	}
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stopped)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	script(x)
	return x, nil
}

// callsOf counts the mutating calls of a script.
func callsOf(t *testing.T, script func(*crashRun)) int64 {
	mem := vfs.NewMem(vfs.MemOptions{})
	before := int64(0)
	x, err := runScript(t, mem, mem, func(x *crashRun) { before = mem.Calls(); script(x) }, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.check(t, mem.KillClone(), "without a crash", false)
	return mem.Calls() - before
}

// TestCrashAtEveryCall crashes each script at each mutating call, and judges what several kinds of power cut and a kill
// leave, also when the recovery itself is cut short.
func TestCrashAtEveryCall(t *testing.T) {
	for name, script := range crashScripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := callsOf(t, script)
			for at := int64(1); at <= calls; at++ {
				mem := vfs.NewMem(vfs.MemOptions{})
				x, err := runScript(t, mem, mem, script, at)
				if err != nil && !errors.Is(err, vfs.ErrCrashed) {
					t.Fatalf("call %d: %v", at, err)
				}
				rnd := rand.New(rand.NewPCG(uint64(at), 7))
				x.check(t, mem.KillClone(), fmt.Sprintf("call %d, kill", at), false)
				x.check(t, mem.CrashClone(rnd, vfs.CrashOptions{}), fmt.Sprintf("call %d, all lost", at), false)
				x.check(t, mem.CrashClone(rnd, vfs.KeepAll()), fmt.Sprintf("call %d, all kept", at), false)
				for i := range *crashSeeds {
					keep := vfs.KeepSome(rnd)
					what := fmt.Sprintf("call %d, random %d %+v", at, i, keep)
					x.check(t, mem.CrashClone(rnd, keep), what, true)
					x.checkNested(t, mem.KillClone(), rnd, what+" after a kill")
				}
			}
			t.Logf("%d calls", calls)
		})
	}
}

// checkNested crashes the recovery at a random call, then recovers.
func (x *crashRun) checkNested(t *testing.T, mem *vfs.Mem, rnd *rand.Rand, what string) {
	t.Helper()
	for range 2 {
		mem.CrashAt(mem.Calls() + 1 + rnd.Int64N(12))
		_, _, err := x.recover(mem)
		if err != nil && !errors.Is(err, vfs.ErrCrashed) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: %v", what, err)
		}
		if rnd.IntN(2) == 0 {
			mem = mem.CrashClone(rnd, vfs.KeepSome(rnd))
		} else {
			mem = mem.KillClone()
		}
	}
	x.check(t, mem, what+", recovery cut", false)
}

// recover opens directory and log.
func (x *crashRun) recover(mem *vfs.Mem) (*Log, Report, error) {
	d, err := OpenDir(mem, testRoot, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		return nil, Report{}, err
	}
	c := *x.config
	return d.Open(x.tp, &c, Options{}, x.now)
}

// check recovers and compares with what was acknowledged and written.
func (x *crashRun) check(t *testing.T, mem *vfs.Mem, what string, goOn bool) {
	t.Helper()
	l, report, err := x.recover(mem)
	if errors.Is(err, fs.ErrNotExist) && len(x.must) == 0 {
		return // the directory itself is lost, and nothing was acknowledged
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := x.judge(l); err != nil {
		t.Fatalf("%s: %v; report %+v; files %v", what, err, report, listFiles(mem, l.Path()))
	}
	if report.BelowHighWatermark && len(x.must) > 0 && x.must[len(x.must)-1].NextOffset() > l.View().End {
		t.Fatalf("%s: below the high watermark: %+v", what, report)
	}
	x.checkAgain(t, mem, l, what)
	if goOn {
		x.goOn(t, l, what)
	}
}

// judge compares a recovered log with the run.
func (x *crashRun) judge(l *Log) error {
	v := l.View()
	got := readEverything(v)
	if err := x.judgeBatches(v, got); err != nil {
		return err
	}
	var epochs Epochs
	var producers Producers
	var aborted []AbortedTxn
	for _, b := range got {
		epochs, _ = epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
		if ended, ok := producers.Update(b); ok && ended.Aborted {
			aborted = append(aborted, ended.Entry())
		}
	}
	epochs = epochs.TruncateStart(v.Start)
	if have := v.Epochs(); !slices.Equal(epochs, have) && !slices.Equal(epochs, have[min(1, len(have)):]) {
		return fmt.Errorf("epochs %v, the log says %v", have, epochs) // one more may be known from before the start
	}
	for _, want := range producers.All() {
		if have, _ := l.producers.Lookup(want.ProducerID); have != want {
			return fmt.Errorf("producer %+v, the log says %+v", have, want)
		}
	}
	index, err := v.Aborted(v.segments[0].base, v.End)
	if err != nil {
		return err
	}
	if v.Start == 0 && !slices.Equal(index, aborted) {
		return fmt.Errorf("aborted %+v, the log says %+v", index, aborted)
	}
	if v.Durable != v.End || l.RecoveryPoint() > v.End {
		return fmt.Errorf("log end %d, durable %d, recovery point %d", v.End, v.Durable, l.RecoveryPoint())
	}
	return checkSegments(l)
}

func (x *crashRun) judgeBatches(v *View, got []record.Batch) error {
	next := kafka.NoOffset
	for _, b := range got {
		if next != kafka.NoOffset && b.BaseOffset() != next {
			return fmt.Errorf("batch at %d follows %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		if !slices.ContainsFunc(x.written, func(w record.Batch) bool { return bytes.Equal(w, b) }) {
			return fmt.Errorf("batch at %d was never written", b.BaseOffset())
		}
	}
	if len(got) > 0 && next != v.End {
		return fmt.Errorf("last batch ends at %d, log at %d", next, v.End)
	}
	for _, w := range x.must {
		if !slices.ContainsFunc(got, func(b record.Batch) bool { return bytes.Equal(w, b) }) {
			return fmt.Errorf("acknowledged batch at %d of epoch %d is lost; have %v", w.BaseOffset(), w.LeaderEpoch(), offsetsOf(got))
		}
	}
	return nil
}

// readEverything reads all batches in the files, below the log start too.
func readEverything(v *View) []record.Batch {
	var out []record.Batch
	for i, s := range v.segments {
		h, err := s.acquire(dataFile)
		if err != nil {
			panic(err)
		}
		b := make([]byte, v.sizeOf(i))
		if err := readFull(h.file, b, 0); err != nil {
			panic(err)
		}
		h.release()
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			if err == nil {
				err = first.CheckCRC()
			}
			if err != nil {
				panic(err)
			}
			out = append(out, first)
			b = rest
		}
	}
	return out
}

func listFiles(mem *vfs.Mem, dir string) []string {
	entries, err := mem.ReadDir(dir)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		info, _ := mem.Stat(path.Join(dir, e.Name))
		out = append(out, fmt.Sprintf("%s:%d", strings.TrimLeft(e.Name, "0"), info.Size))
	}
	return out
}

// checkAgain recovers once more, as after a kill: nothing may change, on disk or in memory.
func (x *crashRun) checkAgain(t *testing.T, mem *vfs.Mem, l *Log, what string) {
	t.Helper()
	twin := mem.KillClone()
	again, _, err := x.recover(twin)
	if err != nil {
		t.Fatalf("%s: second recovery: %v", what, err)
	}
	a, b := l.View(), again.View()
	if a.Start != b.Start || a.End != b.End || !slices.Equal(a.Epochs(), b.Epochs()) {
		t.Fatalf("%s: recovered [%d, %d) %v, then [%d, %d) %v", what, a.Start, a.End, a.Epochs(), b.Start, b.End, b.Epochs())
	}
	if diff := cmp.Diff(l.Producers(), again.Producers()); diff != "" {
		t.Fatalf("%s: producers of a second recovery: %s", what, diff)
	}
	if _, clean := l.dir.CleanShutdown(); clean {
		again.Close(false, x.now)
		return // an orderly stop leaves more behind than a recovery
	}
	if diff := cmp.Diff(contents(mem, l.Path()), contents(twin, l.Path())); diff != "" {
		t.Fatalf("%s: files of a second recovery: %s", what, diff)
	}
	again.Close(false, x.now)
}

func contents(mem *vfs.Mem, dir string) map[string]string {
	out := map[string]string{}
	entries, _ := mem.ReadDir(dir)
	for _, e := range entries {
		data, err := readWhole(mem, path.Join(dir, e.Name), 1<<30)
		if err != nil {
			panic(err)
		}
		out[e.Name] = string(data)
	}
	return out
}

// goOn uses the recovered log, stops it in order and looks at it again.
func (x *crashRun) goOn(t *testing.T, l *Log, what string) {
	t.Helper()
	end := l.View().End
	newest, _ := l.View().Epochs().Latest()
	for i := range 12 {
		b := buildBatch(t, record.Options{}, 2, x.ts, 70)
		if _, err := l.Append(b, leader(newest.Epoch+1), x.now); err != nil {
			t.Fatalf("%s: append %d after recovery: %v", what, i, err)
		}
	}
	if err := l.Close(true, x.now); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := l.dir.Close(true, 1); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	again, report, err := x.recover(l.dir.fs.(*vfs.Mem))
	if err != nil || !report.Clean {
		t.Fatalf("%s: %v, %+v", what, err, report)
	}
	if got := again.View().End; got != end+24 {
		t.Fatalf("%s: went on to %d, expected %d", what, got, end+24)
	}
	if got := readAll(t, again.View(), again.View().Start, 1<<20); len(got) < 12 {
		t.Fatalf("%s: %d batches", what, len(got))
	}
	again.Close(false, x.now)
}

// syncfsFS makes names durable with SyncAll, as syncfs does.
type syncfsFS struct{ *vfs.Mem }

func (syncfsFS) SyncAllNames() bool { return true }

func (f syncfsFS) SyncAll(dir string) (bool, error) {
	ok, err := f.Mem.SyncAll(dir)
	if err != nil {
		return ok, err
	}
	entries, err := f.ReadDir(dir)
	if err != nil {
		return ok, err
	}
	for _, e := range entries {
		if e.IsDir {
			err = errors.Join(err, f.SyncDir(path.Join(dir, e.Name)))
		}
	}
	return ok, errors.Join(err, f.SyncDir(dir))
}

// TestCrashWithSyncfs is TestCrashAtEveryCall where a group flush makes no call but SyncAll.
func TestCrashWithSyncfs(t *testing.T) {
	script := crashScripts["group flush over epochs"]
	for at := int64(1); ; at++ {
		mem := vfs.NewMem(vfs.MemOptions{})
		x, err := runScript(t, mem, syncfsFS{mem}, script, at)
		if err == nil {
			break
		}
		rnd := rand.New(rand.NewPCG(uint64(at), 3))
		x.check(t, mem.CrashClone(rnd, vfs.CrashOptions{}), fmt.Sprintf("call %d, all lost", at), false)
		x.check(t, mem.CrashClone(rnd, vfs.KeepSome(rnd)), fmt.Sprintf("call %d, some lost", at), true)
	}
}
