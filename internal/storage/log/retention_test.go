package log

import (
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

const day = 24 * time.Hour

// segments makes a log of n closed segments of one batch of 10 records each, days apart, and an active one with another
// batch. Segment i begins at offset 10*i; its newest record is i days after epoch0.
func segments(t *testing.T, c *Config, n int) *rig {
	t.Helper()
	r := newRig(t, vfs.NewMem(vfs.MemOptions{Now: func() time.Time { return epoch0.Add(100 * day) }}), c)
	for i := range n + 1 {
		if i > 0 {
			if err := r.log.Roll(epoch0); err != nil {
				t.Fatal(err)
			}
		}
		r.append(dataBatch(t, 10, epoch0.Add(time.Duration(i)*day).UnixMilli()-9, 100), leader(0))
	}
	return r
}

func TestRetention(t *testing.T) {
	size := func(n int64) int64 { return n * int64(len(dataBatch(t, 10, 0, 100))) }
	tests := []struct {
		name     string
		config   func(*Config)
		hw       kafka.Offset
		start    kafka.Offset // AdvanceStart before
		now      time.Time
		want     kafka.Offset // log start
		segments int
	}{
		{name: "nothing is due", now: epoch0.Add(6 * day), want: 0, segments: 6},
		{name: "by time, oldest first", now: epoch0.Add(9*day + time.Millisecond), want: 30, segments: 3},
		{name: "exactly retention.ms old stays", now: epoch0.Add(9 * day), want: 20, segments: 4},
		{name: "only below the high watermark", hw: 15, now: epoch0.Add(30 * day), want: 10, segments: 5},
		{name: "all expired: a new segment", now: epoch0.Add(30 * day), want: 60, segments: 1},
		{name: "all expired but the last is not replicated", hw: 59, now: epoch0.Add(30 * day), want: 50, segments: 1},
		{name: "no limit", config: func(c *Config) { c.RetentionMs = -1 }, now: epoch0.Add(900 * day), want: 0, segments: 6},
		{name: "compact only", config: func(c *Config) { c.Delete, c.Compact = false, true }, now: epoch0.Add(900 * day), want: 0, segments: 6},
		{name: "by size", config: func(c *Config) { c.RetentionBytes = size(4) }, now: epoch0, want: 20, segments: 4},
		{name: "by size, a segment more than fits stays", config: func(c *Config) { c.RetentionBytes = size(4) + 1 },
			now: epoch0, want: 10, segments: 5},
		{name: "no bytes at all", config: func(c *Config) { c.RetentionBytes = 0 }, now: epoch0, want: 60, segments: 1},
		{name: "below the start, whatever the policy", config: func(c *Config) { c.Delete = false },
			start: 35, now: epoch0, want: 35, segments: 3},
		{name: "start at the end of a segment", start: 30, now: epoch0, want: 30, segments: 3},
		{name: "start at the log end keeps the last segment", start: 60, now: epoch0, want: 60, segments: 1},
		{name: "time and size together", config: func(c *Config) { c.RetentionBytes = size(5) },
			now: epoch0.Add(9*day + time.Millisecond), want: 30, segments: 3},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			c := DefaultConfig()
			if x.config != nil {
				x.config(&c)
			}
			r := segments(t, &c, 5)
			if x.start > 0 {
				if err := r.log.AdvanceStart(x.start); err != nil {
					t.Fatal(err)
				}
			}
			hw := x.hw
			if hw == 0 {
				hw = r.log.View().End
			}
			got, err := r.log.Retain(hw, x.now)
			if err != nil {
				t.Fatal(err)
			}
			v := r.log.View()
			if v.Start != x.want || v.Segments() != x.segments || got.Start != x.want || v.End != 60 {
				t.Fatalf("log [%d, %d) of %d segments, want start %d and %d segments; %+v", v.Start, v.End, v.Segments(),
					x.want, x.segments, got)
			}
			if again, err := r.log.Retain(hw, x.now); err != nil || again.Segments != 0 {
				t.Fatalf("again: %+v, %v", again, err)
			}
		})
	}
}

