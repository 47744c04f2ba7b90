package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

// fieldSince lists the fields that are younger than their record.
var fieldSince = map[string]int16{
	"RegisterBrokerRecord.InControlledShutdown":           1,
	"RegisterBrokerRecord.IsMigratingZkBroker":            2,
	"RegisterBrokerRecord.LogDirs":                        3,
	"RegisterBrokerRecord.CordonedLogDirs":                4,
	"PartitionRecord.Directories":                         1,
	"PartitionRecord.EligibleLeaderReplicas":              2,
	"PartitionRecord.LastKnownELR":                        2,
	"PartitionChangeRecord.Directories":                   1,
	"PartitionChangeRecord.EligibleLeaderReplicas":        2,
	"PartitionChangeRecord.LastKnownELR":                  2,
	"BrokerRegistrationChangeRecord.InControlledShutdown": 1,
	"BrokerRegistrationChangeRecord.LogDirs":              2,
	"BrokerRegistrationChangeRecord.CordonedLogDirs":      3,
}

// nullable lists the lists for which nil and empty differ.
var nullable = map[string]bool{
	"RegisterBrokerRecord.CordonedLogDirs":           true,
	"PartitionRecord.EligibleLeaderReplicas":         true,
	"PartitionRecord.LastKnownELR":                   true,
	"PartitionChangeRecord.ISR":                      true,
	"PartitionChangeRecord.Replicas":                 true,
	"PartitionChangeRecord.RemovingReplicas":         true,
	"PartitionChangeRecord.AddingReplicas":           true,
	"PartitionChangeRecord.EligibleLeaderReplicas":   true,
	"PartitionChangeRecord.LastKnownELR":             true,
	"PartitionChangeRecord.Directories":              true,
	"BrokerRegistrationChangeRecord.CordonedLogDirs": true,
}

// source is where fill takes values from: draws from rapid, or a fixed sequence.
type source interface {
	number(low, high int64) int64
	text() string
}

// fill sets every field of a struct.
func fill(s source, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(s, v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name)
		}
	case reflect.Array: // a uuid
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(s.number(0, 255)))
		}
	case reflect.Slice:
		low := int64(0)
		if nullable[path] {
			low = -1
		}
		if n := s.number(low, 3); n > 0 || (n == 0 && nullable[path]) {
			v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		}
		for i := range v.Len() {
			fill(s, v.Index(i), path+"[]")
		}
	case reflect.Pointer:
		if s.number(0, 2) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(s, v.Elem(), path+"*")
		}
	case reflect.String:
		v.SetString(s.text())
	case reflect.Bool:
		v.SetBool(s.number(0, 1) == 1)
	case reflect.Float64:
		v.SetFloat(float64(s.number(-1<<40, 1<<40)) / 1024)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(s.number(0, 1<<v.Type().Bits()-1)))
	default:
		bits := v.Type().Bits()
		low, high := int64(-1)<<(bits-1), int64(math.MaxInt64)>>(64-bits)
		if path == "PartitionChangeRecord.Leader*" || path == "PartitionChangeRecord.LeaderRecoveryState*" {
			low = 0 // not the value that means unchanged
		}
		v.SetInt(s.number(low, high))
	}
}

// drawn is a source of random values.
type drawn struct{ t *rapid.T }

func (d drawn) number(low, high int64) int64 { return rapid.Int64Range(low, high).Draw(d.t, "n") }
func (d drawn) text() string                 { return rapid.StringN(0, 5, 20).Draw(d.t, "s") }

// counted is a source of the same values each time.
type counted struct{ n int64 }

func (c *counted) number(low, high int64) int64 {
	c.n++
	pick := uint64(c.n) * 0x9e3779b97f4a7c15
	if span := uint64(high-low) + 1; span != 0 {
		pick = pick >> 8 % span
	}
	return low + int64(pick)
}

