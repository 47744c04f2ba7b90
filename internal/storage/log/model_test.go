package log

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// model is a log as a slice of batches.
type model struct {
	batches    []record.Batch // in the log, also below start
	history    []record.Batch // with what retention deleted: producers are known from there
	start, end kafka.Offset
	epochs     Epochs
	durable    kafka.Offset
}

func (m *model) append(b record.Batch) {
	b = bytes.Clone(b)
	m.batches = append(m.batches, b)
	m.history = append(m.history, b)
	m.epochs, _ = m.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
	m.end = b.NextOffset()
}

func (m *model) truncate(end, base kafka.Offset) {
	if end >= m.end {
		m.epochs = m.epochs.TruncateEnd(m.end)
		return
	}
	for _, b := range m.batches {
		if b.LastOffset() >= end {
			end = min(end, b.BaseOffset())
			break
		}
	}
	gone := func(b record.Batch) bool { return b.BaseOffset() >= end }
	m.batches = slices.DeleteFunc(m.batches, gone)
	m.history = slices.DeleteFunc(m.history, gone)
	m.end = base // where the last segment begins
	if n := len(m.batches); n > 0 {
		m.end = max(base, m.batches[n-1].NextOffset())
	}
	end = m.end
	m.start, m.durable = min(m.start, end), min(m.durable, end)
	m.epochs = m.epochs.TruncateEnd(end)
}

// place gives the index of the first batch whose last offset is >= offset.
func (m *model) place(offset kafka.Offset) int {
	return slices.IndexFunc(append(m.batches, nil), func(b record.Batch) bool { return b == nil || b.LastOffset() >= offset })
}

func (m *model) read(from, limit kafka.Offset, maxBytes int, whole bool) ([]byte, error) {
	if from < m.start || from > m.end {
		return nil, kafka.OffsetOutOfRange
	}
	if from >= min(limit, m.end) {
		return nil, nil
	}
	part := m.batches[m.place(from):m.place(min(limit, m.end))]
	all := bytes.Join(asBytes(part), nil)
	n := maxBytes
	if len(part) > 0 && n < len(part[0]) { // a first batch that does not fit is not begun
		n = 0
		if whole {
			n = len(part[0])
		}
	}
	return all[:min(max(n, 0), len(all))], nil
}

func asBytes(batches []record.Batch) [][]byte {
	var out [][]byte
	for _, b := range batches {
		out = append(out, b)
	}
	return out
}

func (m *model) producers() []ProducerInfo {
	var p Producers
	for _, b := range m.history {
		p.Update(b)
	}
	return p.All()
}

// firstSince gives the first record from start on with at least this timestamp.
func (m *model) firstSince(t *rapid.T, timestamp int64) (TimestampOffset, bool) {
	for _, b := range m.batches {
		for r, err := range b.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Timestamp >= timestamp && r.Offset >= m.start {
				return TimestampOffset{r.Timestamp, r.Offset, b.LeaderEpoch()}, true
			}
		}
	}
	return TimestampOffset{}, false
}

func (m *model) newest(t *rapid.T, first kafka.Offset) (TimestampOffset, bool) {
	best, found := TimestampOffset{Timestamp: -1}, false
	for _, b := range m.batches {
		for r, err := range b.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Timestamp > best.Timestamp && r.Offset >= first {
				best, found = TimestampOffset{r.Timestamp, r.Offset, b.LeaderEpoch()}, true
			}
		}
	}
	return best, found
}

// machine drives log and model with the same random operations.
type machine struct {
	*rig
	m     model
	epoch kafka.LeaderEpoch
	now   time.Time
	seqs  map[kafka.ProducerID]int32
	ts    int64
	token *FlushToken
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := DefaultConfig()
		c.SegmentBytes = rapid.SampledFrom([]int64{800, 1500, 3000, 1 << 20}).Draw(rt, "segment.bytes")
		c.IndexIntervalBytes = rapid.SampledFrom([]int32{0, 100, 500, 4096}).Draw(rt, "index.interval.bytes")
		c.SegmentIndexBytes = rapid.SampledFrom([]int32{40, 200, 10 << 20}).Draw(rt, "segment.index.bytes")
		c.SegmentMs = rapid.SampledFrom([]int64{50, 1000, 1 << 40}).Draw(rt, "segment.ms")
		c.RetentionBytes = rapid.SampledFrom([]int64{-1, 2000}).Draw(rt, "retention.bytes")
		c.ProducerExpiryMs = 1 << 50
		x := &machine{
			rig: newRig(rt, vfs.NewMem(vfs.MemOptions{}), &c), now: epoch0, ts: epoch0.UnixMilli(),
			seqs: map[kafka.ProducerID]int32{},
		}
		defer x.close()
		rt.Repeat(map[string]func(*rapid.T){
			"append":     x.appendLeader,
			"append2":    x.appendLeader,
			"append3":    x.appendLeader,
			"idempotent": x.appendProducer,
			"replicate":  x.appendFollower,
			"epoch":      x.newEpoch,
			"truncate":   x.truncateTo,
			"restart":    x.truncateFully,
			"start":      x.advanceStart,
			"retain":     x.retain,
			"roll":       x.rollOver,
			"flush":      x.flushNow,
			"token":      x.slowFlush,
			"idle":       x.idle,
			"stop":       x.stopAndStart,
			"kill":       x.killAndStart,
			"read":       x.readSome,
			"time":       x.findTime,
			"":           x.check,
		})
	})
}