// TestRetentionByFutureTimestamp: a record from the future keeps its segment and all behind it.
func TestRetentionByFutureTimestamp(t *testing.T) {
	c := DefaultConfig()
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), &c)
	for _, ts := range []time.Time{epoch0, epoch0.Add(400 * day), epoch0} {
		r.append(dataBatch(t, 1, ts.UnixMilli(), 10), leader(0))
		if err := r.log.Roll(epoch0); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.log.Retain(3, epoch0.Add(100*day))
	if err != nil || got.Start != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestRetentionWithoutTimestamps goes by the file's time, as Kafka does.
func TestRetentionWithoutTimestamps(t *testing.T) {
	now := epoch0
	c := DefaultConfig()
	r := newRig(t, vfs.NewMem(vfs.MemOptions{Now: func() time.Time { return now }}), &c)
	for range 2 {
		r.append(dataBatch(t, 1, record.NoTimestamp, 10), leader(0))
		if err := r.log.Roll(epoch0); err != nil {
			t.Fatal(err)
		}
		now = now.Add(day)
	}
	got, err := r.log.Retain(2, epoch0.Add(7*day+time.Millisecond))
	if err != nil || got.Start != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestDeleteDelay: readers finish on deleted segments; files are renamed when the new start is durable and removed after
// file.delete.delay.ms.
func TestDeleteDelay(t *testing.T) {
	c := DefaultConfig()
	c.RetentionMs = 1
	r := segments(t, &c, 3)
	held := r.log.View()
	e, err := held.Read(0, 10, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	now := epoch0.Add(40 * day)
	if _, err := r.log.Retain(40, now); err != nil {
		t.Fatal(err)
	}
	names := func() (live, deleted int) {
		for name := range contents(r.fs.(*vfs.Mem), r.log.Path()) {
			_, suffix, ok := parseSegmentName(name)
			if ok && suffix == dataSuffix {
				live++
			}
			if ok && suffix == dataSuffix+deletedSuffix {
				deleted++
			}
		}
		return live, deleted
	}
	if live, deleted := names(); live != 5 || deleted != 0 {
		t.Fatalf("%d live, %d deleted files before the start is durable", live, deleted)
	}
	next, err := r.log.DeletePending(now)
	if err != nil || !next.Equal(now.Add(time.Minute)) {
		t.Fatalf("next %v, %v", next, err)
	}
	if live, deleted := names(); live != 1 || deleted != 4 {
		t.Fatalf("%d live, %d deleted files after the rename", live, deleted)
	}
	if saved, err := ReadCheckpoint(r.fs, testRoot+"/"+LogStartCheckpoint); err != nil || saved[r.tp] != 40 {
		t.Fatalf("checkpoint %v, %v", saved, err)
	}
	if next, err = r.log.DeletePending(now.Add(time.Minute)); err != nil || !next.IsZero() {
		t.Fatalf("next %v, %v", next, err)
	}
	if live, deleted := names(); live != 1 || deleted != 0 {
		t.Fatalf("%d live, %d deleted files at the end", live, deleted)
	}
	if b, err := e.ReadAll(); err != nil || len(b) == 0 {
		t.Fatalf("held extents: %d bytes, %v", len(b), err)
	}
	e.Release()
	if _, err := held.Read(0, 10, 1<<20, true); kafka.CodeOf(err) != kafka.OffsetOutOfRange {
		t.Fatalf("read through an old view: %v", err)
	}
	if err := r.dir.Checkpoint(nil); err != nil {
		t.Fatal(err)
	}
	if saved, err := ReadCheckpoint(r.fs, testRoot+"/"+LogStartCheckpoint); err != nil || len(saved) != 0 {
		t.Fatalf("checkpoint %v, %v: the first segment says it now", saved, err)
	}
}

// TestRolling checks when a segment is left.
func TestRolling(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch0.Add(d).UnixMilli() }
	one := int64(len(dataBatch(t, 1, 0, 100)))
	tests := []struct {
		name   string
		config func(*Config)
		times  []int64 // one record each
		want   []kafka.Offset
	}{
		{"size", func(c *Config) { c.SegmentBytes = 2 * one }, []int64{at(0), at(0), at(0), at(0), at(0)}, []kafka.Offset{0, 2, 4}},
		{"message time", nil, []int64{at(0), at(7 * day), at(7*day + 1e6), at(20 * day)}, []kafka.Offset{0, 2, 3}},
		{"older records do not roll", nil, []int64{at(9 * day), at(0), at(1), at(16 * day)}, []kafka.Offset{0}},
		{"compaction lag", func(c *Config) { c.Compact, c.MaxCompactionLagMs = true, 1000 },
			[]int64{at(0), at(time.Second), at(time.Second + 1e6)}, []kafka.Offset{0, 2}},
		{"lag without compaction", func(c *Config) { c.MaxCompactionLagMs = 1000 }, []int64{at(0), at(time.Hour)}, []kafka.Offset{0}},
		{"full index", func(c *Config) { c.IndexIntervalBytes, c.SegmentIndexBytes = 0, 36 },
			[]int64{at(0), at(1e6), at(2e6), at(3e6), at(4e6), at(5e6)}, []kafka.Offset{0, 3}},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			c := DefaultConfig()
			if x.config != nil {
				x.config(&c)
			}
			r := newRig(t, vfs.NewMem(vfs.MemOptions{}), &c)
			for _, ts := range x.times {
				r.append(dataBatch(t, 1, ts, 100), leader(0))
			}
			var got []kafka.Offset
			for _, s := range r.log.View().segments {
				got = append(got, s.base)
			}
			if len(got) != len(x.want) {
				t.Fatalf("segments at %v, want %v", got, x.want)
			}
			for i := range got {
				if got[i] != x.want[i] {
					t.Fatalf("segments at %v, want %v", got, x.want)
				}
			}
		})
	}
}

