package record

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func legacyEntries() (v0, v1 []byte) {
	m0 := kmsg.MessageV0{Offset: 7, Key: []byte("k"), Value: []byte("v"), Attributes: 1}
	v0 = m0.AppendTo(nil)
	m1 := kmsg.MessageV1{Offset: 9, Magic: 1, Attributes: 0x0a, Timestamp: 1234, Value: []byte("value")}
	v1 = m1.AppendTo(nil)
	for _, b := range [][]byte{v0, v1} {
		Batch(b).put32(posLength, int32(len(b)-LogOverhead))
		Batch(b).put32(posLegacyCRC, int32(crc32.ChecksumIEEE(b[posMagic:])))
	}
	return v0, v1
}

func TestSplit(t *testing.T) {
	a, b := newSpec("a").batch(), newSpec("b", "c").batch()
	both := append(bytes.Clone(a), b...)
	first, rest, err := Split(both)
	if err != nil || !bytes.Equal(first, a) || !bytes.Equal(rest, b) {
		t.Fatalf("first %x rest %x: %v", first, rest, err)
	}
	if cap(first) != len(first) {
		t.Error("appending to the first batch would overwrite the second")
	}
	for n := range a {
		if _, rest, err := Split(a[:n]); err != ErrTruncated || len(rest) != n {
			t.Fatalf("%d of %d bytes: %v", n, len(a), err)
		}
	}
	v0, v1 := legacyEntries()
	length := func(n int32) []byte {
		b := bytes.Clone(a)
		Batch(b).put32(posLength, n)
		return b
	}
	magic := func(m byte) []byte {
		b := bytes.Clone(a)
		b[posMagic] = m
		return b
	}
	for _, c := range []struct {
		name    string
		in      []byte
		err     error
		code    kafka.Code
		message string
	}{
		{"empty", nil, ErrTruncated, kafka.InvalidRecord, ""},
		{"length 13", length(13), ErrCorrupt, kafka.CorruptMessage,
			"Record size 13 is less than the minimum record overhead (14)"},
		{"length -1", length(-1), ErrCorrupt, kafka.CorruptMessage,
			"Record size -1 is less than the minimum record overhead (14)"},
		{"length below header", length(HeaderSize - LogOverhead - 1), ErrCorrupt, kafka.CorruptMessage, ""},
		{"length beyond", length(1<<31 - 1), ErrTruncated, kafka.InvalidRecord, ""},
		{"magic 3", magic(3), ErrCorrupt, kafka.CorruptMessage, "Invalid magic found in record: 3"},
		{"magic -1", magic(0xff), ErrCorrupt, kafka.CorruptMessage, "Invalid magic found in record: -1"},
		{"v0", v0, ErrLegacy, kafka.InvalidRecord, ""},
		{"v1", v1, ErrLegacy, kafka.InvalidRecord, ""},
		{"v1 cut", v1[:len(v1)-1], ErrTruncated, kafka.InvalidRecord, ""},
	} {
		_, rest, err := Split(c.in)
		if !errors.Is(err, c.err) || kafka.CodeOf(err) != c.code || kafka.MessageOf(err) != c.message {
			t.Errorf("%s: %v, code %v, message %q", c.name, err, kafka.CodeOf(err), kafka.MessageOf(err))
		}
		if !bytes.Equal(rest, c.in) {
			t.Errorf("%s: input was consumed", c.name)
		}
	}
}

