package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"moldau/internal/kafka"
)

func TestVarint(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, math.MaxInt32, math.MinInt32, 1 << 40, math.MaxInt64,
		math.MinInt64} {
		b := binary.AppendVarint(nil, v)
		if n := varintSize(v); n != len(b) {
			t.Errorf("size of %d is %d, want %d", v, n, len(b))
		}
		w := walker{buf: b}
		if got := w.varlong(); got != v || w.err != nil || w.pos != len(b) {
			t.Errorf("%d reads as %d: %v", v, got, w.err)
		}
		if int64(int32(v)) != v {
			continue
		}
		w = walker{buf: b}
		if got := w.varint(); int64(got) != v || w.err != nil || w.pos != len(b) {
			t.Errorf("%d reads as %d: %v", v, got, w.err)
		}
	}
	for _, c := range []struct {
		in   string
		want error
	}{
		{"", errShort}, {"\x80", errShort}, {"\xff\xff\xff\xff", errShort},
		{"\x80\x80\x80\x80\x80\x00", errVarint}, {"\xff\xff\xff\xff\x1f", errVarint}, {"\x80\x80\x80\x80\x70", errVarint},
	} {
		w := walker{buf: []byte(c.in)}
		if w.varint(); w.err != c.want {
			t.Errorf("%x: %v, want %v", c.in, w.err, c.want)
		}
	}
	long := walker{buf: []byte(strings.Repeat("\x80", 10) + "\x00")}
	if long.varlong(); long.err != errVarint {
		t.Errorf("eleven bytes: %v", long.err)
	}
	lossy := walker{buf: []byte(strings.Repeat("\x80", 9) + "\x02")}
	if lossy.varlong(); lossy.err != errVarint {
		t.Errorf("65 bits: %v", lossy.err)
	}
	longer := walker{buf: []byte("\x82\x80\x00")}
	if v := longer.varint(); v != 1 || longer.err != nil {
		t.Errorf("longer than needed: %d, %v", v, longer.err)
	}
}

// structure lists record sections with the number of records they hold and whether they are sound. Verdicts
// are those of a real broker, except where noted in TestValidateRecords.
func structure() []struct {
	name    string
	count   int32
	records []byte
	ok      bool
} {
	plain := rec(0, 0, 0, 1, 1, 0)
	return []struct {
		name    string
		count   int32
		records []byte
		ok      bool
	}{
		{"null key and value", 1, plain, true},
		{"key size -2", 1, rec(0, 0, 0, 3, 1, 0), true},
		{"value size -2", 1, rec(0, 0, 0, 1, 3, 0), true},
		{"key beyond record", 1, append(rec(0, 0, 0, 20, 1, 0), make([]byte, 20)...), false},
		{"value beyond record", 1, append(rec(0, 0, 0, 1, 20, 0), make([]byte, 20)...), false},
		{"key of 2 GiB", 1, rec(0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0), false},
		{"header count -1", 1, rec(0, 0, 0, 1, 1, 1), false},
		{"header count lies", 1, rec(0, 0, 0, 1, 1, 10), false},
		{"header count of 2 G", 1, rec(0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f), false},
		{"header key null", 1, rec(0, 0, 0, 1, 1, 2, 1, 1), false},
		{"header key beyond record", 1, append(rec(0, 0, 0, 1, 1, 2, 40, 1), make([]byte, 40)...), false},
		{"header value beyond record", 1, append(rec(0, 0, 0, 1, 1, 2, 0, 40), make([]byte, 40)...), false},
		{"header value -2", 1, rec(0, 0, 0, 1, 1, 2, 0, 3), true},
		{"header key not UTF-8", 1, rec(0, 0, 0, 1, 1, 2, 2, 0xff, 1), true},
		{"varint of 2 where 1 would do", 1, rec(0, 0, 0x80, 0, 1, 1, 0), true},
		{"varint of 5 where 1 would do", 1, rec(0, 0, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0), true},
		{"varint of 6", 1, rec(0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0), false},
		{"varlong of 11", 1, rec(0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0), false},
		{"record attributes set", 1, rec(1, 0, 0, 1, 1, 0), true},
		{"negative length", 1, []byte{1, 0, 0}, false},
		{"length 0", 1, []byte{0}, false},
		{"length 0 before others", 2, append([]byte{0}, plain...), false},
		{"length of 2 GiB", 1, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0}, false},
		{"byte left in record", 1, rec(0, 0, 0, 1, 1, 0, 9), false},
		{"byte left behind", 1, append(rec(0, 0, 0, 1, 1, 0), 9), false},
		{"record left behind", 1, append(bytes.Clone(plain), plain...), false},
		{"one record short", 2, plain, false},
		{"nothing", 1, nil, false},
	}
}

func TestRecordsStructure(t *testing.T) {
	for _, c := range structure() {
		for _, codec := range allCodecs() {
			b := rawRecords(c.count, codec, encode(codec, c.records)).batch()
			n, err := readError(b, Limits{})
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, %s: %v", c.name, codecNames[codec], err)
			}
			if c.ok && n != int(c.count) {
				t.Errorf("%s, %s: %d records", c.name, codecNames[codec], n)
			}
		}
	}
}

