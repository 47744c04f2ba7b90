//go:build flaws

package sim

import (
	"strings"
	"testing"

	"moldau/internal/flaw"
)

// TestEveryOrderFindsFlaws plants the mistakes of replication and wants the search to find each, in the smallest cluster
// that shows it.
func TestEveryOrderFindsFlaws(t *testing.T) {
	defer flaw.Plant(flaw.None)
	plain := modelBounds{records: 1, epoch: 1, version: 1, behind: 1}
	crash := modelBounds{records: 1, crashes: 1, epoch: 1, version: 1, behind: 1}
	change := modelBounds{records: 1, epoch: 0, version: 2, behind: 2}
	two := modelBounds{records: 2, epoch: 1, version: 1, behind: 1}
	alone := modelBounds{records: 1, epoch: 1, version: 3, behind: 1}
	for _, x := range []struct {
		flaw   flaw.Flaw
		bounds modelBounds
	}{
		{flaw.AckBeforeReplicas, plain}, {flaw.LeaderUnsynced, plain}, {flaw.FollowerUnsynced, plain},
		{flaw.MinimalISR, change}, {flaw.EarlyISR, change}, {flaw.TruncateToHighWatermark, crash},
		{flaw.IgnoreDivergence, two}, {flaw.ElectAnybody, alone},
	} {
		if *flawName != "" && string(x.flaw) != *flawName {
			continue
		}
		t.Run(string(x.flaw), func(t *testing.T) {
			flaw.Plant(x.flaw)
			m, err := newModel(x.bounds)
			if err != nil {
				t.Fatal(err)
			}
			if err = m.search(); err == nil {
				t.Fatalf("not found in %d states", len(m.parents))
			}
			t.Logf("found after %d states, in %d steps: %v", len(m.parents), strings.Count(err.Error(), "\n"), err)
		})
	}
}
