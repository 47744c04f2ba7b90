package record

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
)

const hour = int64(time.Hour / time.Millisecond)

// The codes, here and in TestValidateRecords, are those of Apache Kafka 4.4 for the same batch, unless the
// row says how this broker differs on purpose.
func TestValidateHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *spec)
		code   kafka.Code
	}{
		{"plain", func(*spec) {}, kafka.None},
		{"base offset 5", func(s *spec) { s.base = 5 }, kafka.InvalidRecord},
		{"base offset 5, bad crc", func(s *spec) { s.base, s.badCRC = 5, true }, kafka.InvalidRecord},
		{"leader epoch 7", func(s *spec) { s.epoch = 7 }, kafka.None},
		{"leader epoch 0", func(s *spec) { s.epoch = 0 }, kafka.None},
		{"magic 1", func(s *spec) { s.magic = 1 }, kafka.InvalidRecord},
		{"magic 0", func(s *spec) { s.magic = 0 }, kafka.InvalidRecord},
		{"magic 3", func(s *spec) { s.magic = 3 }, kafka.CorruptMessage},
		{"bad crc", func(s *spec) { s.badCRC = true }, kafka.CorruptMessage},
		{"length too long", func(s *spec) { s.lengthDelta = 1 }, kafka.CorruptMessage},
		{"length too short", func(s *spec) { s.lengthDelta = -1 }, kafka.CorruptMessage},
		{"last delta too big", func(s *spec) { s.lastDelta = 7 }, kafka.InvalidRecord},
		{"last delta too small", func(s *spec) { s.lastDelta = 0 }, kafka.InvalidRecord},
		{"last delta negative", func(s *spec) { s.lastDelta = -1 }, kafka.InvalidRecord},
		{"count too big", func(s *spec) { s.count = 3 }, kafka.InvalidRecord},
		{"count too small", func(s *spec) { s.count = 1 }, kafka.InvalidRecord},
		{"count and delta too big", func(s *spec) { s.count, s.lastDelta = 3, 2 }, kafka.InvalidRecord},
		{"count and delta too small", func(s *spec) { s.count, s.lastDelta = 1, 0 }, kafka.InvalidRecord},
		{"count and delta huge", func(s *spec) { s.count, s.lastDelta = math.MaxInt32, math.MaxInt32-1 }, kafka.InvalidRecord},
		{"count 0", func(s *spec) { s.count = 0 }, kafka.InvalidRecord},
		{"count negative", func(s *spec) { s.count = -5 }, kafka.InvalidRecord},
		{"count overflows", func(s *spec) { s.count, s.lastDelta = math.MinInt32, math.MaxInt32 }, kafka.InvalidRecord},
		{"empty", func(s *spec) { s.keys, s.values, s.count, s.lastDelta = nil, nil, 0, 0 }, kafka.InvalidRecord},
		{"empty range", func(s *spec) { s.keys, s.values, s.count, s.lastDelta = nil, nil, 0, -1 }, kafka.InvalidRecord},
		{"control", func(s *spec) { s.attributes = attrControl }, kafka.InvalidRecord},
		{"transactional", func(s *spec) { s.attributes = attrTransactional; s.pid, s.pepoch, s.sequence = 5, 0, 0 },
			kafka.TransactionalIDAuthorizationFailed},
		{"transactional, bad crc", func(s *spec) { s.attributes, s.badCRC = attrTransactional, true },
			kafka.TransactionalIDAuthorizationFailed},
		{"delete horizon bit", func(s *spec) { s.attributes = attrDeleteHorizon }, kafka.None},
		{"unknown attribute bit", func(s *spec) { s.attributes = 0x200 }, kafka.None},
		// Kafka: UNKNOWN_SERVER_ERROR.
		{"codec 5", func(s *spec) { s.attributes = 5 }, kafka.InvalidRecord},
		{"codec 6", func(s *spec) { s.attributes = 6 }, kafka.InvalidRecord},
		{"codec 7", func(s *spec) { s.attributes = 7 }, kafka.InvalidRecord},
		{"codec 5, control", func(s *spec) { s.attributes = 5 | attrControl }, kafka.InvalidRecord},
		{"producer", func(s *spec) { s.pid, s.pepoch, s.sequence = 5, 0, 0 }, kafka.None},
		{"producer, last sequence", func(s *spec) { s.pid, s.pepoch, s.sequence = 5, 0, math.MaxInt32 }, kafka.None},
		{"producer id alone", func(s *spec) { s.pid = 5 }, kafka.InvalidRecord},
		{"producer without sequence", func(s *spec) { s.pid, s.pepoch = 5, 0 }, kafka.InvalidRecord},
		{"producer, sequence -7", func(s *spec) { s.pid, s.pepoch, s.sequence = 5, 0, -7 }, kafka.InvalidRecord},
		// Kafka accepts epoch -1 from a producer it does not know, and answers this to one it does.
		{"producer, epoch -1", func(s *spec) { s.pid, s.sequence = 5, 0 }, kafka.InvalidProducerEpoch},
		{"producer, epoch -2", func(s *spec) { s.pid, s.pepoch, s.sequence = 5, -2, 0 }, kafka.InvalidProducerEpoch},
		{"no producer, zeros", func(s *spec) { s.pepoch, s.sequence = 0, 0 }, kafka.None},
		{"no producer, sequence -5", func(s *spec) { s.pepoch, s.sequence = 0, -5 }, kafka.None},
		{"producer id -2", func(s *spec) { s.pid, s.pepoch, s.sequence = -2, 0, 0 }, kafka.None},
	} {
		s := newSpec("a", "b")
		c.change(s)
		_, err := s.batch().Validate(clientChecks())
		if got := kafka.CodeOf(err); got != c.code {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.code)
		}
		if c.name != "magic 3" && kafka.MessageOf(err) != "" {
			t.Errorf("%s: Kafka sends no message, here %q", c.name, kafka.MessageOf(err))
		}
	}
	for n := range HeaderSize {
		if _, err := newSpec("a").batch()[:n].Validate(clientChecks()); kafka.CodeOf(err) != kafka.CorruptMessage {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestValidateAllowed(t *testing.T) {
	c := clientChecks()
	c.AllowTransactional = true
	s := newSpec("a")
	s.attributes, s.pid, s.pepoch, s.sequence = attrTransactional, 5, 0, 0
	if _, err := s.batch().Validate(c); err != nil {
		t.Errorf("transactional: %v", err)
	}
	s.pid = -1
	if _, err := s.batch().Validate(c); kafka.CodeOf(err) != kafka.InvalidRecord {
		t.Errorf("transactional without producer: %v", err)
	}
	c.AllowControl = true
	marker, err := MarkerBatch(5, 0, EndTxnMarker{Commit: true}, now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := marker.Validate(c); err != nil {
		t.Errorf("marker: %v", err)
	}
	c = clientChecks()
	c.ProduceVersion = 6
	if _, err := newSpec("a").with(Zstd).batch().Validate(c); kafka.CodeOf(err) != kafka.UnsupportedCompressionType {
		t.Errorf("zstd in version 6: %v", err)
	}
	c.ProduceVersion = 0
	if _, err := newSpec("a").with(Zstd).batch().Validate(c); err != nil {
		t.Errorf("zstd, no produce request: %v", err)
	}
}

// What is checked per record must be checked in every codec, and again when the codec changes on the way.
func eachWay(t *testing.T, run func(name string, from Codec, c Checks)) {
	for _, from := range allCodecs() {
		for _, to := range append(allCodecs(), KeepCodec) {
			c := clientChecks()
			c.TargetCodec = to
			name := codecNames[from] + " kept"
			if to != KeepCodec {
				name = codecNames[from] + " to " + codecNames[to]
			}
			run(name, from, c)
		}
	}
}

func TestValidateRecords(t *testing.T) {
	null := []byte{0, 0, 0, 1, 1, 0} // offset delta in the third byte
	second := []byte{0, 0, 2, 1, 1, 0}
	cases := structure()
	type row = struct {
		name    string
		count   int32
		records []byte
		ok      bool
	}
	cases = append(cases,
		row{"dense", 2, append(rec(null...), rec(second...)...), true},
		// Kafka stores these three uncompressed, and answers UNKNOWN_SERVER_ERROR to them compressed.
		row{"same offset twice", 2, append(rec(null...), rec(null...)...), false},
		row{"offsets reversed", 2, append(rec(second...), rec(null...)...), false},
		row{"offsets begin at 1", 1, rec(second...), false},
	)
	eachWay(t, func(name string, from Codec, checks Checks) {
		for _, c := range cases {
			got, err := rawRecords(c.count, from, encode(from, c.records)).batch().Validate(checks)
			if c.ok != (err == nil) || !c.ok && kafka.CodeOf(err) != kafka.InvalidRecord {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			if c.ok && got.Count != c.count {
				t.Errorf("%s, %s: %d records", c.name, name, got.Count)
			}
		}
	})
}

func TestValidateKeys(t *testing.T) {
	const refused = "Compacted topic cannot accept message without key in topic partition t-3"
	eachWay(t, func(name string, from Codec, c Checks) {
		c.RequireKeys, c.Partition = true, kafka.TopicPartition{Topic: "t", Partition: 3}
		s := newSpec("a", "b", "c", "d", "e")
		if _, err := s.with(from).batch().Validate(c); err != nil {
			t.Errorf("%s: all have keys: %v", name, err)
		}
		s.keys[0] = []byte{}
		if _, err := s.with(from).batch().Validate(c); err != nil {
			t.Errorf("%s: an empty key is one: %v", name, err)
		}
		s.records = nil
		for i := 1; i < 5; i++ {
			s.keys[i] = nil
		}
		got, err := s.with(from).batch().Validate(c)
		want := []RecordError{{1, refused}, {2, refused}, {3, refused}, {4, refused}}
		if kafka.CodeOf(err) != kafka.InvalidRecord || !cmp.Equal(got.RecordErrors, want) || got.Batch != nil {
			t.Errorf("%s: %v, %v", name, err, got)
		}
		if m := "One or more records have been rejected due to 4 record errors in total, and only showing the first " +
			"three errors at most: [RecordError(batchIndex=1, message='" + refused + "'), RecordError(batchIndex=2, message='" +
			refused + "'), RecordError(batchIndex=3, message='" + refused + "')]"; kafka.MessageOf(err) != m {
			t.Errorf("%s: message\n%s, want\n%s", name, kafka.MessageOf(err), m)
		}
	})
	s := newSpec("a")
	s.keys[0] = nil
	if _, err := s.batch().Validate(clientChecks()); err != nil {
		t.Errorf("not compacted: %v", err)
	}
	// The list is bounded, the count is not.
	many := newSpec(make([]string, 5000)...)
	many.keys = make([][]byte, 5000)
	c := clientChecks()
	c.RequireKeys = true
	got, err := many.batch().Validate(c)
	if len(got.RecordErrors) != maxRecordErrors || !strings.Contains(kafka.MessageOf(err), "due to 5000 record errors") {
		t.Errorf("%d errors: %v", len(got.RecordErrors), err)
	}
	// Broken structure beats refused records.
	many.lastDelta, many.count = 5000, 5001
	if got, err := many.batch().Validate(c); !errors.Is(err, ErrInvalid) || got.RecordErrors != nil {
		t.Errorf("broken: %v, %v", err, got)
	}
}

func TestValidateTime(t *testing.T) {
	ms := now.UnixMilli()
	const refused = "One or more records have been rejected due to invalid timestamp"
	for _, c := range []struct {
		name   string
		change func(s *spec, c *Checks)
		bad    []int32
	}{
		{"in range", func(*spec, *Checks) {}, nil},
		{"no time", func(s *spec, c *Checks) { s.baseTime, c.BeforeMaxMs = -1, 1000 }, nil},
		{"at the start", func(s *spec, c *Checks) { s.baseTime, c.BeforeMaxMs = ms-1000, 1000 }, nil},
		{"before the start", func(s *spec, c *Checks) { s.baseTime, c.BeforeMaxMs = ms-1001, 1000 }, []int32{0, 1, 2}},
		{"at the end", func(s *spec, c *Checks) { s.baseTime = ms + hour }, nil},
		{"after the end", func(s *spec, c *Checks) { s.baseTime = ms + hour + 1 }, []int32{0, 1, 2}},
		{"one after the end", func(s *spec, c *Checks) { s.timeDelta = hour/2 + 1 }, []int32{2}},
		{"one before the start", func(s *spec, c *Checks) { s.timeDelta, c.BeforeMaxMs = -1000, 1500 }, []int32{2}},
		{"-2", func(s *spec, c *Checks) { s.baseTime = -2 }, nil},
		{"lowest", func(s *spec, c *Checks) { s.baseTime = math.MinInt64 }, []int32{0, 1, 2}},
		{"highest", func(s *spec, c *Checks) { s.baseTime = math.MaxInt64 }, []int32{0, 1, 2}},
		{"highest, no limit", func(s *spec, c *Checks) { s.baseTime, c.AfterMaxMs = math.MaxInt64, math.MaxInt64 }, nil},
		{"far future, broker's time", func(s *spec, c *Checks) { s.baseTime, c.LogAppendTime = ms+48*hour, true }, nil},
		{"broker's type on its topic", func(s *spec, c *Checks) { s.attributes, c.LogAppendTime = attrLogAppendTime, true },
			[]int32{0, 1, 2}},
		{"broker's type, no time", func(s *spec, c *Checks) { s.attributes, s.max = attrLogAppendTime, -1 }, []int32{0, 1, 2}},
		{"broker's type", func(s *spec, c *Checks) { s.attributes = attrLogAppendTime }, nil},
		{"broker's type, claims the future", func(s *spec, c *Checks) { s.attributes, s.max = attrLogAppendTime, ms+2*hour },
			[]int32{0, 1, 2}},
		// Kafka does not look at the records then, but stores times that nobody checked.
		{"broker's type, records lie", func(s *spec, c *Checks) { s.attributes, s.timeDelta, s.max = attrLogAppendTime, hour, ms },
			[]int32{2}},
	} {
		eachWay(t, func(name string, from Codec, checks Checks) {
			s := newSpec("a", "b", "c")
			c.change(s, &checks)
			got, err := s.with(from).batch().Validate(checks)
			var bad []int32
			for _, e := range got.RecordErrors {
				bad = append(bad, e.Index)
			}
			if !cmp.Equal(bad, c.bad) {
				t.Errorf("%s, %s: refused %v, want %v", c.name, name, bad, c.bad)
			}
			if c.bad != nil && (kafka.CodeOf(err) != kafka.InvalidTimestamp || kafka.MessageOf(err) != refused) ||
				c.bad == nil && err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
		})
	}
}

// Messages as Kafka words them.
func TestValidateTimeMessages(t *testing.T) {
	c := clientChecks()
	c.BeforeMaxMs, c.AfterMaxMs, c.RequireKeys = 1000, 1000, true
	c.Partition = kafka.TopicPartition{Topic: "t"}
	s := newSpec("a", "b")
	s.timeDelta, s.keys[0] = 5000, nil
	got, err := s.batch().Validate(c)
	want := []RecordError{
		{0, "Compacted topic cannot accept message without key in topic partition t-0"},
		{1, "Timestamp 1800000005000 of message with offset 1 is out of range. The timestamp should be within " +
			"[1799999999000, 1800000001000]"},
	}
	if kafka.CodeOf(err) != kafka.InvalidTimestamp || !cmp.Equal(got.RecordErrors, want) {
		t.Errorf("%v: %v", err, got.RecordErrors)
	}
	c = clientChecks()
	c.LogAppendTime = true
	s = newSpec("abc")
	s.attributes, s.keys[0] = attrLogAppendTime, nil
	got, _ = s.batch().Validate(c)
	want = []RecordError{{0, "Invalid timestamp type in message DefaultRecord(offset=0, timestamp=1800000000000, " +
		"key=0 bytes, value=3 bytes). Producer should not set timestamp type to LogAppendTime."}}
	if !cmp.Equal(got.RecordErrors, want) {
		t.Errorf("%v", got.RecordErrors)
	}
}

// stored is what a checked batch says about time.
type stored struct {
	max   int64
	maxAt int32
	log   bool
	same  bool // no byte changed
}

func TestValidateTimesStored(t *testing.T) {
	ms := now.UnixMilli()
	for _, c := range []struct {
		name   string
		change func(s *spec, c *Checks)
		want   stored
	}{
		{"right", func(s *spec, c *Checks) { s.timeDelta = 5 }, stored{ms + 10, 2, false, true}},
		{"descending", func(s *spec, c *Checks) { s.timeDelta, s.max = -5, ms }, stored{ms, 0, false, true}},
		{"max lies high", func(s *spec, c *Checks) { s.max = ms + 1 }, stored{ms, 0, false, false}},
		{"max lies low", func(s *spec, c *Checks) { s.timeDelta, s.max = 5, 0 }, stored{ms + 10, 2, false, false}},
		{"no times", func(s *spec, c *Checks) { s.baseTime = -1 }, stored{-1, 0, false, true}},
		{"negative times", func(s *spec, c *Checks) { s.baseTime = -9 }, stored{-1, 0, false, false}},
		{"broker's time", func(s *spec, c *Checks) { s.timeDelta, c.LogAppendTime, c.Now = 5, true, now.Add(time.Second) },
			stored{ms + 1000, 0, true, false}},
		{"claimed type", func(s *spec, c *Checks) { s.attributes, s.timeDelta = attrLogAppendTime, 5 },
			stored{ms + 10, 2, false, false}},
	} {
		eachWay(t, func(name string, from Codec, checks Checks) {
			s := newSpec("a", "b", "c")
			c.change(s, &checks)
			in := s.with(from).batch()
			before := Batch(bytes.Clone(in))
			got, err := in.Validate(checks)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
				return
			}
			b := got.Batch
			if err := b.CheckCRC(); err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			rewritten := checks.TargetCodec != KeepCodec && checks.TargetCodec != from
			if got.Rewritten != rewritten || (&b[0] == &in[0]) == rewritten {
				t.Errorf("%s, %s: rewritten is %v", c.name, name, got.Rewritten)
			}
			if rewritten && !bytes.Equal(in, before) {
				t.Errorf("%s, %s: input changed although it was replaced", c.name, name)
			}
			have := stored{b.MaxTimestamp(), got.OffsetOfMax, b.IsLogAppendTime(), bytes.Equal(b, before)}
			want := c.want
			want.same = want.same && !rewritten
			if have != want || got.MaxTimestamp != have.max {
				t.Errorf("%s, %s: %+v (%d), want %+v", c.name, name, have, got.MaxTimestamp, want)
			}
			if !c.want.log && c.want.max != -1 {
				if r := collect(t, b)[got.OffsetOfMax]; r.Timestamp != got.MaxTimestamp {
					t.Errorf("%s, %s: record %d has time %d", c.name, name, got.OffsetOfMax, r.Timestamp)
				}
			}
		})
	}
}

// Whatever the codecs, the records stay as they were, and so does the rest of the header.
func TestValidateRecompress(t *testing.T) {
	s := newSpec("a", strings.Repeat("b", 200_000), "", "d")
	s.timeDelta, s.keys[2] = 3, nil
	s.pid, s.pepoch, s.sequence, s.attributes = 12, 3, 44, attrTransactional|0x200
	plain := collect(t, s.batch())
	eachWay(t, func(name string, from Codec, c Checks) {
		c.AllowTransactional = true
		in := s.with(from).batch()
		for _, level := range []int{0, 1, 9, 100, -100} {
			c.Level = level
			got, err := in.Validate(c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b := got.Batch
			if want := c.TargetCodec; want != KeepCodec && b.Codec() != want {
				t.Errorf("%s: stored with %s", name, codecNames[b.Codec()])
			}
			if !reflect.DeepEqual(plain, collect(t, b)) {
				t.Errorf("%s, level %d: records changed", name, level)
			}
			if b.ProducerID() != 12 || b.ProducerEpoch() != 3 || b.BaseSequence() != 44 || !b.IsTransactional() ||
				b.IsControl() || b.LastOffsetDelta() != 3 || b.Count() != 4 || b.BaseTimestamp() != s.baseTime {
				t.Errorf("%s: header changed: %x", name, b[:HeaderSize])
			}
			if wants := got.Rewritten; wants == (b.attributes()&0x200 != 0) {
				t.Errorf("%s: attributes %#x", name, b.attributes())
			}
		}
	})
}

func TestValidateSize(t *testing.T) {
	s := newSpec(strings.Repeat("a", 1000))
	plain := s.batch()
	c := clientChecks()
	c.MaxBatchBytes = len(plain)
	if _, err := plain.Validate(c); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
	c.MaxBatchBytes--
	if _, err := plain.Validate(c); kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("a byte too large: %v", err)
	}
	bad := newSpec(strings.Repeat("a", 1000))
	bad.badCRC = true
	if _, err := bad.batch().Validate(c); kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("too large and bad crc: %v", err)
	}
	// Small as it came, too large when stored.
	for _, from := range allCodecs()[1:] {
		small := s.with(from).batch()
		c := clientChecks()
		c.MaxBatchBytes, c.TargetCodec = len(plain)-1, Uncompressed
		if _, err := small.Validate(c); kafka.CodeOf(err) != kafka.MessageTooLarge {
			t.Errorf("%s: too large uncompressed: %v", codecNames[from], err)
		}
		c.MaxBatchBytes++
		if _, err := small.Validate(c); err != nil {
			t.Errorf("%s: as large as allowed: %v", codecNames[from], err)
		}
		c.MaxSegmentBytes = len(plain) - 1
		if _, err := small.Validate(c); kafka.CodeOf(err) != kafka.RecordListTooLarge {
			t.Errorf("%s: beyond a segment: %v", codecNames[from], err)
		}
	}
	// Incompressible data grows; a large batch comes through a stream.
	large := benchBatch(3<<20, 100_000)
	for _, from := range allCodecs()[1:] {
		c := clientChecks()
		c.MaxBatchBytes, c.TargetCodec = 0, from
		in, err := large.Validate(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range allCodecs() {
			if to == from {
				continue
			}
			c.TargetCodec, c.MaxBatchBytes = to, 1<<20
			if _, err := in.Batch.Validate(c); kafka.CodeOf(err) != kafka.MessageTooLarge {
				t.Errorf("%s to %s: %v", codecNames[from], codecNames[to], err)
			}
			c.MaxBatchBytes = 0
			out, err := in.Batch.Validate(c)
			if err != nil {
				t.Errorf("%s to %s: %v", codecNames[from], codecNames[to], err)
			} else if !reflect.DeepEqual(collect(t, large), collect(t, out.Batch)) {
				t.Errorf("%s to %s: records changed", codecNames[from], codecNames[to])
			}
		}
	}
}

// The hot path: an uncompressed batch that is stored as it came.
func TestValidateAllocation(t *testing.T) {
	b := benchBatch(256<<10, 1<<10)
	c := clientChecks()
	c.RequireKeys = true
	if n := testing.AllocsPerRun(20, func() {
		if _, err := b.Validate(c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	c.LogAppendTime = true
	if n := testing.AllocsPerRun(20, func() {
		b.SetCreateTime(1)
		if _, err := b.Validate(c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations with LogAppendTime", n)
	}
}