func (x *machine) close() {
	if x.token != nil {
		x.token.Drop()
	}
	x.log.Close(false, epoch0)
	x.dir.Close(false, 0)
}

func (x *machine) batch(t *rapid.T, o record.Options) record.Batch {
	count := rapid.IntRange(1, 4).Draw(t, "count")
	x.ts += int64(rapid.IntRange(-20, 30).Draw(t, "time"))
	o.Codec = rapid.SampledFrom([]record.Codec{record.Uncompressed, record.Uncompressed, record.LZ4}).Draw(t, "codec")
	return buildBatch(x.t, o, count, x.ts, rapid.IntRange(0, 150).Draw(t, "size"))
}

func (x *machine) appendLeader(t *rapid.T) {
	b := x.batch(t, record.Options{})
	got := x.rig.append(b, leader(x.epoch))
	if got.First != x.m.end || got.Last != b.LastOffset() {
		t.Fatalf("appended %+v, log ended at %d", got, x.m.end)
	}
	x.m.append(b)
}

func (x *machine) appendProducer(t *rapid.T) {
	id := kafka.ProducerID(rapid.IntRange(1, 3).Draw(t, "producer"))
	b := x.batch(t, record.Options{Producer: &record.Producer{ID: id, Sequence: x.seqs[id]}})
	s := leader(x.epoch)
	s.Producer.Origin = FromClient
	again := bytes.Clone(b)
	got, err := x.log.Append(b, s, x.now)
	if err != nil { // the sequence is known to the log only: it may have been cut back
		info, ok := x.log.producers.Lookup(id)
		if !ok || record.AddSequence(info.LastSequence, 1) == x.seqs[id] {
			t.Fatalf("sequence %d refused with %+v: %v", x.seqs[id], info, err)
		}
		x.seqs[id] = record.AddSequence(info.LastSequence, 1)
		return
	}
	if got.Duplicate {
		x.seqs[id] = record.AddSequence(x.seqs[id], b.LastOffsetDelta()+1)
		return
	}
	x.m.append(b)
	x.seqs[id] = record.AddSequence(x.seqs[id], b.LastOffsetDelta()+1)
	dup, err := x.log.Append(again, s, x.now)
	if err != nil || !dup.Duplicate || dup.First != got.First || dup.Last != got.Last {
		t.Fatalf("sent again: %+v %v, first %+v", dup, err, got)
	}
}

func (x *machine) appendFollower(t *rapid.T) {
	var all []byte
	var batches []record.Batch
	next := x.m.end
	x.epoch++ // of another leader, who never heard of an epoch in which nothing was written
	if err := x.log.TruncateTo(x.m.end); err != nil {
		t.Fatal(err)
	}
	x.m.epochs = x.m.epochs.TruncateEnd(x.m.end)
	for range rapid.IntRange(1, 6).Draw(t, "batches") {
		next += kafka.Offset(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(t, "gap"))
		b := x.batch(t, record.Options{BaseOffset: next, LeaderEpoch: x.epoch})
		next = b.NextOffset()
		batches = append(batches, b)
		all = append(all, b...)
	}
	got := x.rig.append(all, Stamp{})
	if got.First != batches[0].BaseOffset() || got.Last != next-1 {
		t.Fatalf("replicated %+v, want %d to %d", got, batches[0].BaseOffset(), next-1)
	}
	for _, b := range batches {
		x.m.append(b)
	}
	if _, err := x.log.Append(batches[0], Stamp{}, x.now); kafka.CodeOf(err) != kafka.OffsetOutOfRange {
		t.Fatalf("replicated twice: %v", err)
	}
}

