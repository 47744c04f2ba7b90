package log

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// epoch0 is when tests begin; far enough from zero that ages can be subtracted.
var epoch0 = time.UnixMilli(1_700_000_000_000)

const testRoot = "data"

// tb is what helpers need of a *testing.T or *rapid.T.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig is a log directory with one log on some file system.
type rig struct {
	t      tb
	fs     vfs.FS
	dir    *Dir
	log    *Log
	config *Config
	tp     kafka.TopicPartition
	topic  kafka.UUID
}

// smallConfig rolls and indexes often.
func smallConfig() *Config {
	c := DefaultConfig()
	c.SegmentBytes = 2000
	c.IndexIntervalBytes = 100
	c.SegmentIndexBytes = 400
	return &c
}

func newRig(t tb, fsys vfs.FS, c *Config) *rig {
	t.Helper()
	r := &rig{t: t, fs: fsys, config: c, tp: tp("topic", 3), topic: kafka.UUID{1: 7, 15: 200}}
	if err := FormatDir(fsys, testRoot, MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{14: 1}}); err != nil {
		t.Fatal(err)
	}
	r.openDir()
	l, err := r.dir.Create(r.tp, c, CreateOptions{TopicID: r.topic}, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	r.log = l
	return r
}

func (r *rig) openDir() {
	r.t.Helper()
	d, err := OpenDir(r.fs, testRoot, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		r.t.Fatal(err)
	}
	r.dir = d
}

// reopen opens directory and log anew, as after a restart.
func (r *rig) reopen() Report {
	r.t.Helper()
	r.openDir()
	l, report, err := r.dir.Open(r.tp, r.config, Options{}, epoch0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.log = l
	return report
}

// stop does an orderly stop.
func (r *rig) stop() {
	r.t.Helper()
	if err := r.log.Close(true, epoch0); err != nil {
		r.t.Fatal(err)
	}
	if err := r.dir.Close(true, 5); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) flush() {
	r.t.Helper()
	token := r.log.Dirty()
	if err := token.Sync(); err != nil {
		r.t.Fatal(err)
	}
	r.log.MarkDurable(token)
}

// dataBatch builds a plain batch of count records with times ts, ts+1, ...
func dataBatch(t tb, count int, ts int64, size int) record.Batch {
	t.Helper()
	return buildBatch(t, record.Options{}, count, ts, size)
}

func buildBatch(t tb, o record.Options, count int, ts int64, size int) record.Batch {
	t.Helper()
	b := record.NewBuilder(o)
	for i := range count {
		b.Append(ts+int64(i), fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte{byte('a' + i%26)}, size), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func leader(epoch kafka.LeaderEpoch) Stamp { return Stamp{Assign: true, LeaderEpoch: epoch} }

func (r *rig) append(b record.Batch, s Stamp) Appended {
	r.t.Helper()
	out, err := r.log.Append(b, s, epoch0)
	if err != nil {
		r.t.Fatalf("append: %v", err)
	}
	return out
}

// readAll reads what a view serves of [from, end) and gives the batches.
func readAll(t tb, v *View, from kafka.Offset, maxBytes int) []record.Batch {
	t.Helper()
	var out []record.Batch
	for from < v.End {
		e, err := v.Read(from, v.End, maxBytes, true)
		if err != nil {
			t.Fatalf("read from %d: %v", from, err)
		}
		if e.Size() == 0 {
			t.Fatalf("read from %d to %d gives nothing", from, v.End)
		}
		b, err := e.ReadAll()
		e.Release()
		if err != nil {
			t.Fatal(err)
		}
		before := from
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			if err != nil { // cut
				break
			}
			if err := first.CheckCRC(); err != nil {
				t.Fatalf("batch at %d: %v", first.BaseOffset(), err)
			}
			if first.NextOffset() > from {
				out = append(out, first)
				from = first.NextOffset()
			}
			b = rest
		}
		if from == before {
			t.Fatalf("no whole batch at %d", from)
		}
	}
	return out
}

func offsetsOf(batches []record.Batch) []kafka.Offset {
	var out []kafka.Offset
	for _, b := range batches {
		out = append(out, b.BaseOffset())
	}
	return out
}

func TestAppendAndRead(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	var want []record.Batch
	for i := range 50 {
		b := dataBatch(t, 1+i%3, epoch0.UnixMilli()+int64(i*10), 30+i)
		got := r.append(b, leader(2))
		if got.First != b.BaseOffset() || got.Last != b.LastOffset() || got.Duplicate {
			t.Fatalf("appended %+v, batch at %d to %d", got, b.BaseOffset(), b.LastOffset())
		}
		want = append(want, bytes.Clone(b))
	}
	check := func(when string) {
		t.Helper()
		v := r.log.View()
		if v.Segments() < 3 {
			t.Fatalf("%d segments", v.Segments())
		}
		for _, maxBytes := range []int{1, 200, 1500, 1 << 20} {
			got := readAll(t, v, 0, maxBytes)
			if len(got) != len(want) {
				t.Fatalf("%s: %d batches with %d bytes, want %d: %v", when, len(got), maxBytes, len(want), offsetsOf(got))
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("%s: batch %d differs", when, i)
				}
			}
		}
	}
	check("appended")
	if v := r.log.View(); v.Durable != 0 {
		t.Fatalf("durable %d before any flush", v.Durable)
	}
	r.flush()
	if v := r.log.View(); v.Durable != v.End {
		t.Fatalf("durable %d of %d after a flush", v.Durable, v.End)
	}
	r.stop()
	if report := r.reopen(); !report.Clean {
		t.Fatalf("orderly stop: %+v", report)
	}
	check("after an orderly stop")
	r.log.Close(false, epoch0)
	r.dir.Close(false, 0)
	if report := r.reopen(); report.Clean || report.CutBytes != 0 || report.SegmentsScanned == 0 {
		t.Fatalf("kill: %+v", report)
	}
	check("after a kill")
	got := r.append(dataBatch(t, 1, epoch0.UnixMilli(), 10), leader(3))
	if got.First != want[len(want)-1].NextOffset() {
		t.Fatalf("append goes to %d", got.First)
	}
	if e := r.log.View().Epochs(); len(e) != 2 || e[1] != (EpochEntry{3, got.First}) {
		t.Fatalf("epochs %v", e)
	}
}
