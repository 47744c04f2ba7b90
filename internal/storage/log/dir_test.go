package log

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

func TestDirNames(t *testing.T) {
	id := kafka.UUID{0: 0xab, 15: 1}
	hexID := "ab000000000000000000000000000001"
	long := strings.Repeat("x", 249)
	tests := []struct {
		name string
		want PartitionDir
		ok   bool
	}{
		{"topic-0", PartitionDir{Partition: tp("topic", 0)}, true},
		{"a-b.c_d-17", PartitionDir{Partition: tp("a-b.c_d", 17)}, true},
		{"__cluster_metadata-0", PartitionDir{Partition: tp("__cluster_metadata", 0)}, true},
		{"topic-1." + hexID + "-delete", PartitionDir{Partition: tp("topic", 1), State: Deleted}, true},
		{"topic-1." + hexID + "-future", PartitionDir{Partition: tp("topic", 1), State: Future}, true},
		{"topic-1." + hexID + "-stray", PartitionDir{Partition: tp("topic", 1), State: Stray}, true},
		{"my-delete-3", PartitionDir{Partition: tp("my-delete", 3)}, true},
		{"topic--1", PartitionDir{Partition: tp("topic-", 1)}, true},
		{"topic-01", PartitionDir{}, false},
		{"topic-", PartitionDir{}, false},
		{"-1", PartitionDir{}, false},
		{"topic", PartitionDir{}, false},
		{"topic-9999999999", PartitionDir{}, false},
		{"lost+found", PartitionDir{}, false},
		{"topic-x-delete", PartitionDir{}, false},
	}
	for _, x := range tests {
		got, ok := parseDirName(x.name)
		if x.ok {
			x.want.Name = x.name
		}
		if ok != x.ok || got != x.want {
			t.Errorf("%s: %+v %v, want %+v %v", x.name, got, ok, x.want, x.ok)
		}
	}
	for state, suffix := range dirStateSuffixes {
		if got := dirName(tp("topic", 7), state, id); got != "topic-7."+hexID+suffix {
			t.Errorf("%d: %s", state, got)
		}
		cut := dirName(tp(long, 12345), state, id)
		if len(cut) != maxDirName || !strings.HasSuffix(cut, "-12345."+hexID+suffix) {
			t.Errorf("%s has %d bytes", cut, len(cut))
		}
	}
}

func TestDirIdentity(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if _, err := OpenDir(mem, testRoot, MetaProperties{NodeID: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("not formatted: %v", err)
	}
	m := MetaProperties{ClusterID: "c", NodeID: 4, DirectoryID: kafka.UUID{3: 4}}
	if err := FormatDir(mem, testRoot, m); err != nil {
		t.Fatal(err)
	}
	if err := FormatDir(mem, testRoot, m); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("formatted twice: %v", err)
	}
	for _, want := range []MetaProperties{
		{ClusterID: "d", NodeID: 4}, {ClusterID: "c", NodeID: 5}, {NodeID: 4, DirectoryID: kafka.UUID{3: 5}},
	} {
		if _, err := OpenDir(mem, testRoot, want); err == nil || !strings.Contains(err.Error(), MetaPropertiesFile) {
			t.Errorf("%+v: %v", want, err)
		}
	}
	d, err := OpenDir(mem, testRoot, MetaProperties{ClusterID: "c", NodeID: 4})
	if err != nil {
		t.Fatal(err)
	}
	if d.Meta().DirectoryID != m.DirectoryID {
		t.Fatalf("%+v", d.Meta())
	}
	if _, err := OpenDir(mem, testRoot, m); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("opened twice: %v", err)
	}
	if err := d.Close(true, 77); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenDir(mem, testRoot, m); err != nil {
		t.Fatal(err)
	}
	if epoch, clean := d.CleanShutdown(); epoch != 77 || !clean {
		t.Fatalf("epoch %d, clean %v", epoch, clean)
	}
	d.Close(false, 0)
	if d, err = OpenDir(mem, testRoot, m); err != nil {
		t.Fatal(err)
	}
	if _, clean := d.CleanShutdown(); clean {
		t.Fatal("a marker counts once")
	}
}