// The codes are those of a real Kafka 4.4 broker for the same bytes in a Produce request, but for "too short
// for a header", to which it answers UNKNOWN_SERVER_ERROR.
func TestSplitProduced(t *testing.T) {
	ok := newSpec("a", "b").batch()
	v0, _ := legacyEntries()
	short := bytes.Clone(ok)
	Batch(short).put32(posLength, 20)
	tiny := bytes.Clone(ok)
	Batch(tiny).put32(posLength, 3)
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, c := range []struct {
		name    string
		in      []byte
		version int16
		code    kafka.Code
	}{
		{"one", ok, 9, kafka.None},
		{"none", nil, 9, kafka.InvalidRecord},
		{"three bytes", []byte{1, 2, 3}, 9, kafka.InvalidRecord},
		{"two", cat(ok, ok), 9, kafka.InvalidRecord},
		{"one and an old one", cat(ok, v0), 9, kafka.InvalidRecord},
		{"one and three bytes", cat(ok, []byte{1, 2, 3}), 9, kafka.None},
		{"one and a half", cat(ok, ok[:50]), 9, kafka.None},
		{"one and rubbish", cat(ok, tiny), 9, kafka.CorruptMessage},
		{"too short for a header", short[:32], 9, kafka.CorruptMessage},
		{"tiny length", tiny, 9, kafka.CorruptMessage},
		{"longer than there is", newSpec("a").batch()[:65], 9, kafka.InvalidRecord},
		{"old format", v0, 9, kafka.InvalidRecord},
		{"zstd in version 6", newSpec("a").with(Zstd).batch(), 6, kafka.UnsupportedCompressionType},
		{"zstd in version 7", newSpec("a").with(Zstd).batch(), 7, kafka.None},
		{"gzip in version 3", newSpec("a").with(Gzip).batch(), 3, kafka.None},
	} {
		b, err := SplitProduced(c.in, c.version)
		if kafka.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
		if c.code == kafka.None && len(b) != b.Size() {
			t.Errorf("%s: batch of %d bytes in %d", c.name, b.Size(), len(b))
		}
	}
}

func TestCheckCRC(t *testing.T) {
	b := newSpec("a", "b").batch()
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if i < posMagic && (i < posLength || i >= posLeaderEpoch) {
			continue // base offset and leader epoch lie outside
		}
		if i == posMagic {
			continue // outside too, but never other than 2
		}
		bad := Batch(bytes.Clone(b))
		bad[i] ^= 1
		if err := bad.CheckCRC(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	stamped := Batch(bytes.Clone(b))
	stamped.SetBaseOffset(99)
	stamped.SetLeaderEpoch(7)
	if err := stamped.CheckCRC(); err != nil {
		t.Errorf("stamped: %v", err)
	}
	for n := range b {
		if err := b[:n].CheckCRC(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestLegacy(t *testing.T) {
	v0, v1 := legacyEntries()
	first, rest, err := SplitLegacy(append(bytes.Clone(v0), v1...))
	if err != nil || !bytes.Equal(first, v0) || !bytes.Equal(rest, v1) {
		t.Fatalf("%x, %x: %v", first, rest, err)
	}
	type view struct {
		offset    kafka.Offset
		size      int
		magic     int8
		codec     Codec
		timestamp int64
		logAppend bool
	}
	look := func(l Legacy) view {
		return view{l.LastOffset(), l.Size(), l.Magic(), l.Codec(), l.MaxTimestamp(), l.IsLogAppendTime()}
	}
	if got, want := look(first), (view{7, len(v0), 0, Gzip, -1, false}); got != want {
		t.Errorf("v0: %+v, want %+v", got, want)
	}
	second, _, err := SplitLegacy(rest)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := look(second), (view{9, len(v1), 1, Snappy, 1234, true}); got != want {
		t.Errorf("v1: %+v, want %+v", got, want)
	}
	for _, l := range []Legacy{first, second} {
		if err := l.CheckCRC(); err != nil {
			t.Error(err)
		}
		bad := Legacy(bytes.Clone(l))
		bad[len(bad)-1]++
		if err := bad.CheckCRC(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("changed: %v", err)
		}
	}
	smallV1 := bytes.Clone(v0)
	smallV1[posMagic] = 1
	Batch(smallV1).put32(posLength, minLegacySize)
	for name, in := range map[string][]byte{"v2": newSpec("a").batch(), "v1 without room": smallV1} {
		if _, _, err := SplitLegacy(in); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := SplitLegacy(v1[:20]); err != ErrTruncated {
		t.Errorf("cut: %v", err)
	}
}
