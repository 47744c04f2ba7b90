package log

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startCleanRun(t tb, c *Config, seed uint64) *cleanRun {
	t.Helper()
	x := newCleanRun(t, formatAndOpen(t, vfs.NewMem(vfs.MemOptions{}), testRoot), c, rand.New(rand.NewPCG(seed, 1)))
	must(t, x.create())
	return x
}

// TestCleanModel writes and compacts at random: a consumer must see the newest value of each key, never what was aborted
// or deleted, and every offset as it was.
func TestCleanModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := cleanConfig()
		c.SegmentBytes = rapid.SampledFrom([]int64{700, 1500, 5000}).Draw(rt, "segment.bytes")
		c.SegmentIndexBytes = rapid.SampledFrom([]int32{48, 400, 10 << 20}).Draw(rt, "segment.index.bytes")
		c.DeleteRetentionMs = rapid.SampledFrom([]int64{0, 1000, 1 << 40}).Draw(rt, "delete.retention.ms")
		x := startCleanRun(rt, c, rapid.Uint64().Draw(rt, "seed"))
		x.keys = rapid.SampledFrom([]int{3, 12, 200}).Draw(rt, "keys")
		if rapid.Bool().Draw(rt, "little memory") {
			x.keyRoom, x.long, c.SegmentBytes = 14<<10, true, 30000
		}
		defer func() { x.log.Close(false, x.now) }()
		clean := kafka.Offset(0)
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			must(rt, x.fill(rapid.IntRange(1, 60).Draw(rt, "batches")))
			if rapid.Bool().Draw(rt, "end transactions") {
				must(rt, x.endAll())
			}
			must(rt, x.roll())
			got, err := x.clean()
			must(rt, err)
			clean = max(clean, got.End)
			if err := x.judge(x.log, clean); err != nil {
				rt.Fatalf("after %+v: %v", got, err)
			}
			x.judgeCompact(rt, clean)
			x.now = x.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(rt, "pause")) * time.Millisecond)
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				x.restart(rt, true)
			case 1:
				x.restart(rt, false)
			}
			if err := x.judge(x.log, clean); err != nil {
				rt.Fatalf("later: %v", err)
			}
		}
	})
}

func (x *cleanRun) restart(t tb, clean bool) {
	t.Helper()
	must(t, x.log.Close(clean, x.now))
	must(t, x.dir.Close(clean, 1))
	d, err := OpenDir(x.dir.fs, testRoot, MetaProperties{NodeID: kafka.NoNode})
	must(t, err)
	l, report, err := d.Open(x.log.tp, x.config, Options{}, x.now)
	must(t, err)
	if report.CutBytes > 0 || report.BelowRecoveryPoint || report.Clean != clean {
		t.Fatalf("restart: %+v", report)
	}
	x.dir, x.log = d, l
}

// judgeCompact: what was compacted holds each key once, but for keys that are too long for the map.
func (x *cleanRun) judgeCompact(t tb, clean kafka.Offset) {
	t.Helper()
	seen := map[string]kafka.Offset{}
	for _, b := range readEverything(x.log.View()) {
		if b.IsControl() || b.BaseOffset() >= clean {
			continue
		}
		for r, err := range b.Records(record.Limits{}) {
			must(t, err)
			if r.Offset >= clean || len(r.Key) > 1000 {
				continue
			}
			if at, twice := seen[string(r.Key)]; twice {
				t.Fatalf("key %q stands at %d and %d, compacted up to %d", r.Key, at, r.Offset, clean)
			}
			seen[string(r.Key)] = r.Offset
		}
	}
}

