package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// zstdFrameOf is a frame whose window (2^log) and content size (-1: not told) are claims.
func zstdFrameOf(log byte, content int64, blocks ...[]byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, zstdMagic)
	if content >= 0 {
		out = append(out, 3<<6, (log-10)<<3)
		out = binary.LittleEndian.AppendUint64(out, uint64(content))
	} else {
		out = append(out, 0, (log-10)<<3)
	}
	for i, b := range blocks {
		if i == len(blocks)-1 {
			b[0] |= 1
		}
		out = append(out, b...)
	}
	return out
}

func zstdStored(b []byte) []byte {
	return append([]byte{byte(len(b) << 3), byte(len(b) >> 5), byte(len(b) >> 13)}, b...)
}

func zstdRun(c byte, n int) []byte {
	return []byte{byte(n<<3) | 2, byte(n >> 5), byte(n >> 13), c}
}

// Which streams are read follows a real broker's verdicts; where this one is stricter, the row says so.
func TestCodecVerdicts(t *testing.T) {
	plain := newSpec("a", "b").recordBytes()
	half := len(plain) / 2
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	junk := []byte{1, 2, 3}
	gz, zs, l4, xe := encode(Gzip, plain), encode(Zstd, plain), encode(LZ4, plain), xerial(plain)
	dependent := encodeLZ4(plain)
	dependent[4] &^= lz4Independent
	change := func(b []byte, i int, v byte) []byte {
		b = bytes.Clone(b)
		b[i] = v
		return b
	}
	for _, c := range []struct {
		name  string
		codec Codec
		in    []byte
		ok    bool
	}{
		{"gzip", Gzip, gz, true},
		{"gzip, two members", Gzip, cat(encode(Gzip, plain[:half]), encode(Gzip, plain[half:])), true},
		{"gzip, garbage", Gzip, plain, false},
		{"gzip, nothing", Gzip, nil, false},
		{"gzip, of nothing", Gzip, encode(Gzip, nil), false},
		{"gzip, cut", Gzip, cut(gz, 12), false},
		{"gzip, trailer cut", Gzip, cut(gz, 4), false},
		{"gzip, wrong checksum", Gzip, change(gz, len(gz)-5, gz[len(gz)-5]+1), false},
		{"gzip, junk behind", Gzip, cat(gz, junk), false}, // Kafka reads on over it

		{"snappy, bare", Snappy, encode(Snappy, plain), true},
		{"snappy, framed", Snappy, xe, true},
		{"snappy, framed in two", Snappy, xerial(plain[:half], plain[half:]), true},
		{"snappy, framed with empty block", Snappy, xerial(plain[:half], nil, plain[half:]), true},
		{"snappy, garbage", Snappy, plain, false},
		{"snappy, nothing", Snappy, nil, false},
		{"snappy, bare, cut", Snappy, cut(encode(Snappy, plain), 1), false},
		{"snappy, bare, junk behind", Snappy, cat(encode(Snappy, plain), junk), false},
		{"snappy, framed, cut", Snappy, cut(xe, 1), false},
		{"snappy, framed, junk behind", Snappy, cat(xe, junk), false},
		{"snappy, framed, no block", Snappy, xerial(), false},
		{"snappy, framed, version 0", Snappy, change(xe, 11, 0), false},
		{"snappy, framed, size lies", Snappy, change(xe, 16, 0x7f), false},
		{"snappy, framed, size negative", Snappy, change(xe, 16, 0xff), false},
		{"snappy, claims more", Snappy, []byte{5, 0, 'a'}, false},
		{"snappy, claims less", Snappy, []byte{1, 1 << 2, 'a', 'b'}, false},
		{"snappy, copy of nothing", Snappy, []byte{8, 0, 'a', 6<<2 | 2, 0, 0}, false},
		{"snappy, copy from before", Snappy, []byte{8, 0, 'a', 6<<2 | 2, 9, 0}, false},
		{"snappy, S2 repeat", Snappy, s2.Encode(nil, bytes.Repeat([]byte("abcdefghij"), 50)), false},
		{"snappy, header too long", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 1}, false},

		{"lz4", LZ4, l4, true},
		{"lz4, as Java", LZ4, encodeLZ4(plain, lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)), true},
		{"lz4, block checksums", LZ4, encodeLZ4(plain, lz4.BlockChecksumOption(true)), true},
		{"lz4, content size", LZ4, encodeLZ4(plain, lz4.SizeOption(uint64(len(plain)))), true},
		{"lz4, garbage", LZ4, plain, false},
		{"lz4, nothing", LZ4, nil, false},
		{"lz4, of nothing", LZ4, encodeLZ4(nil), false},
		{"lz4, old format", LZ4, encodeLZ4(plain, lz4.LegacyOption(true)), false},
		{"lz4, two frames", LZ4, cat(encode(LZ4, plain[:half]), encode(LZ4, plain[half:])), false},
		{"lz4, cut", LZ4, cut(l4, 9), false},
		{"lz4, checksum cut", LZ4, cut(l4, 4), false},
		{"lz4, wrong content checksum", LZ4, change(l4, len(l4)-1, l4[len(l4)-1]+1), false},
		{"lz4, wrong header checksum", LZ4, change(l4, 6, l4[6]+1), false},
		{"lz4, dependent blocks", LZ4, dependent, false},
		{"lz4, version 2", LZ4, change(l4, 4, l4[4]^0xc0), false},
		{"lz4, block size 3", LZ4, change(l4, 5, 3<<4), false},
		{"lz4, junk behind", LZ4, cat(l4, junk), false}, // Kafka does not look at it

		{"zstd", Zstd, zs, true},
		{"zstd, two frames", Zstd, cat(encode(Zstd, plain[:half]), encode(Zstd, plain[half:])), true},
		{"zstd, skippable frame", Zstd, cat([]byte{0x5a, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, zs), true},
		{"zstd, skippable frame behind", Zstd, cat(zs, []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}), true},
		{"zstd, skippable frame cut", Zstd, cat([]byte{0x50, 0x2a, 0x4d, 0x18, 255, 0, 0, 0, 9}, zs), false},
		{"zstd, stored block", Zstd, zstdFrameOf(20, -1, zstdStored(plain)), true},
		{"zstd, small frame of a large window", Zstd, zstdFrameOf(27, -1, zstdStored(plain)), true},
		{"zstd, content size", Zstd, zstdFrameOf(20, int64(len(plain)), zstdStored(plain)), true},
		{"zstd, content size lies high", Zstd, zstdFrameOf(20, 1<<40, zstdStored(plain)), false},
		{"zstd, content size lies low", Zstd, zstdFrameOf(20, 3, zstdStored(plain)), false},
		{"zstd, block type 3", Zstd, zstdFrameOf(20, -1, change(zstdStored(plain), 0, 0xff)), false},
		{"zstd, garbage", Zstd, plain, false},
		{"zstd, nothing", Zstd, nil, false},
		{"zstd, of nothing", Zstd, encode(Zstd, nil), false},
		{"zstd, cut", Zstd, cut(zs, 3), false},
		{"zstd, junk behind", Zstd, cat(zs, junk), false},
		{"zstd, wrong checksum", Zstd, change(zs, len(zs)-1, zs[len(zs)-1]+1), false},
	} {
		b := rawRecords(2, c.codec, c.in).batch()
		n, err := readError(b, Limits{})
		if c.ok != (err == nil) || c.ok && n != 2 || !c.ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %d records, %v", c.name, n, err)
		}
		for _, target := range []Codec{KeepCodec, Uncompressed, Zstd, Gzip} {
			checks := clientChecks()
			checks.TargetCodec = target
			// Kafka answers UNKNOWN_SERVER_ERROR to most of the bad ones.
			if _, err := b.Validate(checks); c.ok != (err == nil) || !c.ok && kafka.CodeOf(err) != kafka.InvalidRecord {
				t.Errorf("%s, target %d: %v", c.name, target, err)
			}
		}
	}
}

