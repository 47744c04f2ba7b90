package record

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func sample() []collected {
	return []collected{
		{0, 1000, []byte("key"), []byte("value"), []Header{{"h", []byte("1")}, {"h", nil}, {"", []byte{}}}},
		{1, 1005, nil, []byte{}, nil},
		{2, 990, []byte{}, nil, nil},
		{3, 1001, []byte("k"), bytes.Repeat([]byte("long "), 30_000), []Header{{strings.Repeat("x", 200), []byte("y")}}},
	}
}

func build(t *testing.T, o Options, records []collected) Batch {
	t.Helper()
	b := NewBuilder(o)
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	if b.Count() != len(records) {
		t.Fatalf("count %d", b.Count())
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := out.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	if first, rest, err := Split(out); err != nil || len(rest) != 0 || len(first) != len(out) {
		t.Fatalf("split: %v", err)
	}
	return out
}

func TestBuildRoundTrip(t *testing.T) {
	for _, c := range allCodecs() {
		b := build(t, Options{Codec: c}, sample())
		if got := collect(t, b); !reflect.DeepEqual(got, sample()) {
			t.Errorf("%s: %+v", codecNames[c], got)
		}
		for r := range b.Records(Limits{}) {
			if got, want := r.Headers.Len(), len(sample()[r.Offset].Headers); got != want {
				t.Errorf("%s: %d headers, want %d", codecNames[c], got, want)
			}
		}
		if b.Codec() != c || b.MaxTimestamp() != 1005 || b.BaseTimestamp() != 1000 || b.HasProducer() {
			t.Errorf("%s: header %x", codecNames[c], b[:HeaderSize])
		}
	}
}

// The header field by field, against another implementation's reading of it.
func TestBuildHeader(t *testing.T) {
	b := build(t, Options{
		BaseOffset: 40, LeaderEpoch: 7, Transactional: true, LogAppendTime: true, AppendTimeMs: 5000,
		Producer: &Producer{ID: 9, Epoch: 2, Sequence: 33},
	}, sample())
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	crc := k.CRC
	k.CRC, k.Records = 0, nil
	want := kmsg.RecordBatch{FirstOffset: 40, Length: int32(len(b) - LogOverhead), PartitionLeaderEpoch: 7, Magic: 2,
		Attributes: 0x18, LastOffsetDelta: 3, FirstTimestamp: 1000, MaxTimestamp: 5000, ProducerID: 9, ProducerEpoch: 2,
		FirstSequence: 33, NumRecords: 4}
	if !reflect.DeepEqual(k, want) {
		t.Errorf("%+v, want %+v", k, want)
	}
	if uint32(crc) != b.CRC() {
		t.Error("crc")
	}
	if b.LastOffset() != 43 || b.NextOffset() != 44 || b.LastSequence() != 36 || b.Size() != len(b) {
		t.Errorf("last %d next %d sequence %d size %d", b.LastOffset(), b.NextOffset(), b.LastSequence(), b.Size())
	}
	for _, r := range collect(t, b) {
		if r.Timestamp != 5000 {
			t.Errorf("record %d has time %d", r.Offset, r.Timestamp)
		}
	}
	if got := OptionsOf(b); got.SizeHint != len(b)-HeaderSize || got.BaseOffset != 40 || got.LeaderEpoch != 7 ||
		*got.Producer != (Producer{9, 2, 33}) || !got.LogAppendTime || got.AppendTimeMs != 5000 || !got.Transactional ||
		got.Control || got.DeleteHorizonMs != 0 {
		t.Errorf("options %+v", got)
	}
}

func TestAddSequence(t *testing.T) {
	for _, c := range [][3]int32{{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}} {
		if got := AddSequence(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// Compaction keeps some records at their offsets, the batch's range and the producer's state, and may set a
// horizon.
func TestRebuildWithGaps(t *testing.T) {
	for _, c := range allCodecs() {
		in := build(t, Options{BaseOffset: 100, LeaderEpoch: 3, Codec: c, Producer: &Producer{9, 2, 33}}, sample())
		o := OptionsOf(in)
		o.DeleteHorizonMs = 77_000
		b := NewBuilder(o)
		for r, err := range in.Records(Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset == 100 || r.Offset == 102 {
				b.AppendRecord(r)
			}
		}
		b.SetLastOffset(in.LastOffset())
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		want := []collected{sample()[0], sample()[2]}
		want[0].Offset, want[1].Offset = 100, 102
		if diff := cmp.Diff(want, collect(t, out)); diff != "" {
			t.Errorf("%s: %s", codecNames[c], diff)
		}
		if out.LastOffset() != 103 || out.Count() != 2 || out.LastSequence() != 36 || !out.HasDeleteHorizon() ||
			out.BaseTimestamp() != 77_000 || out.MaxTimestamp() != 1000 || out.Codec() != c || out.LeaderEpoch() != 3 {
			t.Errorf("%s: header %x", codecNames[c], out[:HeaderSize])
		}
		if o := OptionsOf(out); o.DeleteHorizonMs != 77_000 {
			t.Errorf("%s: horizon %d", codecNames[c], o.DeleteHorizonMs)
		}
	}
}

func TestEmptyBatches(t *testing.T) {
	in := build(t, Options{BaseOffset: 100, LeaderEpoch: 3, Codec: Zstd, Transactional: true, DeleteHorizonMs: 5,
		Producer: &Producer{9, 2, 33}}, sample())
	before := bytes.Clone(in)
	e := in.Emptied()
	if err := e.CheckCRC(); err != nil || len(e) != HeaderSize || !bytes.Equal(in, before) {
		t.Fatalf("%d bytes: %v", len(e), err)
	}
	if e.BaseOffset() != 100 || e.LastOffset() != 103 || e.Count() != 0 || e.ProducerID() != 9 || e.ProducerEpoch() != 2 ||
		e.LastSequence() != 36 || !e.IsTransactional() || e.HasDeleteHorizon() || e.Codec() != Uncompressed ||
		e.MaxTimestamp() != 1005 || e.LeaderEpoch() != 3 {
		t.Errorf("header %x", e)
	}
	if n, err := readError(e, Limits{}); n != 0 || err != nil {
		t.Errorf("%d records: %v", n, err)
	}
	b := NewBuilder(Options{BaseOffset: 5, Codec: Gzip, DeleteHorizonMs: 9, Producer: &Producer{9, 2, 33}})
	b.SetLastOffset(9)
	out, err := b.Build()
	if err != nil || out.LastOffset() != 9 || out.Count() != 0 || len(out) != HeaderSize ||
		out.MaxTimestamp() != NoTimestamp || out.attributes() != 0 || out.LastSequence() != 37 || out.CheckCRC() != nil {
		t.Errorf("built empty: %x: %v", out, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, f := range map[string]func(b *Builder){
		"nothing":            func(b *Builder) {},
		"offset before base": func(b *Builder) { b.AppendRecord(Record{Offset: 9}) },
		"offset twice":       func(b *Builder) { b.AppendRecord(Record{Offset: 12}); b.AppendRecord(Record{Offset: 12}) },
		"offset far away":    func(b *Builder) { b.AppendRecord(Record{Offset: 11 + math.MaxInt32}) },
		"range too long":     func(b *Builder) { b.Append(1, nil, nil, nil); b.SetLastOffset(11 + math.MaxInt32) },
		"stays wrong":        func(b *Builder) { b.AppendRecord(Record{Offset: 9}); b.Append(1, nil, nil, nil) },
	} {
		b := NewBuilder(Options{BaseOffset: 10})
		f(b)
		if out, err := b.Build(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
	b := NewBuilder(Options{Codec: 5})
	b.Append(1, nil, nil, nil)
	if _, err := b.Build(); kafka.CodeOf(err) != kafka.UnsupportedCompressionType {
		t.Errorf("codec 5: %v", err)
	}
}

func TestBuilderReset(t *testing.T) {
	b := NewBuilder(Options{BaseOffset: 4})
	b.Append(1, []byte("a"), []byte("first"), nil)
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	kept := bytes.Clone(first)
	b.Reset(Options{BaseOffset: 9})
	b.Append(2, []byte("b"), []byte("other"), nil)
	second, err := b.Build()
	if err != nil || !bytes.Equal(first, kept) || second.BaseOffset() != 9 || second.Count() != 1 ||
		second.MaxTimestamp() != 2 {
		t.Errorf("first %x, second %x: %v", first, second, err)
	}
}

func TestBuilderSize(t *testing.T) {
	b := NewBuilder(Options{})
	for _, r := range sample() {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	size := b.Size()
	if out, err := b.Build(); err != nil || len(out) != size {
		t.Errorf("size %d, built %d: %v", size, len(out), err)
	}
}

func TestControlBatches(t *testing.T) {
	b, err := ControlBatch(Options{BaseOffset: 3, LeaderEpoch: 5, Codec: Gzip}, 1234,
		ControlRecord{ControlSnapshotHeader, []byte("head")}, ControlRecord{ControlKRaftVoters, []byte("voters")},
		ControlRecord{99, nil})
	if err != nil || b.CheckCRC() != nil {
		t.Fatal(err)
	}
	if !b.IsControl() || b.IsTransactional() || b.HasProducer() || b.Codec() != Uncompressed || b.BaseSequence() != -1 {
		t.Errorf("header %x", b[:HeaderSize])
	}
	if c, err := b.ControlType(); c != ControlSnapshotHeader || err != nil {
		t.Errorf("type %d: %v", c, err)
	}
	var types []ControlType
	for r := range b.Records(Limits{}) {
		c, err := ParseControlKey(r.Key)
		if err != nil || r.Timestamp != 1234 {
			t.Errorf("%+v: %v", r, err)
		}
		types = append(types, c)
	}
	if want := []ControlType{ControlSnapshotHeader, ControlKRaftVoters, ControlUnknown}; !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if _, err := b.EndTxnMarker(); !errors.Is(err, ErrInvalid) {
		t.Errorf("snapshot header as marker: %v", err)
	}
	if _, err := b.Emptied().ControlType(); !errors.Is(err, ErrInvalid) {
		t.Errorf("emptied: %v", err)
	}
	if _, err := ControlBatch(Options{}, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("no records: %v", err)
	}
}

func TestTransactionMarkers(t *testing.T) {
	for _, m := range []EndTxnMarker{{true, 7}, {false, 0}} {
		b, err := MarkerBatch(42, 3, m, 1234)
		if err != nil || b.CheckCRC() != nil {
			t.Fatal(err)
		}
		if got, err := b.EndTxnMarker(); got != m || err != nil {
			t.Errorf("%+v reads as %+v: %v", m, got, err)
		}
		if !b.IsControl() || !b.IsTransactional() || b.ProducerID() != 42 || b.ProducerEpoch() != 3 ||
			b.BaseSequence() != -1 || b.LastSequence() != -1 || b.Count() != 1 || b.MaxTimestamp() != 1234 {
			t.Errorf("header %x", b[:HeaderSize])
		}
		r := collect(t, b)[0]
		if want := []byte{0, 0, 0, byte(m.Type())}; !bytes.Equal(r.Key, want) {
			t.Errorf("key %x", r.Key)
		}
		if want := []byte{0, 0, 0, 0, 0, byte(m.CoordinatorEpoch)}; !bytes.Equal(r.Value, want) {
			t.Errorf("value %x", r.Value)
		}
		n := testing.AllocsPerRun(10, func() { _, _ = b.EndTxnMarker() })
		if n != 0 {
			t.Errorf("%v allocations to read a marker", n)
		}
	}
	for _, c := range []struct{ key, value string }{
		{"\x00\x00\x00", "\x00\x00\x00\x00\x00\x01"}, {"\xff\xff\x00\x00", "\x00\x00\x00\x00\x00\x01"},
		{"\x00\x00\x00\x02", "\x00\x00\x00\x00\x00\x01"}, {"\x00\x00\x00\x01", "\x00\x00\x00\x00\x00"},
		{"\x00\x00\x00\x01", "\xff\xff\x00\x00\x00\x01"}, {"", ""},
	} {
		if m, err := ParseEndTxnMarker([]byte(c.key), []byte(c.value)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%x %x: %+v, %v", c.key, c.value, m, err)
		}
	}
	later := []byte("\x00\x01\x00\x01more")
	m, err := ParseEndTxnMarker(later, []byte("\x00\x01\x00\x00\x00\x09more"))
	if m != (EndTxnMarker{true, 9}) || err != nil {
		t.Errorf("later version: %+v, %v", m, err)
	}
}
