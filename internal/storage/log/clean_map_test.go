package log

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"moldau/internal/kafka"
)

func seededHash() func([]byte) uint64 {
	seed := maphash.MakeSeed()
	return func(b []byte) uint64 { return maphash.Bytes(seed, b) }
}

// TestKeyMap compares with a Go map, with hashes that all collide, collide often, and are good.
func TestKeyMap(t *testing.T) {
	hashes := map[string]func([]byte) uint64{
		"all collide": func([]byte) uint64 { return 7 << 32 },
		"few values":  func(b []byte) uint64 { return uint64(len(b)%3) << 32 },
		"good":        seededHash(),
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			m, want := newKeyMap(hash, 4<<20, 0.9), map[string]kafka.Offset{}
			n := 3000
			if name == "good" {
				n = 60000
			}
			for offset := range kafka.Offset(n) {
				key := fmt.Sprintf("%0*d", rnd.IntN(20), rnd.IntN(n/3))
				if !m.put([]byte(key), offset) {
					t.Fatalf("full after %d keys", len(want))
				}
				want[key] = offset
			}
			if m.count != len(want) {
				t.Fatalf("%d keys, want %d", m.count, len(want))
			}
			for key, offset := range want {
				if got, ok := m.newest([]byte(key)); !ok || got != offset {
					t.Fatalf("key %q: %d %v, want %d", key, got, ok, offset)
				}
				if _, ok := m.newest([]byte(key + "x")); ok {
					t.Fatalf("key %q is there", key+"x")
				}
			}
			m.put([]byte("late"), 10)
			m.put([]byte("late"), 5)
			if got, _ := m.newest([]byte("late")); got != 10 {
				t.Fatalf("an older offset replaced a newer one: %d", got)
			}
		})
	}
}

// TestKeyMapMemory fills maps: what is reserved stays within the limit, a full map says so, and still finds what it has.
func TestKeyMapMemory(t *testing.T) {
	for _, limit := range []int64{1 << 20, 3 << 20, 16 << 20} {
		for _, size := range []int{8, 40, 3000, int(limit / maxKeyShare)} {
			m := newKeyMap(seededHash(), limit, 0.9)
			n := 0
			for ; m.put(fmt.Appendf(nil, "%0*d", size, n), kafka.Offset(n)); n++ {
				if m.reserved > limit {
					t.Fatalf("%d bytes of %d with %d keys of %d", m.reserved, limit, n, size)
				}
			}
			real := int64(len(m.table)) * keySlotSize
			for _, c := range m.chunks {
				real += int64(cap(c))
			}
			if real != m.reserved {
				t.Errorf("reserved %d, holds %d", m.reserved, real)
			}
			if least := limit / int64(size+64) / 2; int64(n) < min(least, 4) {
				t.Errorf("%d keys of %d bytes in %d", n, size, limit)
			}
			for i := range n {
				if got, ok := m.newest(fmt.Appendf(nil, "%0*d", size, i)); !ok || got != kafka.Offset(i) {
					t.Fatalf("key %d of %d: %d %v", i, n, got, ok)
				}
			}
			t.Logf("limit %d, keys of %d bytes: %d, table %d", limit, size, n, len(m.table))
		}
	}
}
