package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/cluster/replica"
)

// gathering is a flusher whose last round was of n partitions, none of which has come back.
func gathering(n int) (*flusher, []*replica.Partition) {
	f := newFlusher(nil, nil, nil, time.Now, 4, nil)
	f.groupCost = float64(10 * time.Millisecond)
	f.rounded = n
	var parts []*replica.Partition
	for range n {
		p := new(replica.Partition) // only its address is looked at
		f.absent[p] = struct{}{}
		parts = append(parts, p)
	}
	return f, parts
}

// TestRoundsGather: a round waits for the partitions of the last one as long as that pays.
func TestRoundsGather(t *testing.T) {
	took := func(f *flusher) time.Duration {
		begun := time.Now()
		f.gather()
		return time.Since(begun)
	}
	synctest.Test(t, func(t *testing.T) {
		f, parts := gathering(4)
		for i, p := range parts { // they come back one by one
			time.AfterFunc(time.Duration(i+1)*200*time.Microsecond, func() { f.request(p) })
		}
		if d := took(f); d != 800*time.Microsecond || len(f.dirty) != 4 {
			t.Errorf("%d partitions after %v", len(f.dirty), d)
		}

		f, parts = gathering(4)
		f.request(parts[0])
		f.request(new(replica.Partition))
		var waits []int // rounds between two that waited in vain
		for hasty := 0; len(waits) < 9; hasty++ {
			if d := took(f); d == longestGather {
				waits, hasty = append(waits, hasty), -1
			} else if d != 0 {
				t.Fatalf("waited %v", d)
			}
		}
		if want := []int{0, 0, 1, 2, 4, 8, 16, 32, 64}; !slices.Equal(waits, want) {
			t.Errorf("rounds between waits %v, want %v", waits, want)
		}

		f.hasty = 0
		f.request(parts[1]) // half of them are there: it pays again
		if d := took(f); d != longestGather || f.hastyNext != 1 || f.hasty != 0 {
			t.Errorf("waited %v, %d, %d", d, f.hasty, f.hastyNext)
		}
		f.close()
		if d := took(f); d != 0 {
			t.Errorf("a closed one waits %v", d)
		}

		f, _ = gathering(4)
		f.groupCost = float64(300 * time.Microsecond)
		if d := took(f); d != 150*time.Microsecond {
			t.Errorf("a round that costs 300us waited %v", d)
		}
	})
}