func (c *counted) text() string {
	c.n++
	return []string{"name", "", "größe", `a<b>&"c"\`, "User:x"}[c.n%5]
}

// without clears the fields that a version does not have.
func without(r Record, version int16) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if fieldSince[v.Type().Name()+"."+v.Type().Field(i).Name] > version {
			v.Field(i).SetZero()
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, row := range recordTable {
		for version := range row.maxVersion + 1 {
			t.Run(fmt.Sprintf("%s/%d", row.name, version), rapid.MakeCheck(func(t *rapid.T) {
				r := row.create()
				fill(drawn{t}, reflect.ValueOf(r).Elem(), "")
				b := Encode([]byte("before"), r, version)
				b = bytes.TrimPrefix(b, []byte("before"))
				got, gotVersion, err := DecodeVersioned(b)
				if err != nil {
					t.Fatalf("%+v: %v", r, err)
				}
				without(r, version)
				if d := cmp.Diff(r, got); d != "" || gotVersion != version {
					t.Fatalf("decoded, version %d:\n%s", gotVersion, d)
				}
				if again := Encode(nil, got, version); !bytes.Equal(again, b) {
					t.Fatalf("encoded again %x, want %x", again, b)
				}
				for n := range b { // every prefix is too short
					if _, err := Decode(b[:n]); !errors.Is(err, ErrBadRecord) {
						t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
					}
				}
			}))
		}
	}
}

// samples are some records of every type and version, always the same.
func samples() (records []Record, versions []int16) {
	s := new(counted)
	for _, row := range recordTable {
		for version := range row.maxVersion + 1 {
			for n := range 3 {
				r := row.create()
				if n > 0 {
					fill(s, reflect.ValueOf(r).Elem(), "")
				}
				without(r, version)
				records, versions = append(records, r), append(versions, version)
			}
		}
	}
	for _, f := range []float64{0, -0.5, 1e-3, 9.99e-4, 1e7, 9999999, 123456789.125, 1e300, math.Inf(-1), math.NaN()} {
		records, versions = append(records, &ClientQuotaRecord{Key: "float", Value: f}), append(versions, 0)
	}
	return records, versions
}

// batchOf makes one batch of data records as they lie in the metadata log.
func batchOf(values [][]byte) []byte {
	b := make([]byte, 61)
	for i, value := range values {
		body := []byte{0, 0} // attributes, timestamp delta
		body = binary.AppendVarint(body, int64(i))
		body = binary.AppendVarint(body, -1)
		body = binary.AppendVarint(body, int64(len(value)))
		body = append(append(body, value...), 0)
		b = append(binary.AppendVarint(b, int64(len(body))), body...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(len(values)-1))
	for i := 43; i < 57; i++ { // producer id, epoch and sequence
		b[i] = 0xff
	}
	binary.BigEndian.PutUint32(b[57:], uint32(len(values)))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

var update = flag.Bool("update", false, "write testdata/samples.log again; have Kafka's dump tool print it then")

// TestSamples checks our encoder against Kafka's decoder: samples.log was written by this test (-update), and
// samples.log.txt is what kafka-dump-log --cluster-metadata-decoder printed of it.
func TestSamples(t *testing.T) {
	records, versions := samples()
	var values [][]byte
	for i, r := range records {
		values = append(values, Encode(nil, r, versions[i]))
	}
	b := batchOf(values)
	if *update {
		if err := os.WriteFile("testdata/samples.log", b, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written")
	}
	golden, dumped := readGolden(t, "samples.log")
	if len(golden) != len(records) || len(dumped) != len(records) {
		t.Fatalf("%d samples, %d in the file, %d dumped", len(records), len(golden), len(dumped))
	}
	for i, r := range records {
		if !bytes.Equal(values[i], golden[i].value) {
			t.Errorf("%d: %s version %d is %x, not %x", i, r.Type(), versions[i], values[i], golden[i].value)
		}
		if got := fmt.Sprintf("%d %s", i, Dump(r, versions[i])); got != dumped[i] {
			t.Errorf("dumped\n%s\nKafka:\n%s", got, dumped[i])
		}
	}
}

// TestEncodeOnlyReads: what images hold is encoded while others read it. The race detector sees a write.
func TestEncodeOnlyReads(t *testing.T) {
	records, versions := samples()
	for i, r := range records {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { Encode(nil, r, versions[i]) })
		}
		both.Wait()
	}
}

func TestDecodeRefuses(t *testing.T) {
	topic := Encode(nil, &TopicRecord{Name: "a"}, 0)
	change := Encode(nil, &PartitionChangeRecord{EligibleLeaderReplicas: []kafka.NodeID{1}}, 2)
	withVersion := func(b []byte, v byte) []byte { b = slices.Clone(b); b[2] = v; return b }
	tests := []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "bad varint"},
		{"frame version 0", append([]byte{0}, topic[1:]...), "frame version 0"},
		{"frame version 2", append([]byte{2}, topic[1:]...), "frame version 2"},
		{"unused key", []byte{1, 6, 0, 0}, "unknown record type 6"},
		{"key beyond int16", []byte{1, 0x82, 0x80, 0x04, 0, 0}, "unknown record type 65538"},
		{"newer version", withVersion(topic, 1), "TOPIC_RECORD version 1"},
		{"trailing byte", append(slices.Clone(topic), 0), "1 bytes left over"},
		{"tag in a version that lacks it", withVersion(change, 1), "tag 6 is not valid in version 1"},
		{"null text", []byte{1, 22, 0, 0, 1, 0}, "name is null"},
		{"null array", append([]byte{1, 14, 0}, 0, 1, 0), "entity is null"},
		{"huge array", append([]byte{1, 14, 0}, 0xff, 0xff, 0xff, 0xff, 0x0f), "length 4294967294"},
		{"huge tag count", []byte{1, 20, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, "bad varint"},
		{"tag longer than its field", []byte{1, 25, 0, 1, 0, 2, 1, 0}, "tag 0: 1 bytes left over"},
		{"tag shorter than its field", []byte{1, 25, 0, 1, 0, 1, 2, 0}, "length 1, 0 bytes left"},
		{"controlled shutdown 2", append(append([]byte{1, 17, 1}, make([]byte, 12)...), 1, 1, 1, 2),
			"inControlledShutdown is 2"},
	}
	for _, test := range tests {
		_, err := Decode(test.b)
		if !errors.Is(err, ErrBadRecord) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestDecodeSkipsUnknownTags(t *testing.T) {
	b := Encode(nil, &BeginTransactionRecord{}, 0)
	b = append(b[:len(b)-1], 2, 0, 2, 2, 'x', 99, 3, 1, 2, 3) // tag 0 = "x", tag 99 of 3 bytes
	r, err := Decode(b)
	if err != nil || *r.(*BeginTransactionRecord).Name != "x" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDecodeOwnsItsMemory: decoded records are kept in images while buffers are reused.
func TestDecodeOwnsItsMemory(t *testing.T) {
	b := Encode(nil, &UserScramCredentialRecord{Name: "user", Salt: []byte("salt")}, 0)
	r, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if got := r.(*UserScramCredentialRecord); got.Name != "user" || string(got.Salt) != "salt" {
		t.Errorf("%+v", got)
	}
}

// TestDecodeMemory: lengths that cannot be true cost nothing, true ones a small multiple of the input.
func TestDecodeMemory(t *testing.T) {
	const size = 1 << 20
	renewers := append([]byte{1, 10, 0, 1, 1}, binary.AppendUvarint(nil, size+1)...)
	inputs := map[string][]byte{
		"empty strings":     append(renewers, bytes.Repeat([]byte{1}, size)...),
		"strings cut off":   append(renewers[:len(renewers):len(renewers)], bytes.Repeat([]byte{0xff}, size)...),
		"empty entities":    append([]byte{1, 14, 0, 0x80, 0x80, 0x15}, bytes.Repeat([]byte{1, 0, 0}, size/3)...),
		"claims 4 Gi":       append([]byte{1, 14, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, size)...),
		"many unknown tags": append([]byte{1, 20, 0, 0x80, 0x80, 0x10}, bytes.Repeat([]byte{7, 0}, size/2)...),
	}
	for name, b := range inputs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(b)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 17*size {
			t.Errorf("%s: %d bytes allocated for %d (%v)", name, used, len(b), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	records, versions := samples()
	for i, r := range records {
		f.Add(Encode(nil, r, versions[i]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, version, err := DecodeVersioned(b)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatal(err)
			}
			return
		}
		again, err := Decode(Encode(nil, r, version))
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if d := cmp.Diff(r, again, cmp.Comparer(func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b)
		})); d != "" {
			t.Fatal(d)
		}
		_ = Dump(r, version)
		_, _, _ = New().Apply([]Record{r})
	})
}
