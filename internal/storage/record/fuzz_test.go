package record

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"
	"testing/iotest"

	"moldau/internal/kafka"
)

func seeds(f *testing.F) [][]byte {
	var out [][]byte
	for _, c := range allCodecs() {
		s := newSpec("a", "bb", "")
		s.keys[1] = nil
		out = append(out, s.with(c).batch())
	}
	framed := rawRecords(3, Snappy, xerial(newSpec("a", "bb", "c").recordBytes())).batch()
	marker, err := MarkerBatch(5, 0, EndTxnMarker{Commit: true}, 1)
	if err != nil {
		f.Fatal(err)
	}
	v0, v1 := legacyEntries()
	out = append(out, framed, marker, v0, v1, rawRecords(1, Zstd, giantZstd(27, 1<<20, true)).batch(), bytes.Join(out, nil))
	for _, c := range structure() {
		out = append(out, rawRecords(c.count, Uncompressed, c.records).batch())
	}
	return out
}

// FuzzBatch throws bytes at everything that reads them. Nothing may panic, take more memory than its bounds,
// or say yes to what it cannot read back.
func FuzzBatch(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, uint8(0), true)
		f.Add(s, uint8(3), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, mode uint8, fix bool) {
		in = bytes.Clone(in)
		if fix && len(in) >= HeaderSize { // else no input gets past the checksum
			Batch(in).put32(posLength, int32(len(in)-LogOverhead))
			Batch(in).put64(posBaseOffset, 0)
			Batch(in).UpdateCRC()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fuzzBatch(t, in, mode)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%d bytes allocated for %d", n, len(in))
		}
	})
}

func fuzzBatch(t *testing.T, in []byte, mode uint8) {
	if l, _, err := SplitLegacy(in); err == nil {
		_, _, _, _ = l.LastOffset(), l.Codec(), l.MaxTimestamp(), l.CheckCRC()
	}
	for rest := in; ; {
		b, next, err := Split(rest)
		if err != nil {
			break
		}
		_, _ = b.ControlType()
		_, _ = b.EndTxnMarker()
		rest = next
	}
	b, err := SplitProduced(in, 9)
	if err != nil {
		return
	}
	c := Checks{Now: now, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1, MaxExpandedBytes: 4 << 20, MaxBatchBytes: 1 << 20,
		AllowTransactional: true, AllowControl: mode&64 != 0, LogAppendTime: mode&32 != 0, RequireKeys: mode&16 != 0,
		TargetCodec: Codec(mode&7)%6 - 1}
	limits := Limits{c.MaxExpandedBytes}
	_, readErr := readError(b, limits)
	got, err := b.Validate(c)
	if err != nil {
		if kafka.CodeOf(err) == kafka.UnknownServerError || got.Batch != nil {
			t.Fatalf("%v, %v", err, got.Batch)
		}
		return
	}
	if readErr != nil {
		t.Fatalf("validated, but reading gives %v", readErr)
	}
	if err := got.Batch.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	n := int32(0)
	for r, err := range got.Batch.Records(limits) {
		if err != nil || r.Offset != kafka.Offset(n) {
			t.Fatalf("record %d: offset %d, %v", n, r.Offset, err)
		}
		if n == got.OffsetOfMax && got.MaxTimestamp != NoTimestamp && r.Timestamp != got.MaxTimestamp {
			t.Fatalf("record %d has time %d, said %d", n, r.Timestamp, got.MaxTimestamp)
		}
		for range r.Headers.All() {
		}
		n++
	}
	if n != got.Count {
		t.Fatalf("%d records, said %d", n, got.Count)
	}
}

// FuzzWalk holds the walk over bytes at hand against the walk through windows: the verdict must be the same.
func FuzzWalk(f *testing.F) {
	for _, c := range structure() {
		f.Add(c.records, c.count, uint16(20))
	}
	f.Fuzz(func(t *testing.T, in []byte, count int32, window uint16) {
		count = min(count, 1000)
		var whole, got []raw
		w := walker{buf: in}
		wholeErr := walkAll(&w, count, &whole)
		for _, hold := range []bool{false, true} {
			got = nil
			w := walker{buf: make([]byte, 0, max(int(window), 16)), src: iotest.HalfReader(bytes.NewReader(in)),
				quota: 1 << 30, hold: hold}
			err := walkAll(&w, count, &got)
			if (err == nil) != (wholeErr == nil) {
				t.Fatalf("hold %v: %v, whole: %v", hold, err, wholeErr)
			}
			if hold && err == nil && !reflect.DeepEqual(got, whole) {
				t.Fatalf("%+v, whole %+v", got, whole)
			}
		}
	})
}

// FuzzCodec throws bytes at each decompressor.
func FuzzCodec(f *testing.F) {
	plain := newSpec("a", "bb", "c").recordBytes()
	for _, c := range allCodecs()[1:] {
		f.Add(uint8(c), encode(c, plain))
	}
	f.Add(uint8(Snappy), xerial(plain, plain))
	f.Add(uint8(Zstd), giantZstd(27, 1<<20, true))
	f.Fuzz(func(t *testing.T, codec uint8, in []byte) {
		c := Codec(codec%4) + 1
		x, err := expand(c, in, 1<<20)
		if err != nil {
			return
		}
		defer x.done()
		if x.stream == nil && len(x.whole) > 1<<20 {
			t.Fatalf("%d bytes", len(x.whole))
		}
		if x.stream != nil {
			w := walker{buf: make([]byte, 0, 4096), src: x.stream, quota: 1 << 20}
			w.skip(2 << 20)
			if w.err == nil {
				t.Fatal("two MiB out of one")
			}
		}
	})
}

// FuzzBuild builds a batch from fuzzed records and reads it back.
func FuzzBuild(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("header"), int64(1000), uint8(3), uint8(0))
	f.Add([]byte(nil), []byte{}, []byte(nil), int64(-1), uint8(200), uint8(4))
	f.Fuzz(func(t *testing.T, key, value, header []byte, ts int64, n, codec uint8) {
		if n == 0 {
			n = 1
		}
		b := NewBuilder(Options{BaseOffset: 5, Codec: Codec(codec % 5), Level: int(codec >> 4)})
		var want []collected
		for i := range int(n) {
			r := collected{Offset: kafka.Offset(5 + i), Timestamp: ts + int64(i)<<(i%50),
				Key: key[:len(key)*i/int(n)], Value: value}
			if i%3 == 1 {
				r.Headers = []Header{{string(header), value}, {"n", nil}}
			}
			if i%4 == 2 {
				r.Key = nil
			}
			want = append(want, r)
			b.Append(r.Timestamp, r.Key, r.Value, r.Headers)
		}
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := out.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		i := 0
		for r, err := range out.Records(Limits{}) {
			w := want[i]
			if err != nil || r.Offset != w.Offset || r.Timestamp != w.Timestamp || !bytes.Equal(r.Key, w.Key) ||
				(r.Key == nil) != (w.Key == nil) || !bytes.Equal(r.Value, w.Value) || r.Headers.Len() != len(w.Headers) {
				t.Fatalf("record %d is %+v, want %+v: %v", i, r, w, err)
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d records, want %d", i, len(want))
		}
	})
}