func (x *machine) newEpoch(t *rapid.T) {
	x.epoch += kafka.LeaderEpoch(rapid.IntRange(1, 3).Draw(t, "epochs"))
	x.log.AssignEpoch(x.epoch)
	x.m.epochs, _ = x.m.epochs.Assign(x.epoch, x.m.end)
}

func (x *machine) truncateTo(t *rapid.T) {
	end := kafka.Offset(rapid.Int64Range(max(0, int64(x.m.end)-30), int64(x.m.end)+2).Draw(t, "end"))
	first := x.log.View().segments[0].base
	if err := x.log.TruncateTo(end); err != nil {
		t.Fatal(err)
	}
	if end < first {
		x.m = model{start: end, end: end, durable: end}
		return
	}
	x.m.truncate(end, x.log.View().last().base)
}

func (x *machine) truncateFully(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
		t.Skip()
	}
	start := kafka.Offset(rapid.Int64Range(max(0, int64(x.m.end)-50), int64(x.m.end)+50).Draw(t, "start"))
	if err := x.log.TruncateFullyAndStartAt(start); err != nil {
		t.Fatal(err)
	}
	x.m = model{start: start, end: start, durable: start}
}

func (x *machine) advanceStart(t *rapid.T) {
	start := kafka.Offset(rapid.Int64Range(int64(x.m.start), int64(x.m.end)+1).Draw(t, "start"))
	err := x.log.AdvanceStart(start)
	if (start > x.m.end) != (err != nil) {
		t.Fatalf("start at %d of %d: %v", start, x.m.end, err)
	}
	if err == nil {
		x.m.start = start
	}
}

func (x *machine) retain(t *rapid.T) {
	hw := kafka.Offset(rapid.Int64Range(int64(x.m.start), int64(x.m.end)).Draw(t, "high watermark"))
	x.now = x.now.Add(time.Minute)
	got, err := x.log.Retain(hw, x.now)
	if err != nil {
		t.Fatal(err)
	}
	first := x.log.View().segments[0].base
	if got.Start != max(x.m.start, first) || (got.Segments > 0 && first > hw) {
		t.Fatalf("retained %+v, first segment at %d, high watermark %d", got, first, hw)
	}
	x.m.start = got.Start
	x.m.batches = slices.DeleteFunc(x.m.batches, func(b record.Batch) bool { return b.LastOffset() < first })
	if _, err := x.log.DeletePending(x.now); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) rollOver(t *rapid.T) {
	if err := x.log.Roll(x.now); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) flushNow(t *rapid.T) {
	x.flush()
	x.m.durable = x.m.end
}

// slowFlush takes a token now and marks it at the next call.
func (x *machine) slowFlush(t *rapid.T) {
	if x.token != nil {
		if err := x.token.Sync(); err != nil {
			t.Fatal(err)
		}
		before := x.m.durable
		x.log.MarkDurable(*x.token)
		x.m.durable = x.log.Durable()
		if x.m.durable < before || x.m.durable > x.m.end {
			t.Fatalf("durable goes from %d to %d, end %d", before, x.m.durable, x.m.end)
		}
		x.token = nil
		return
	}
	token := x.log.Dirty()
	x.token = &token
}

func (x *machine) idle(t *rapid.T) {
	for range 2 {
		pending, err := x.log.Idle()
		if err != nil {
			t.Fatal(err)
		}
		if pending {
			x.flushNow(t)
		}
	}
	if _, err := x.log.Idle(); err != nil || x.log.active != nil {
		t.Fatalf("not idle: %v", err)
	}
}

func (x *machine) dropToken() {
	if x.token != nil {
		x.token.Drop()
		x.token = nil
	}
}

func (x *machine) stopAndStart(t *rapid.T) {
	x.dropToken()
	x.stop()
	report := x.reopen()
	if !report.Clean || report.IndexesRebuilt > 0 {
		t.Fatalf("after an orderly stop: %+v", report)
	}
	x.m.durable = x.m.end
	x.m.epochs = x.m.epochs.TruncateEnd(x.m.end).TruncateStart(x.m.start)
}

func (x *machine) killAndStart(t *rapid.T) {
	x.dropToken()
	if err := x.dir.Checkpoint(nil); err != nil { // or the log start is lost, as it may be
		t.Fatal(err)
	}
	x.log.Close(false, epoch0)
	x.dir.Close(false, 0)
	report := x.reopen()
	if report.Clean || report.CutBytes > 0 || report.BelowRecoveryPoint {
		t.Fatalf("after a kill: %+v", report)
	}
	x.m.durable = x.m.end
	x.m.epochs = x.m.epochs.TruncateEnd(x.m.end).TruncateStart(x.m.start)
	// Recovery may read an epoch again that the log start had made superfluous, and one of which no record is left is
	// lost if it was never flushed.
	got := x.log.View().Epochs()
	agree := len(got) <= len(x.m.epochs)+1
	for _, b := range x.m.batches {
		agree = agree && (b.LastOffset() < x.m.start || got.At(max(b.BaseOffset(), x.m.start)) == b.LeaderEpoch())
	}
	if agree {
		x.m.epochs = got
	}
}