// A cut or a changed byte anywhere must never give other records than were written, and never more than were
// counted.
func TestCodecDamage(t *testing.T) {
	s := newSpec("a", strings.Repeat("b", 300), "c")
	want := collect(t, s.batch())
	for _, c := range allCodecs()[1:] {
		good := s.with(c).batch()
		for i := HeaderSize; i < len(good); i++ {
			cut := rawRecords(3, c, good[HeaderSize:i]).batch()
			if n, err := readError(cut, Limits{}); err == nil || n > 3 {
				t.Errorf("%s cut to %d bytes gives %d records: %v", codecNames[c], i, n, err)
			}
			for _, bit := range []byte{1, 0x80} {
				bad := Batch(bytes.Clone(good))
				bad[i] ^= bit
				if n, _ := readError(bad, Limits{}); n > len(want) {
					t.Errorf("%s with byte %d changed gives %d records", codecNames[c], i, n)
				}
			}
		}
	}
}

// allocated is how many bytes f allocates, the least of a few tries since others may allocate meanwhile. It tells
// nothing under the race detector, which makes pools forget at random.
func allocated(f func()) uint64 {
	if invariant.Enabled {
		f()
		return 0
	}
	least := uint64(1) << 62
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// bombs are payloads that expand to one record of about size bytes.
func bombs(size int) map[string]struct {
	codec Codec
	in    []byte
} {
	type bomb = struct {
		codec Codec
		in    []byte
	}
	payload := giant(size)
	var blocks [][]byte
	for rest := payload; len(rest) > 0; {
		n := min(len(rest), xerialBlockSize)
		blocks = append(blocks, rest[:n])
		rest = rest[n:]
	}
	return map[string]bomb{
		"gzip":          {Gzip, encode(Gzip, payload)},
		"snappy":        {Snappy, encode(Snappy, payload)},
		"snappy framed": {Snappy, xerial(blocks...)},
		"lz4":           {LZ4, encodeLZ4(payload, lz4.BlockSizeOption(lz4.Block64Kb))},
		"zstd":          {Zstd, encode(Zstd, payload)},
		"zstd runs":     {Zstd, giantZstd(20, size, false)},
		"zstd wide":     {Zstd, giantZstd(27, size, false)},
		"zstd told":     {Zstd, giantZstd(23, size, true)},
	}
}

func TestBombs(t *testing.T) {
	const size = 12 << 20
	for name, bomb := range bombs(size) {
		b := rawRecords(1, bomb.codec, bomb.in).batch()
		c := clientChecks()
		limit := uint64(200 << 10)
		if bomb.codec == Zstd {
			limit = zstdMaxWindow + 1<<20
		}
		c.MaxExpandedBytes = 4 << 20
		for _, c.TargetCodec = range []Codec{KeepCodec, Uncompressed, Gzip} {
			if c.TargetCodec != KeepCodec {
				limit = max(limit, 6<<20) // the new batch, which may have a MiB, with what it outgrows
			}
			var err error
			n := allocated(func() { _, err = b.Validate(c) })
			if kafka.CodeOf(err) != kafka.MessageTooLarge {
				t.Errorf("%s, target %d: %v", name, c.TargetCodec, err)
			}
			if n > limit {
				t.Errorf("%s, target %d: %d bytes allocated", name, c.TargetCodec, n)
			}
		}
		c.TargetCodec, c.MaxExpandedBytes = KeepCodec, size-1
		if _, err := b.Validate(c); kafka.CodeOf(err) != kafka.MessageTooLarge {
			t.Errorf("%s, a little too large: %v", name, err)
		}
		if _, err := readError(b, Limits{4 << 20}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: reading: %v", name, err)
		}
	}
}

// giantZstd is giant(n) in a frame of few bytes.
func giantZstd(log byte, n int, told bool) []byte {
	payload := giant(n)
	n = n / zstdMaxBlock * zstdMaxBlock
	blocks := [][]byte{zstdStored(payload[:len(payload)-1-n])}
	for range n / zstdMaxBlock {
		blocks = append(blocks, zstdRun(0, zstdMaxBlock))
	}
	blocks = append(blocks, zstdStored([]byte{0}))
	content := int64(-1)
	if told {
		content = int64(len(payload))
	}
	return zstdFrameOf(log, content, blocks...)
}

// giant is a batch with one record that claims, and has, a value of n zero bytes.
func giant(n int) []byte {
	body := append([]byte{0, 0, 0, 1}, binary.AppendVarint(nil, int64(n))...)
	head := append(binary.AppendVarint(nil, int64(len(body)+n+1)), body...)
	return append(append(head, make([]byte, n)...), 0)
}

// A record larger than the window costs the validation no memory, and reading it no more than it has.
func TestGiantRecord(t *testing.T) {
	const size = 6 << 20
	payload := giant(size)
	for _, c := range []struct {
		name  string
		codec Codec
		in    []byte
		limit uint64 // for Validate
	}{
		{"gzip", Gzip, encode(Gzip, payload), 200 << 10},
		{"snappy framed", Snappy, xerial(payload[:size/2], payload[size/2:]), size/2 + 200<<10},
		{"lz4", LZ4, encodeLZ4(payload, lz4.BlockSizeOption(lz4.Block64Kb)), 200 << 10},
		{"zstd", Zstd, encode(Zstd, payload), 5 << 20},
	} {
		b := rawRecords(1, c.codec, c.in).batch()
		checks := clientChecks()
		checks.MaxBatchBytes = 0
		var err error
		if n := allocated(func() { _, err = b.Validate(checks) }); n > c.limit || err != nil {
			t.Errorf("%s: %d bytes allocated: %v", c.name, n, err)
		}
		checks.MaxExpandedBytes = int64(len(payload))
		if _, err := b.Validate(checks); err != nil {
			t.Errorf("%s: as large as allowed: %v", c.name, err)
		}
		if n, err := readError(b, Limits{int64(len(payload))}); n != 1 || err != nil {
			t.Errorf("%s: %d records: %v", c.name, n, err)
		}
		checks.MaxExpandedBytes--
		if _, err := b.Validate(checks); kafka.CodeOf(err) != kafka.MessageTooLarge {
			t.Errorf("%s: a byte too large: %v", c.name, err)
		}
		if _, err := readError(b, Limits{int64(len(payload)) - 1}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: reading a byte too many: %v", c.name, err)
		}
		// A length of 2 GiB that is not there.
		lie := append([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 100)...)
		b = rawRecords(1, c.codec, encode(c.codec, lie)).batch()
		if n := allocated(func() { _, err = readError(b, Limits{}) }); n > 300<<10 || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: a lie costs %d bytes: %v", c.name, n, err)
		}
	}
}