// TestRollByOffsetRange: offsets that an index cannot express relative to the base begin a new segment, and an append
// that spans them is split.
func TestRollByOffsetRange(t *testing.T) {
	c := DefaultConfig()
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), &c)
	far := kafka.Offset(3_000_000_000)
	a := buildBatch(t, record.Options{BaseOffset: 5}, 1, epoch0.UnixMilli(), 10)
	b := buildBatch(t, record.Options{BaseOffset: far}, 1, epoch0.UnixMilli(), 10)
	d := buildBatch(t, record.Options{BaseOffset: 2 * far}, 1, epoch0.UnixMilli(), 10)
	got := r.append(append(append(append(record.Batch{}, a...), b...), d...), Stamp{})
	if got.First != 5 || got.Last != 2*far || !got.Rolled {
		t.Fatalf("%+v", got)
	}
	var bases []kafka.Offset
	for _, s := range r.log.View().segments {
		bases = append(bases, s.base)
	}
	if len(bases) != 3 || bases[1] != far || bases[2] != 2*far {
		t.Fatalf("segments at %v", bases)
	}
	if all := readAll(t, r.log.View(), 0, 1<<20); len(all) != 3 {
		t.Fatalf("%d batches", len(all))
	}
}

// TestJitter: partitions roll at different times, each at the same one whenever it is asked.
func TestJitter(t *testing.T) {
	c := DefaultConfig()
	c.SegmentJitterMs = 1000
	seen := map[int64]bool{}
	for i := range int32(20) {
		l := &Log{tp: tp("t", i)}
		j := l.jitterMs(0, &c)
		if j < 0 || j >= 1000 || j != l.jitterMs(0, &c) {
			t.Fatalf("jitter %d", j)
		}
		seen[j] = true
	}
	if len(seen) < 10 {
		t.Fatalf("%d different values", len(seen))
	}
}
