package sim

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 40, "how many seeds to run")
	seed  = flag.Uint64("sim.seed", 0, "run this seed only, with a trace")
)

// TestQuorum runs quorums under everything that can go wrong.
func TestQuorum(t *testing.T) {
	if *seed != 0 {
		r := Quorum(Options{Seed: *seed, Virtual: time.Minute, Trace: os.Stdout})
		t.Logf("%+v", r.Stats)
		if r.Violation != nil {
			t.Fatal(r.Violation)
		}
		return
	}
	var total Stats
	for s := range uint64(*seeds) {
		r := Quorum(Options{Seed: s + 1, Virtual: time.Minute})
		if r.Violation != nil {
			t.Errorf("%s\n%s", r.Plan, r.Violation)
		}
		total.Add(r.Stats)
	}
	t.Logf("%+v", total)
	if total.Elections < *seeds || total.Crashes == 0 || total.Truncations == 0 || total.Downloads == 0 || total.Trims == 0 ||
		total.VoterChanges == 0 || total.Wiped == 0 || total.Cuts == 0 || total.Lost == 0 {
		t.Errorf("the faults did not do their work: %+v", total)
	}
}

// TestSameSeedSameRun replays some seeds.
func TestSameSeedSameRun(t *testing.T) {
	for s := range uint64(5) {
		a := Quorum(Options{Seed: s + 1, Virtual: 10 * time.Second})
		b := Quorum(Options{Seed: s + 1, Virtual: 10 * time.Second})
		if a.Digest != b.Digest || a.Stats != b.Stats {
			t.Errorf("seed %d went two ways: %+v and %+v", s+1, a, b)
		}
	}
}