// TestCleanMarkers follows transactions until nothing is left of them: data of aborted ones goes at once, a marker stays
// until a pass meets no data before it, and then until its horizon.
func TestCleanMarkers(t *testing.T) {
	c := cleanConfig()
	c.SegmentBytes = 1 << 20
	x := startCleanRun(t, c, 3)
	data := func(id kafka.ProducerID, key string) {
		b := buildBatch(t, record.Options{Producer: &record.Producer{ID: id, Sequence: x.seq[id]}, Transactional: true}, 1, 1, 5)
		x.seq[id]++
		must(t, x.put(b, FromClient))
	}
	x.rnd = rand.New(rand.NewPCG(0, 0))
	marker := func(id kafka.ProducerID, commit bool) {
		b, err := record.MarkerBatch(id, 0, record.EndTxnMarker{Commit: commit}, x.now.UnixMilli())
		must(t, err)
		must(t, x.put(b, FromCoordinator))
	}
	data(1, "a") // 0
	marker(1, false)
	data(2, "a") // 2
	marker(2, true)
	data(1, "a") // 4
	marker(1, true)
	data(2, "a") // 6, and both producers' last
	marker(2, true)
	round := func() []kafka.Offset {
		must(t, x.put(buildBatch(t, record.Options{}, 1, 1, 5), FromClient)) // key-0 again
		must(t, x.roll())
		_, err := x.clean()
		must(t, err)
		if err := x.judge(x.log, x.log.View().last().base); err != nil {
			t.Fatal(err)
		}
		return offsetsOf(readEverything(x.log.View()))
	}
	steps := []struct {
		pause time.Duration
		want  []kafka.Offset
	}{
		// 0 was aborted and 2, 4 superseded; 4 and 6 are the producers' last batches and stay, empty, with their markers.
		{0, []kafka.Offset{1, 3, 4, 5, 6, 7, 8}},
		{0, []kafka.Offset{1, 3, 4, 5, 6, 7, 9}}, // 1 and 3 have a horizon now
		{2 * time.Second, []kafka.Offset{4, 5, 6, 7, 10}},
	}
	for i, s := range steps {
		x.now = x.now.Add(s.pause)
		if got := round(); !slices.Equal(got, s.want) {
			t.Fatalf("round %d: batches at %v, want %v", i, got, s.want)
		}
	}
}

// TestCleanTombstones: a tombstone outlives the records it deletes by delete.retention.ms, counted from the first pass.
func TestCleanTombstones(t *testing.T) {
	c := cleanConfig()
	x := startCleanRun(t, c, 3)
	put := func(key string, value []byte) {
		b := record.NewBuilder(record.Options{})
		b.Append(x.now.UnixMilli(), []byte(key), value, nil)
		out, err := b.Build()
		must(t, err)
		must(t, x.put(out, FromClient))
	}
	clean := func() []record.Batch {
		put("other", []byte("x"))
		must(t, x.roll())
		_, err := x.clean()
		must(t, err)
		return readEverything(x.log.View())
	}
	put("a", []byte("1"))
	put("b", []byte("1"))
	put("a", nil)
	got := clean()
	if want := []kafka.Offset{1, 2, 3}; !slices.Equal(offsetsOf(got), want) {
		t.Fatalf("batches at %v, want %v", offsetsOf(got), want)
	}
	if b := got[1]; !b.HasDeleteHorizon() || b.BaseTimestamp() != x.now.UnixMilli()+c.DeleteRetentionMs || b.MaxTimestamp() != x.now.UnixMilli() {
		t.Fatalf("horizon %v %d, max timestamp %d, now %d", b.HasDeleteHorizon(), b.BaseTimestamp(), b.MaxTimestamp(), x.now.UnixMilli())
	}
	x.now = x.now.Add(999 * time.Millisecond)
	if got, want := offsetsOf(clean()), []kafka.Offset{1, 2, 4}; !slices.Equal(got, want) {
		t.Fatalf("before the horizon: batches at %v, want %v", got, want)
	}
	x.now = x.now.Add(time.Millisecond)
	if got, want := offsetsOf(clean()), []kafka.Offset{1, 5}; !slices.Equal(got, want) {
		t.Fatalf("after the horizon: batches at %v, want %v", got, want)
	}
}

