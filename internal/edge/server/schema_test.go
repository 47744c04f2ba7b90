package server

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/invariant"
)

var wide = scanLimits{elements: 1_000_000, tags: 10_000}

// fill sets every field of a request to something, with arrays of up to three elements.
func fill(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct && rnd.IntN(2) == 0 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(rnd, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "UnknownTags" {
				tags := v.Field(i).Addr().Interface().(*kmsg.Tags)
				for range rnd.IntN(3) {
					tags.Set(uint32(100+rnd.IntN(300)), make([]byte, rnd.IntN(200)))
				}
			} else if name != "Version" {
				fill(rnd, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		for range rnd.IntN(4) {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(rnd, e)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rnd, v.Index(i))
		}
	case reflect.String:
		v.SetString(string(make([]byte, rnd.IntN(300))))
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(rnd.Float64())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rnd.Uint64() & 0x7f)
	default:
		v.SetInt(int64(rnd.IntN(100)))
	}
}

// eachVersion calls f with a filled request of every API and version, several times.
func eachVersion(rnd *rand.Rand, times int, f func(req kmsg.Request, body []byte)) {
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := range req.MaxVersion() + 1 {
			for range times {
				r := kmsg.RequestForKey(key)
				r.SetVersion(v)
				fill(rnd, reflect.ValueOf(r).Elem())
				f(r, r.AppendTo(nil))
			}
		}
	}
}

func TestScanAcceptsEveryRequest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	n := 0
	eachVersion(rnd, 20, func(req kmsg.Request, body []byte) {
		s := schemaFor(req.Key())
		if s == nil {
			t.Fatalf("no schema for key %d", req.Key())
		}
		w := walker{src: body, version: req.GetVersion(), compact: req.GetVersion() >= s.flexible, limits: wide}
		w.walk(s.nodes)
		if w.bad || len(w.src) != 0 {
			t.Fatalf("%T v%d: bad %v, %d of %d bytes not walked", req, req.GetVersion(), w.bad, len(w.src), len(body))
		}
		n++
		for range 3 {
			short := body[:rnd.IntN(len(body)+1)]
			got := kmsg.RequestForKey(req.Key())
			got.SetVersion(req.GetVersion())
			_, ok := s.scan(short, req.GetVersion(), wide)
			if err := got.ReadFrom(short); (err == nil) != ok {
				t.Fatalf("%T v%d cut to %d of %d: scan %v, decoder %v", req, req.GetVersion(), len(short), len(body), ok, err)
			}
		}
	})
	if n < 3000 {
		t.Fatalf("only %d requests tried", n)
	}
}

