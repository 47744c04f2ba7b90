package api

import (
	"testing"

	"moldau/internal/invariant"
)

// TestAllocations keeps the hot paths from growing garbage. The counts include what the log, the file system in memory
// and kmsg's decoder allocate; of the handlers' own, a produce has one (its promise).
func TestAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector empties pools")
	}
	for _, c := range []struct {
		what string
		most float64
		run  func()
	}{
		{"produce 16 KiB", 12, produceLoop(t, 16<<10)},
		{"fetch without a session", 8, fetchLoop(t, false, 1)},
		{"fetch in a session", 8, fetchLoop(t, true, 1)},
		{"fetch in a session of 1,000 partitions", 8, fetchLoop(t, true, 1000)},
	} {
		for range 10 {
			c.run() // fills the pools
		}
		if got := testing.AllocsPerRun(100, c.run); got > c.most {
			t.Errorf("%s: %.1f allocations, at most %.0f are allowed", c.what, got, c.most)
		}
	}
}