// The verdict on records must not depend on how their bytes come: whole, or through a window of any size,
// held or not.
func TestWalkStreamed(t *testing.T) {
	big := newSpec("a", strings.Repeat("b", 3000), "c")
	big.keys[2] = bytes.Repeat([]byte("k"), 5000)
	cases := structure()
	cases = append(cases, cases[0])
	last := &cases[len(cases)-1]
	last.name, last.count, last.records, last.ok = "large", 3, big.recordBytes(), true
	for _, c := range cases {
		var whole []raw
		ww := walker{buf: c.records}
		wholeErr := walkAll(&ww, c.count, &whole)
		for _, window := range []int{16, 17, 64, 333, 4096} {
			for _, hold := range []bool{false, true} {
				for kind, src := range map[string]io.Reader{
					"at once":   bytes.NewReader(c.records),
					"by byte":   iotest.OneByteReader(bytes.NewReader(c.records)),
					"early eof": iotest.DataErrReader(bytes.NewReader(c.records)),
				} {
					var got []raw
					w := walker{buf: make([]byte, 0, window), src: src, quota: 1 << 20, hold: hold}
					if err := walkAll(&w, c.count, &got); (err == nil) != (wholeErr == nil) {
						t.Fatalf("%s, window %d, hold %v, %s: %v, whole %v", c.name, window, hold, kind, err, wholeErr)
					}
					for i := range got {
						if g, w := got[i], whole[i]; g.timestampDelta != w.timestampDelta || g.keySize != w.keySize ||
							g.valueSize != w.valueSize || hold && (!bytes.Equal(g.key, w.key) ||
							!bytes.Equal(g.value, w.value) || !bytes.Equal(g.headers, w.headers)) {
							t.Fatalf("%s, window %d: record %d is %+v, whole %+v", c.name, window, i, g, w)
						}
					}
				}
			}
		}
	}
}

// walkAll collects the records before the first failure.
func walkAll(w *walker, n int32, out *[]raw) error {
	for range n {
		var r raw
		if err := w.next(&r); err != nil {
			return err
		}
		r.key, r.value, r.headers = bytes.Clone(r.key), bytes.Clone(r.value), bytes.Clone(r.headers)
		*out = append(*out, r)
	}
	return w.end()
}

func TestRecordsValues(t *testing.T) {
	s := newSpec("a", "", "c")
	s.base, s.timeDelta = 40, 5
	s.keys[1], s.values[2] = nil, nil
	ms := now.UnixMilli()
	b := s.batch()
	got := collect(t, b)
	want := []collected{
		{40, ms, []byte("k"), []byte("a"), nil}, {41, ms + 5, nil, []byte{}, nil}, {42, ms + 10, []byte("k"), nil, nil},
	}
	for i, w := range want {
		g := got[i]
		if g.Offset != w.Offset || g.Timestamp != w.Timestamp || !bytes.Equal(g.Key, w.Key) ||
			(g.Key == nil) != (w.Key == nil) ||
			!bytes.Equal(g.Value, w.Value) || (g.Value == nil) != (w.Value == nil) {
			t.Errorf("record %d is %+v, want %+v", i, g, w)
		}
	}
	b.SetLogAppendTime(77)
	for _, r := range collect(t, b) {
		if r.Timestamp != 77 {
			t.Errorf("record %d has time %d", r.Offset, r.Timestamp)
		}
	}
	// Stopping early is allowed, in any codec.
	for _, c := range allCodecs() {
		n := 0
		for range newSpec("a", "b", "c").with(c).batch().Records(Limits{}) {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%s: %d records", codecNames[c], n)
		}
	}
	if n, err := readError(rawRecords(0, Uncompressed, []byte{}).batch(), Limits{}); n != 0 || err != nil {
		t.Errorf("empty batch: %d records, %v", n, err)
	}
	if _, err := readError(rawRecords(-3, Uncompressed, []byte{}).batch(), Limits{}); err != nil {
		t.Errorf("negative count reads as none: %v", err)
	}
	if _, err := readError(rawRecords(1, 6, []byte{}).batch(), Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("codec 6: %v", err)
	}
}

func TestRecordsAllocation(t *testing.T) {
	b := benchBatch(256<<10, 1<<10)
	n := testing.AllocsPerRun(20, func() {
		for _, err := range b.Records(Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 4 {
		t.Errorf("%v allocations for a batch of %d records", n, b.Count())
	}
}

func TestErrorCodes(t *testing.T) {
	for err, code := range map[error]kafka.Code{ErrTruncated: kafka.InvalidRecord, ErrCorrupt: kafka.CorruptMessage,
		ErrLegacy: kafka.InvalidRecord, ErrInvalid: kafka.InvalidRecord, ErrTooLarge: kafka.MessageTooLarge} {
		if kafka.CodeOf(err) != code || kafka.MessageOf(err) != "" {
			t.Errorf("%v has code %v and message %q", err, kafka.CodeOf(err), kafka.MessageOf(err))
		}
	}
}
