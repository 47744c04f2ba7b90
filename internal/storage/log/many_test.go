package log

import (
	"runtime"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// TestManyLogs measures what thousands of partitions cost: memory and files while idle, and the time to open them. The
// figures are those of the issue; times are logged, as a shared machine proves nothing.
func TestManyLogs(t *testing.T) {
	n := 500
	if *long {
		n = 5000
	}
	counting := &countingFS{FS: vfs.OS(), names: runtime.GOOS == "linux"}
	root := t.TempDir() + "/data"
	if err := FormatDir(counting, root, MetaProperties{ClusterID: "c", NodeID: 1}); err != nil {
		t.Fatal(err)
	}
	d := openManyDir(t, counting, root)
	c := DefaultConfig()
	start := time.Now()
	before := heap()
	logs := make([]*Log, n)
	for i := range logs {
		l, err := d.Create(tp("topic-with-a-name", int32(i)), &c, CreateOptions{TopicID: kafka.UUID{15: 101}}, epoch0)
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = l
	}
	t.Logf("created %d in %v", n, time.Since(start))
	fill(t, d, logs, 1)
	for _, l := range logs {
		for range 3 {
			if pending, err := l.Idle(); err != nil || pending {
				t.Fatalf("idle: %v %v", pending, err)
			}
		}
	}
	if open := counting.open.Load(); open != 0 {
		t.Fatalf("%d files are open while idle", open)
	}
	checkHeap(t, "created and written", before, n)
	runtime.KeepAlive(logs)

	start = time.Now()
	stopAll(t, d, logs)
	t.Logf("stopped in %v", time.Since(start))

	opens := counting.opens.Load()
	clear(logs)
	before = heap()
	start = time.Now()
	d = openManyDir(t, counting, root)
	loadAll(t, d, &c, logs, true)
	took := time.Since(start)
	t.Logf("clean start: %v, %v each, %.1f files opened each", took, took/time.Duration(n),
		float64(counting.opens.Load()-opens)/float64(n))
	if open := counting.open.Load(); open != 0 {
		t.Fatalf("%d files are open after a clean start", open)
	}
	checkHeap(t, "opened", before, n)

	fill(t, d, logs, 2)
	for _, l := range logs {
		l.Close(false, epoch0)
	}
	if err := d.Close(false, 0); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	d = openManyDir(t, counting, root)
	loadAll(t, d, &c, logs, false)
	took = time.Since(start)
	t.Logf("start after a kill: %v, %v each", took, took/time.Duration(n))
	if open := counting.open.Load(); open != 0 {
		t.Fatalf("%d files are open after recovery", open)
	}
}

func openManyDir(t *testing.T, fsys vfs.FS, root string) *Dir {
	t.Helper()
	d, err := OpenDir(fsys, root, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fill appends 100 records to each log and flushes all at once.
func fill(t *testing.T, d *Dir, logs []*Log, epoch kafka.LeaderEpoch) {
	t.Helper()
	start := time.Now()
	tokens := make([]FlushToken, len(logs))
	for i, l := range logs {
		l.AssignEpoch(epoch)
		if _, err := l.Append(dataBatch(t, 100, epoch0.UnixMilli(), 20), leader(epoch), epoch0); err != nil {
			t.Fatal(err)
		}
		tokens[i] = l.Dirty()
	}
	t.Logf("appended in %v", time.Since(start))
	flushAll(t, d, tokens)
	t.Logf("and flushed in %v", time.Since(start))
}

func flushAll(t *testing.T, d *Dir, tokens []FlushToken) {
	t.Helper()
	ok, err := SyncGroup(d, tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if !ok {
			if err := token.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		token.Log().MarkDurable(token)
	}
}

func stopAll(t *testing.T, d *Dir, logs []*Log) {
	t.Helper()
	tokens := make([]FlushToken, len(logs))
	for i, l := range logs {
		if err := l.PrepareClose(epoch0); err != nil {
			t.Fatal(err)
		}
		tokens[i] = l.Dirty()
	}
	flushAll(t, d, tokens)
	for _, l := range logs {
		if err := l.Close(true, epoch0); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(true, 1); err != nil {
		t.Fatal(err)
	}
}

func loadAll(t *testing.T, d *Dir, c *Config, logs []*Log, clean bool) {
	t.Helper()
	parts, err := d.Partitions()
	if err != nil || len(parts) != len(logs) {
		t.Fatalf("%d partitions, %v", len(parts), err)
	}
	for i, p := range parts {
		x := d.Load(p, c, Options{}, epoch0)
		for done := false; !done; {
			if done, err = x.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if r := x.Report(); r.Clean != clean || r.CutBytes > 0 {
			t.Fatalf("%s: %+v", p.Name, r)
		}
		if v := x.Log().View(); v.End == 0 || v.End%100 != 0 {
			t.Fatalf("%s ends at %d", p.Name, v.End)
		}
		logs[i] = x.Log()
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func checkHeap(t *testing.T, what string, before uint64, n int) {
	t.Helper()
	each := (int64(heap()) - int64(before)) / int64(n)
	t.Logf("%s: %d bytes of heap each", what, each)
	if each > 2048 {
		t.Errorf("%s: %d bytes of heap each, want at most 2048", what, each)
	}
}