// allocated by f, with nothing else running.
func heapOf(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestScanBoundsDecoding lets every request be decoded with arrays and tags of hostile length and compares
// what was allocated with what the scan said.
func TestScanBoundsDecoding(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector allocates too")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	tags := []byte{0}
	tags = appendUvarint(tags[:0], 5000)
	for i := range 5000 {
		tags = append(appendUvarint(tags, uint32(i)), 0)
	}
	// Metadata v1 with 100,000 empty names, v9 with an empty list and 5,000 tags, CreateTopics v2 with empty
	// topics.
	names := append([]byte{0, 1, 134, 160}, make([]byte, 200_000)...)
	topics := append([]byte{0, 0, 39, 16}, make([]byte, 10_000*16+10)...)
	for _, tc := range []struct {
		name    string
		key     int16
		version int16
		body    []byte
	}{
		{"names", 3, 1, names},
		{"tags", 3, 9, append([]byte{1, 1, 1, 1}, tags...)},
		{"topics", 19, 2, topics},
		{"one tag each", 3, 12, bytes.Repeat([]byte{1}, 1)},
	} {
		req := kmsg.RequestForKey(tc.key)
		req.SetVersion(tc.version)
		heap, ok := schemaFor(tc.key).scan(tc.body, tc.version, wide)
		var err error
		real := heapOf(func() { err = req.(kmsg.UnsafeReadFrom).UnsafeReadFrom(tc.body) })
		if (err == nil) != ok {
			t.Fatalf("%s: scan %v, decoder %v", tc.name, ok, err)
		}
		t.Logf("%s: %d bytes, said %d, took %d", tc.name, len(tc.body), heap, real)
		if ok && (real > heap+4096 || heap > 4*real+4096) {
			t.Errorf("%s: said %d, took %d", tc.name, heap, real)
		}
	}
}

// TestScanBoundsEveryRequest does the same with the filled requests of every API.
func TestScanBoundsEveryRequest(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector allocates too")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rnd := rand.New(rand.NewPCG(5, 6))
	eachVersion(rnd, 2, func(req kmsg.Request, body []byte) {
		heap, _ := schemaFor(req.Key()).scan(body, req.GetVersion(), wide)
		got := kmsg.RequestForKey(req.Key())
		got.SetVersion(req.GetVersion())
		real := heapOf(func() { _ = got.(kmsg.UnsafeReadFrom).UnsafeReadFrom(body) })
		if real > heap+1024 {
			t.Errorf("%T v%d: said %d, took %d", req, req.GetVersion(), heap, real)
		}
	})
}

func appendUvarint(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func TestScanLimits(t *testing.T) {
	names := append([]byte{0, 0, 0, 11}, make([]byte, 22)...)
	for _, tc := range []struct {
		what    string
		key     int16
		version int16
		body    []byte
		ok      bool
	}{
		{"eleven elements where ten are allowed", 3, 1, names, false},
		{"ten elements", 3, 1, append([]byte{0, 0, 0, 10}, make([]byte, 20)...), true},
		{"null where it may be", 3, 1, []byte{255, 255, 255, 254}, true},
		{"null where it may not be", 3, 0, []byte{255, 255, 255, 255}, false},
		{"null string where it may not be", 3, 1, []byte{0, 0, 0, 1, 255, 255}, false},
		{"trailing bytes", 3, 1, []byte{0, 0, 0, 0, 9, 9, 9}, true},
		{"two tags", 3, 9, []byte{1, 1, 1, 1, 2, 50, 0, 51, 0}, true},
		{"three tags where two are allowed", 3, 9, []byte{1, 1, 1, 1, 3, 50, 0, 51, 0, 52, 0}, false},
		{"tag longer than the frame", 3, 9, []byte{1, 1, 1, 1, 1, 50, 5, 0}, false},
		{"the longest string", 18, 3, append(append(appendUvarint(nil, 1<<15), make([]byte, 1<<15-1)...), 1, 0), true},
		{"a longer string", 18, 3, append(append(appendUvarint(nil, 1<<15+1), make([]byte, 1<<15)...), 1, 0), false},
		{"varint of six bytes", 3, 9, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 1, 1, 0}, false},
	} {
		if _, ok := schemaFor(tc.key).scan(tc.body, tc.version, scanLimits{elements: 10, tags: 2}); ok != tc.ok {
			t.Errorf("%s: ok = %v", tc.what, ok)
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 11
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 100)}}}}
	body, s := req.AppendTo(nil), schemaFor(0)
	if n := testing.AllocsPerRun(100, func() { s.scan(body, 11, wide) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func FuzzScan(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	eachVersion(rnd, 1, func(req kmsg.Request, body []byte) {
		if len(body) < 2000 {
			f.Add(req.Key(), req.GetVersion(), body)
		}
	})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		heap, ok := schemaFor(key).scan(body, version, wide)
		if !ok {
			return // stricter than the decoder: nulls
		}
		if err := req.(kmsg.UnsafeReadFrom).UnsafeReadFrom(body); err != nil {
			t.Fatalf("scan lets pass what the decoder refuses: %v", err)
		}
		if heap > 2000*int64(len(body))+4096 {
			t.Fatalf("%d bytes are said to take %d", len(body), heap)
		}
	})
}
