package log

import (
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// benchLog makes a log on the real file system with Kafka's defaults and small segments, so that disks do not fill.
func benchLog(b *testing.B) *Log {
	b.Helper()
	root := b.TempDir() + "/data"
	fsys := vfs.OS()
	if err := FormatDir(fsys, root, MetaProperties{ClusterID: "c", NodeID: 1}); err != nil {
		b.Fatal(err)
	}
	d, err := OpenDir(fsys, root, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		b.Fatal(err)
	}
	c := DefaultConfig()
	c.SegmentBytes = 64 << 20
	c.RetentionBytes = 128 << 20
	c.FileDeleteDelayMs = 0
	l, err := d.Create(tp("bench", 0), &c, CreateOptions{}, epoch0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		l.Close(false, epoch0)
		d.Close(false, 0)
	})
	return l
}

func benchmarkAppend(b *testing.B, records, size int) {
	l := benchLog(b)
	batch := dataBatch(b, records, epoch0.UnixMilli(), size)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		got, err := l.Append(batch, leader(1), epoch0)
		if err != nil {
			b.Fatal(err)
		}
		if got.Rolled { // or the disk fills
			b.StopTimer()
			if _, err := l.Retain(l.View().End, epoch0); err != nil {
				b.Fatal(err)
			}
			if _, err := l.DeletePending(epoch0); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

func BenchmarkAppend256KiB(b *testing.B) { benchmarkAppend(b, 256, 1000) }
func BenchmarkAppend16KiB(b *testing.B)  { benchmarkAppend(b, 16, 1000) }
func BenchmarkAppend1Record(b *testing.B) {
	benchmarkAppend(b, 1, 100)
}

// BenchmarkTailRead reads the newest batch, as a consumer at the end of the log does.
func BenchmarkTailRead(b *testing.B) {
	l := benchLog(b)
	for range 1000 {
		if _, err := l.Append(dataBatch(b, 16, epoch0.UnixMilli(), 1000), leader(1), epoch0); err != nil {
			b.Fatal(err)
		}
	}
	benchmarkRead(b, l, l.View().End-16)
}

// BenchmarkColdRead reads somewhere in the middle: an index lookup and a short scan.
func BenchmarkColdRead(b *testing.B) {
	l := benchLog(b)
	for range 3000 {
		if _, err := l.Append(dataBatch(b, 16, epoch0.UnixMilli(), 1000), leader(1), epoch0); err != nil {
			b.Fatal(err)
		}
	}
	benchmarkRead(b, l, 16*1500+5)
}

func benchmarkRead(b *testing.B, l *Log, from kafka.Offset) {
	b.ReportAllocs()
	for b.Loop() {
		v := l.View()
		e, err := v.Read(from, v.End, 1<<20, true)
		if err != nil || e.Size() == 0 {
			b.Fatal(e.Size(), err)
		}
		e.Release()
	}
}

// TestAllocations holds the line on what an append and a tail read may allocate: the view that readers see, and now and
// then a longer list of batch ends or index entries.
func TestAllocations(t *testing.T) {
	root := t.TempDir() + "/data"
	d := formatAndOpen(t, vfs.OS(), root)
	c := DefaultConfig()
	l, err := d.Create(tp("t", 0), &c, CreateOptions{}, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	batch := dataBatch(t, 16, epoch0.UnixMilli(), 1000)
	perAppend := testing.AllocsPerRun(500, func() {
		if _, err := l.Append(batch, leader(1), epoch0); err != nil {
			t.Fatal(err)
		}
	})
	from := l.View().End - 16
	perRead := testing.AllocsPerRun(500, func() {
		v := l.View()
		e, err := v.Read(from, v.End, 1<<20, true)
		if err != nil || e.Size() != len(batch) {
			t.Fatal(e.Size(), err)
		}
		e.Release()
	})
	perFlush := testing.AllocsPerRun(100, func() {
		token := l.Dirty()
		token.Drop()
	})
	t.Logf("append %v, tail read %v, token %v", perAppend, perRead, perFlush)
	if perAppend > 2 || perRead > 0 || perFlush > 1 {
		t.Errorf("allocations: append %v, tail read %v, token %v; want at most 2, 0, 1", perAppend, perRead, perFlush)
	}
	l.Close(false, epoch0)
	d.Close(false, 0)
}

func formatAndOpen(t tb, fsys vfs.FS, root string) *Dir {
	t.Helper()
	if err := FormatDir(fsys, root, MetaProperties{ClusterID: "c", NodeID: 1}); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(fsys, root, MetaProperties{NodeID: kafka.NoNode})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