// TestDirt: what may be compacted ends at the last stable offset, the last segment, what is not durable, and the first
// record that is too young; min.cleanable.dirty.ratio and max.compaction.lag.ms say when.
func TestDirt(t *testing.T) {
	c := cleanConfig()
	c.SegmentBytes, c.MinCleanableDirty = 1<<20, 0.5
	x := startCleanRun(t, c, 3)
	at := func(n int) { // a segment of n batches
		x.now = x.now.Add(time.Minute)
		for range n {
			must(t, x.put(buildBatch(t, record.Options{}, 1, x.now.UnixMilli(), 100), FromClient))
		}
		must(t, x.log.Roll(x.now))
	}
	dirt := func(stable kafka.Offset) Dirt {
		t.Helper()
		d, err := x.log.Dirt(stable, x.now)
		must(t, err)
		return d
	}
	at(10)
	if d := dirt(100); d.DirtyBytes != 0 || d.Due(c) {
		t.Fatalf("not durable: %+v", d)
	}
	must(t, x.flush())
	if d := dirt(9); d.DirtyBytes != 0 {
		t.Fatalf("unstable: %+v", d)
	}
	d := dirt(100)
	if d.From != 0 || d.End != 10 || d.CleanBytes != 0 || d.Ratio() != 1 || !d.Due(c) || d.Overdue {
		t.Fatalf("all dirty: %+v", d)
	}
	size := d.DirtyBytes
	if _, err := x.clean(); err != nil {
		t.Fatal(err)
	}
	if d := dirt(100); d.From != 10 || d.DirtyBytes != 0 || d.Due(c) {
		t.Fatalf("all clean: %+v", d)
	}
	at(1)
	must(t, x.flush())
	first := dirt(100)
	if first.From != 10 || first.End != 11 || first.CleanBytes >= size/5 || first.Ratio() != 0.5 || first.Due(c) {
		t.Fatalf("half dirty: %+v", first)
	}
	c.MaxCompactionLagMs = 59_000
	x.now = x.now.Add(time.Minute)
	if d := dirt(100); !d.Overdue || !d.Due(c) || !d.Before(Dirt{DirtyBytes: 1}) {
		t.Fatalf("overdue: %+v", d)
	}
	c.MinCompactionLagMs = 61_000
	if d := dirt(100); d.DirtyBytes != 0 || d.Due(c) {
		t.Fatalf("too young: %+v", d)
	}
	c.MinCompactionLagMs = 59_000
	at(1)
	must(t, x.flush())
	if d := dirt(100); d.End != 11 {
		t.Fatalf("one of two is too young: %+v", d)
	}
	if (Dirt{DirtyBytes: 2, CleanBytes: 2}).Before(Dirt{DirtyBytes: 3, CleanBytes: 1}) {
		t.Fatal("the cleaner log goes first")
	}
}