func (x *machine) readSome(t *rapid.T) {
	from := kafka.Offset(rapid.Int64Range(int64(x.m.start)-1, int64(x.m.end)+1).Draw(t, "from"))
	limit := kafka.Offset(rapid.Int64Range(int64(x.m.start), int64(x.m.end)+1).Draw(t, "limit"))
	maxBytes := rapid.SampledFrom([]int{0, 1, 100, 700, 5000, 1 << 30}).Draw(t, "bytes")
	whole := rapid.Bool().Draw(t, "whole")
	want, wantErr := x.m.read(from, limit, maxBytes, whole)
	e, err := x.log.View().Read(from, limit, maxBytes, whole)
	if kafka.CodeOf(err) != kafka.CodeOf(wantErr) {
		t.Fatalf("read [%d, %d): %v, want %v", from, limit, err, wantErr)
	}
	defer e.Release()
	got, err := e.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("read [%d, %d) of %d bytes: %d, want %d", from, limit, maxBytes, len(got), len(want))
	}
	x.checkUpperBound(t, &e, got)
}

// checkUpperBound: no whole batch of what was read reaches it.
func (x *machine) checkUpperBound(t *rapid.T, e *Extents, got []byte) {
	upper, err := x.log.View().UpperBound(e)
	if err != nil {
		t.Fatal(err)
	}
	for len(got) > 0 {
		b, rest, err := record.Split(got)
		if err != nil {
			break
		}
		if b.NextOffset() > upper {
			t.Fatalf("batch ends at %d, upper bound %d", b.NextOffset(), upper)
		}
		got = rest
	}
}

func (x *machine) findTime(t *rapid.T) {
	ts := x.ts + int64(rapid.IntRange(-200, 50).Draw(t, "ts"))
	v := x.log.View()
	got, found, err := v.OffsetForTime(ts, record.Limits{})
	want, wantFound := x.m.firstSince(t, ts)
	if err != nil || found != wantFound || got != want {
		t.Fatalf("offset for %d: %+v %v %v, want %+v %v", ts, got, found, err, want, wantFound)
	}
	got, found, err = v.MaxTimestamp(record.Limits{})
	// Records below the start count until their segment goes, as in Kafka.
	want, wantFound = x.m.newest(t, v.segments[v.find(v.Start)].base)
	if err != nil || found != wantFound || (found && got != want) {
		t.Fatalf("max timestamp: %+v %v %v, want %+v %v", got, found, err, want, wantFound)
	}
}

func (x *machine) check(t *rapid.T) {
	v := x.log.View()
	if v.Start != x.m.start || v.End != x.m.end || v.Durable != x.m.durable {
		t.Fatalf("log [%d, %d) durable %d, model [%d, %d) durable %d", v.Start, v.End, v.Durable,
			x.m.start, x.m.end, x.m.durable)
	}
	if diff := cmp.Diff([]EpochEntry(x.m.epochs.TruncateStart(x.m.start)), []EpochEntry(v.Epochs())); diff != "" {
		t.Fatalf("epochs: %s", diff)
	}
	if diff := cmp.Diff(x.m.producers(), x.log.Producers()); diff != "" {
		t.Fatalf("producers: %s", diff)
	}
	if err := checkSegments(x.log); err != nil {
		t.Fatal(err)
	}
	if rp := x.log.RecoveryPoint(); rp > v.Durable {
		t.Fatalf("recovery point %d, durable %d", rp, v.Durable)
	}
}

// checkSegments checks the invariants of what a view shows.
func checkSegments(l *Log) error {
	v := l.View()
	total := int64(0)
	for i, s := range v.segments {
		if i > 0 && s.base <= v.segments[i-1].base {
			return fmt.Errorf("segment %d at %d after %d", i, s.base, v.segments[i-1].base)
		}
		info, err := l.dir.fs.Stat(s.path(dataSuffix))
		if err != nil {
			return err
		}
		if info.Size != v.sizeOf(i) {
			return fmt.Errorf("segment at %d has %d bytes, view says %d", s.base, info.Size, v.sizeOf(i))
		}
		total += info.Size
	}
	if total != v.Size() {
		return fmt.Errorf("size %d, files have %d", v.Size(), total)
	}
	return nil
}