func TestCheckpoints(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	other := tp("other", 1)
	for i := range 30 {
		r.append(dataBatch(t, 1, epoch0.UnixMilli()+int64(i), 100), leader(0))
	}
	r.flush()
	if err := r.dir.Checkpoint(map[kafka.TopicPartition]kafka.Offset{r.tp: 12, other: 3}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) map[kafka.TopicPartition]kafka.Offset {
		t.Helper()
		got, err := ReadCheckpoint(r.fs, testRoot+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read(RecoveryPointCheckpoint); got[r.tp] != r.log.View().last().base || got[r.tp] == 0 {
		t.Fatalf("recovery points %v, last segment at %d", got, r.log.View().last().base)
	}
	if got := read(HighWatermarkCheckpoint); got[r.tp] != 12 || got[other] != 3 {
		t.Fatalf("high watermarks %v", got)
	}
	if err := r.log.TruncateTo(4); err != nil {
		t.Fatal(err)
	}
	if got := read(RecoveryPointCheckpoint); got[r.tp] != 4 {
		t.Fatalf("recovery points after a cut to 4: %v", got)
	}
	r.stop()
	r.reopen()
	if got, ok := r.dir.HighWatermark(other); got != 3 || !ok {
		t.Fatalf("high watermark of a partition that is not open: %d %v", got, ok)
	}
	if got := read(RecoveryPointCheckpoint); got[r.tp] != 4 {
		t.Fatalf("recovery points after an orderly stop: %v", got)
	}
	if err := r.dir.Delete(r.log, kafka.UUID{1}, epoch0); err != nil {
		t.Fatal(err)
	}
	if err := r.dir.Checkpoint(nil); err != nil {
		t.Fatal(err)
	}
	if got := read(HighWatermarkCheckpoint); len(got) != 1 {
		t.Fatalf("high watermarks after a deletion: %v", got)
	}
}

func TestDeletePartition(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	for range 30 {
		r.append(dataBatch(t, 1, epoch0.UnixMilli(), 100), leader(0))
	}
	e, err := r.log.View().Read(0, 30, 5000, true)
	if err != nil {
		t.Fatal(err)
	}
	token := r.log.Dirty()
	if err := r.dir.Delete(r.log, kafka.UUID{1, 2, 3}, epoch0); err != nil {
		t.Fatal(err)
	}
	if err := token.Sync(); err != nil {
		t.Fatalf("sync of a deleted log: %v", err)
	}
	r.log.MarkDurable(token)
	if _, err := r.log.Append(dataBatch(t, 1, epoch0.UnixMilli(), 1), leader(0), epoch0); kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatalf("append to a deleted log: %v", err)
	}
	if b, err := e.ReadAll(); err != nil || len(b) != e.Size() {
		t.Fatalf("extents: %v", err)
	}
	e.Release()
	parts, err := r.dir.Partitions()
	if err != nil || len(parts) != 1 || parts[0].State != Deleted || parts[0].Partition != r.tp {
		t.Fatalf("%+v, %v", parts, err)
	}
	if l, err := r.dir.Create(r.tp, r.config, CreateOptions{TopicID: kafka.UUID{9: 9}}, epoch0); err != nil || l.View().End != 0 {
		t.Fatalf("create again: %v", err)
	}
	next, err := r.dir.DeletePending(epoch0)
	if err != nil || !next.Equal(epoch0.Add(time.Minute)) {
		t.Fatalf("next %v, %v", next, err)
	}
	if next, err = r.dir.DeletePending(next); err != nil || !next.IsZero() {
		t.Fatalf("next %v, %v", next, err)
	}
	if parts, _ = r.dir.Partitions(); len(parts) != 1 || parts[0].State != Live {
		t.Fatalf("%+v", parts)
	}
}

func TestStrayAndFuture(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	r.append(dataBatch(t, 3, epoch0.UnixMilli(), 100), leader(0))
	r.flush()
	future, err := r.dir.Create(r.tp, r.config, CreateOptions{TopicID: r.topic, State: Future, Unique: kafka.UUID{5}}, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := future.Append(dataBatch(t, 3, epoch0.UnixMilli(), 100), leader(0), epoch0); err != nil {
			t.Fatal(err)
		}
	}
	token := future.Dirty()
	if err := token.Sync(); err != nil {
		t.Fatal(err)
	}
	future.MarkDurable(token)
	if err := r.dir.SetStray(r.log, kafka.UUID{6}); err != nil {
		t.Fatal(err)
	}
	if err := r.dir.Promote(future, 60); err != nil {
		t.Fatal(err)
	}
	if _, err := future.Append(dataBatch(t, 3, epoch0.UnixMilli(), 100), leader(0), epoch0); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, future.View(), 0, 1<<20); len(got) != 21 {
		t.Fatalf("%d batches", len(got))
	}
	parts, err := r.dir.Partitions()
	if err != nil || len(parts) != 2 {
		t.Fatalf("%+v, %v", parts, err)
	}
	states := []DirState{parts[0].State, parts[1].State}
	if !slices.Contains(states, Live) || !slices.Contains(states, Stray) {
		t.Fatalf("%+v", parts)
	}
	if err := future.Close(true, epoch0); err != nil {
		t.Fatal(err)
	}
	if err := r.dir.Close(true, 0); err != nil {
		t.Fatal(err)
	}
	if report := r.reopen(); !report.Clean || r.log.View().End != 63 || r.log.TopicID() != r.topic {
		t.Fatalf("%+v, end %d", report, r.log.View().End)
	}
	for _, p := range parts { // a stray one can be opened too, and is checked
		if p.State != Stray {
			continue
		}
		x := r.dir.Load(p, r.config, Options{}, epoch0)
		for done := false; !done; {
			if done, err = x.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if x.Log().View().End != 3 || x.Report().Clean {
			t.Fatalf("stray: end %d, %+v", x.Log().View().End, x.Report())
		}
	}
}

// TestLeftovers: what a cleaning or deletion left half done is finished or undone (3.6 of Kafka's rules).
func TestLeftovers(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	for range 60 {
		r.append(dataBatch(t, 1, epoch0.UnixMilli(), 100), leader(0))
	}
	r.stop()
	dir := r.log.Path()
	files := contents(mem, dir)
	var bases []kafka.Offset
	for name := range files {
		if base, suffix, ok := parseSegmentName(name); ok && suffix == dataSuffix {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	write := func(on *vfs.Mem, base kafka.Offset, suffix, data string) {
		t.Helper()
		if err := writeFile(on, dir+"/"+segmentName(base, suffix), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	merged := files[segmentName(bases[1], dataSuffix)] + files[segmentName(bases[2], dataSuffix)]
	tests := []struct {
		name  string
		make  func(on *vfs.Mem)
		bases []kafka.Offset
	}{
		{"nothing", func(*vfs.Mem) {}, bases},
		{"deleted and temporary files", func(on *vfs.Mem) {
			write(on, bases[1], dataSuffix+deletedSuffix, "x")
			write(on, bases[1], ".index"+deletedSuffix, "x")
			write(on, 7, ".timeindex"+temporarySuffix, "x")
		}, bases},
		{"an unfinished cleaning", func(on *vfs.Mem) {
			write(on, bases[1], dataSuffix+cleanedSuffix, merged[:100])
			write(on, bases[1], ".index"+cleanedSuffix, "")
		}, bases},
		{"a finished cleaning of two segments", func(on *vfs.Mem) {
			write(on, bases[1], dataSuffix+swapSuffix, merged)
			write(on, bases[1], ".index"+swapSuffix, "")
			write(on, bases[1], ".timeindex"+swapSuffix, "")
		}, slices.Concat(bases[:2], bases[3:])},
		{"a swap above an unfinished cleaning", func(on *vfs.Mem) {
			write(on, bases[1], dataSuffix+cleanedSuffix, merged[:50])
			write(on, bases[2], dataSuffix+swapSuffix, "half")
		}, bases},
		{"indexes without a log", func(on *vfs.Mem) {
			write(on, 5, ".index", "12345678")
			write(on, 5, ".timeindex", "")
			write(on, 5, ".txnindex", "")
		}, bases},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			on := mem.KillClone()
			x.make(on)
			twin := &rig{t: t, fs: on, config: r.config, tp: r.tp}
			twin.reopen()
			var got []kafka.Offset
			for _, s := range twin.log.View().segments {
				got = append(got, s.base)
			}
			if diff := cmp.Diff(x.bases, got); diff != "" {
				t.Fatalf("segments: %s", diff)
			}
			if all := readAll(t, twin.log.View(), 0, 1<<20); len(all) != 60 {
				t.Fatalf("%d batches", len(all))
			}
			for name := range contents(on, dir) {
				base, suffix, ok := parseSegmentName(name)
				known := suffix == dataSuffix || suffix == offsetIndexSuffix || suffix == timeIndexSuffix ||
					suffix == TxnIndexSuffix || suffix == snapshotSuffix
				if ok && (!known || (suffix != snapshotSuffix && !slices.Contains(x.bases, base))) {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestMissingIndexes are made anew, also after an orderly stop, and are what they were.
func TestMissingIndexes(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	for i := range 60 {
		r.append(dataBatch(t, 1+i%3, epoch0.UnixMilli()+int64(i*7%50), 100), leader(0))
	}
	r.stop()
	want := contents(mem, r.log.Path())
	for name := range want {
		if strings.HasSuffix(name, "index") {
			if err := mem.Remove(r.log.Path() + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if report := r.reopen(); !report.Clean || report.IndexesRebuilt < 3 {
		t.Fatalf("%+v", report)
	}
	r.stop()
	if diff := cmp.Diff(want, contents(mem, r.log.Path())); diff != "" {
		t.Fatal(diff)
	}
	if report := r.reopen(); !report.Clean || report.IndexesRebuilt != 0 {
		t.Fatalf("%+v", report)
	}
}

// TestRecoveryRebuildsTheSameFiles: a recovery of everything writes, byte for byte, what the appends had written.
func TestRecoveryRebuildsTheSameFiles(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	x, err := runScript(t, mem, mem, crashScripts["producers and transactions"], 0)
	if err != nil {
		t.Fatal(err)
	}
	twin := mem.KillClone()
	if err := twin.Remove(testRoot + "/" + RecoveryPointCheckpoint); err != nil {
		t.Fatal(err)
	}
	if err := x.log.Close(true, x.now); err != nil {
		t.Fatal(err)
	}
	l, report, err := x.recover(twin)
	if err != nil || report.SegmentsScanned < 4 {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := l.Close(true, x.now); err != nil {
		t.Fatal(err)
	}
	want := contents(mem, l.Path())
	maps.DeleteFunc(want, func(name, _ string) bool { return strings.HasSuffix(name, deletedSuffix) })
	if diff := cmp.Diff(want, contents(twin, l.Path())); diff != "" {
		t.Fatal(diff)
	}
}