// TestCleanRefuses: a damaged log and one with old messages are left alone, with a code that tells the caller.
func TestCleanRefuses(t *testing.T) {
	for name, want := range map[string]kafka.Code{"rot": kafka.CorruptMessage, "old": kafka.UnsupportedForMessageFormat} {
		t.Run(name, func(t *testing.T) {
			x := startCleanRun(t, cleanConfig(), 5)
			must(t, x.fill(40))
			must(t, x.endAll())
			must(t, x.roll())
			before := contents(x.dir.fs.(*vfs.Mem), x.log.Path())
			s := x.log.View().segments[1]
			h, err := s.acquire(dataFile)
			must(t, err)
			at, b := int64(80), []byte{0xee}
			if name == "old" {
				at, b = posMagic, []byte{1}
			}
			must(t, writeFull(h.file, b, at))
			h.release()
			_, err = x.clean()
			if kafka.CodeOf(err) != want {
				t.Fatalf("%v, want %v", err, want)
			}
			must(t, writeFull(h.file, []byte(before[segmentName(s.base, dataSuffix)])[at:at+1], at))
			after := contents(x.dir.fs.(*vfs.Mem), x.log.Path())
			for name := range after {
				if _, ok := before[name]; !ok {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestCleanMeetsChanges stops a compaction at each of its steps with what may happen to a log meanwhile. It must end
// without damage, and the log go on.
func TestCleanMeetsChanges(t *testing.T) {
	changes := map[string]func(x *cleanRun, t tb){
		"nothing":     func(x *cleanRun, t tb) {},
		"append":      func(x *cleanRun, t tb) { must(t, x.fill(20)); must(t, x.endAll()) },
		"cut":         func(x *cleanRun, t tb) { x.cut(t, x.highWatermark) },
		"cut low":     func(x *cleanRun, t tb) { x.cut(t, x.log.View().segments[0].base+5) },
		"cut halfway": func(x *cleanRun, t tb) { x.cut(t, x.log.View().End/2) },
		"start over": func(x *cleanRun, t tb) {
			must(t, x.log.TruncateFullyAndStartAt(7))
			x.history = nil
			clear(x.seq)
		},
		"retention": func(x *cleanRun, t tb) {
			must(t, x.log.AdvanceStart(x.log.View().End/2))
			_, err := x.log.Retain(x.log.View().End, x.now)
			must(t, err)
			_, err = x.log.DeletePending(x.now)
			must(t, err)
		},
		"not compacted": func(x *cleanRun, t tb) {
			c := *x.config
			c.Compact = false
			x.log.SetConfig(&c)
		},
		"orderly stop": func(x *cleanRun, t tb) { x.restart(t, true) },
		"kill":         func(x *cleanRun, t tb) { x.restart(t, false) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			for at, done := 0, false; !done; at++ {
				done = cleanMeets(t, at, change)
			}
		})
	}
}

func (x *cleanRun) cut(t tb, end kafka.Offset) {
	x.unclean = x.unclean || end < x.highWatermark
	must(t, x.log.TruncateTo(end))
	end = x.log.View().End
	x.history = slices.DeleteFunc(x.history, func(b record.Batch) bool { return b.LastOffset() >= end })
	x.epoch++
	clear(x.seq)
	for _, p := range x.log.Producers() {
		x.seq[p.ProducerID] = record.AddSequence(p.LastSequence, 1)
		if p.TxnStart != kafka.NoOffset {
			x.open[p.ProducerID] = true
		}
	}
}

// cleanMeets makes the change before the given step; done says that the compaction was over by then.
func cleanMeets(t *testing.T, at int, change func(*cleanRun, tb)) (done bool) {
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("step %d: %s", at, fmt.Sprintf(format, args...))
	}
	x := startCleanRun(t, cleanConfig(), 11)
	for range 2 {
		must(t, x.fill(40))
		must(t, x.endAll())
		must(t, x.roll())
		if x.log.View().Segments() < 8 {
			_, err := x.clean()
			must(t, err)
		}
	}
	x.highWatermark = x.log.View().End
	must(t, x.fill(15))
	old := x.log.View()
	before, err := consume(old, x.stable(), 300)
	must(t, err)
	c, err := x.begin()
	must(t, err)
	for range at {
		if _, done, err = c.Step(1500); err != nil {
			fail("%v", err)
		}
	}
	if !done {
		change(x, t)
		for !done && err == nil {
			_, done, err = c.Step(1500)
		}
		if err != nil {
			if err != ErrCleanAborted {
				fail("%v", err)
			}
			c.Abandon()
		}
	}
	if x.log.replacing != nil && x.log.failed == nil {
		fail("a replacement is left")
	}
	x.judgeOldView(t, old, before)
	x.highWatermark = 0
	must(t, x.fill(30))
	must(t, x.endAll())
	must(t, x.roll())
	if err := x.judge(x.log, x.log.View().last().base); err != nil {
		fail("%v", err)
	}
	x.restart(t, false)
	if err := x.judge(x.log, x.log.View().last().base); err != nil {
		fail("after a kill: %v", err)
	}
	if _, err := x.clean(); err != nil {
		fail("again: %v", err)
	}
	if err := x.judge(x.log, x.log.View().last().base); err != nil {
		fail("again: %v", err)
	}
	must(t, x.log.Close(false, x.now))
	return done && at > 0 && err == nil
}

// judgeOldView reads through a view from before a compaction: what it gives is what it gave then, or what is there now,
// and never what was aborted. Segments that retention or a cut took are an error.
func (x *cleanRun) judgeOldView(t tb, old *View, before []plain) {
	t.Helper()
	after, err := consume(old, min(old.End, x.stable()), 300)
	if err != nil {
		if !slices.Contains([]kafka.Code{kafka.NotLeaderOrFollower, kafka.OffsetOutOfRange, kafka.KafkaStorageError}, kafka.CodeOf(err)) {
			t.Fatalf("old view: %v", err)
		}
		return
	}
	for _, r := range after {
		if !slices.Contains(before, r) && r.offset < x.highWatermark && !x.unclean && len(x.history) > 0 {
			t.Fatalf("old view: %+v was not there before", r)
		}
	}
}

// TestCleanLeavesRepliesWhole: bytes that were found before a compaction go with the aborted transactions of that time,
// although the index on the disk is another one by now.
func TestCleanLeavesRepliesWhole(t *testing.T) {
	x := startCleanRun(t, cleanConfig(), 31)
	must(t, x.fill(120))
	must(t, x.endAll())
	must(t, x.roll())
	v, want := x.log.View(), x.committedHistory(x.log.View().End)
	var replies []Extents
	for from := v.Start; from < v.End; {
		e, err := v.Read(from, v.End, 500, true)
		must(t, err)
		replies = append(replies, e)
		data, err := e.ReadAll()
		must(t, err)
		_, next, err := clientSide(data, from, nil)
		must(t, err)
		from = next
	}
	for range 2 {
		_, err := x.clean()
		must(t, err)
		must(t, x.put(buildBatch(t, record.Options{}, 1, 1, 5), FromClient))
		must(t, x.roll())
	}
	var got []plain
	aborts := 0
	for _, e := range replies {
		upper, err := e.View().UpperBound(&e)
		must(t, err)
		aborted, err := e.View().Aborted(e.From, upper)
		must(t, err)
		aborts += len(aborted)
		data, err := e.ReadAll()
		must(t, err)
		records, _, err := clientSide(data, e.From, aborted)
		must(t, err)
		got = append(got, records...)
		e.Release()
	}
	if !slices.Equal(got, want) || aborts == 0 {
		t.Fatalf("%d records, want %d; %d aborted transactions", len(got), len(want), aborts)
	}
}

// TestCutLowersCleanedOffset: what is written after a cut was not compacted, whatever the checkpoint said before.
func TestCutLowersCleanedOffset(t *testing.T) {
	x := startCleanRun(t, cleanConfig(), 31)
	must(t, x.fill(60))
	must(t, x.endAll())
	must(t, x.roll())
	got, err := x.clean()
	must(t, err)
	x.cut(t, got.End/2)
	end := x.log.View().End
	if d, _ := x.log.Dirt(end, x.now); d.From > end {
		t.Fatalf("clean up to %d, the log ends at %d", d.From, end)
	}
	must(t, x.fill(60))
	if d, _ := x.log.Dirt(end, x.now); d.From > end {
		t.Fatalf("clean up to %d after a cut to %d", d.From, end)
	}
	saved, err := ReadCheckpoint(x.dir.fs, testRoot+"/"+CleanerOffsetCheckpoint)
	must(t, err)
	if saved[x.log.tp] > end {
		t.Fatalf("the checkpoint says %d after a cut to %d", saved[x.log.tp], end)
	}
}