func TestExpandedDefault(t *testing.T) {
	for _, c := range []struct {
		limit      int64
		compressed int
		want       int64
	}{{0, 100, 64 << 20}, {0, 1 << 20, 64 << 20}, {0, 2 << 20, 128 << 20}, {5, 1 << 20, 5}} {
		if got := (Limits{c.limit}).expanded(c.compressed); got != c.want {
			t.Errorf("limit %d, %d bytes: %d, want %d", c.limit, c.compressed, got, c.want)
		}
	}
	// 2,100 bytes of zstd that hold just over 64 MiB, as one record.
	b := rawRecords(1, Zstd, giantZstd(20, minExpanded, false)).batch()
	if _, err := b.Validate(clientChecks()); kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("%d bytes for 64 MiB: %v", len(b), err)
	}
	c := clientChecks()
	c.MaxExpandedBytes = minExpanded + 100
	if _, err := b.Validate(c); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

// What comes from a pool must not remember what was read or written before it.
func TestPoolsForget(t *testing.T) {
	good := newSpec("a", strings.Repeat("b", 100_000), "c")
	want := collect(t, good.batch())
	for _, c := range allCodecs()[1:] {
		for i := range 6 {
			bad := good.with(c).batch()
			bad[len(bad)-5-i] ^= 0xff
			readError(bad, Limits{})
			for range bad.Records(Limits{}) {
				break
			}
			checks := clientChecks()
			checks.TargetCodec, checks.MaxBatchBytes = c, HeaderSize+4+i
			newSpec(strings.Repeat("z", 90_000)).batch().Validate(checks)
			got := collect(t, good.with(c).batch())
			if len(got) != len(want) || !bytes.Equal(got[1].Value, want[1].Value) {
				t.Fatalf("%s: other records after a failure", codecNames[c])
			}
			checks.MaxBatchBytes = 0
			good.records, good.attributes = nil, 0
			out, err := good.batch().Validate(checks)
			if err != nil {
				t.Fatal(err)
			}
			if got := collect(t, out.Batch); !bytes.Equal(got[1].Value, want[1].Value) {
				t.Fatalf("%s: other records written after a failure", codecNames[c])
			}
		}
	}
}
