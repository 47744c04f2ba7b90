//go:build flaws

package sim

import (
	"flag"
	"strings"
	"testing"
	"time"

	"moldau/internal/flaw"
)

var (
	flawSeeds = flag.Int("sim.flawseeds", 1000, "how many seeds a planted mistake may take to be found")
	flawName  = flag.String("sim.flaw", "", "plant this mistake only")
)

// TestFlaws plants one mistake after the other and wants each to be found.
func TestFlaws(t *testing.T) {
	defer flaw.Plant(flaw.None)
	for _, f := range flaw.All() {
		if *flawName != "" && string(f) != *flawName {
			continue
		}
		t.Run(string(f), func(t *testing.T) {
			flaw.Plant(f)
			began := time.Now()
			for s := range uint64(*flawSeeds) {
				for _, scenario := range Scenarios() {
					r := scenario.Run(Options{Seed: s + 1, Virtual: time.Minute})
					if r.Violation != nil {
						what, _, _ := strings.Cut(r.Violation.What, "\n")
						t.Logf("found after %d seeds of each scenario, %s: %s: %s", s+1,
							time.Since(began).Round(100*time.Millisecond), scenario.Name, what)
						return
					}
				}
			}
			t.Errorf("not found with %d seeds of each scenario", *flawSeeds)
		})
	}
}
