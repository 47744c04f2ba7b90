package sim

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 25, "how many seeds to run")
	seed  = flag.Uint64("sim.seed", 0, "run this seed only, with a trace")
)

// runSeeds runs a scenario for all seeds, or for the one that was asked for.
func runSeeds(t *testing.T, run func(Options) Result) (total Stats) {
	t.Helper()
	if *seed != 0 {
		r := run(Options{Seed: *seed, Virtual: time.Minute, Trace: os.Stdout})
		t.Logf("%+v", r.Stats)
		if r.Violation != nil {
			t.Fatal(r.Violation)
		}
		t.Skip("one seed only")
	}
	for s := range uint64(*seeds) {
		r := run(Options{Seed: s + 1, Virtual: time.Minute})
		if r.Violation != nil {
			t.Errorf("%s\n%s", r.Plan, r.Violation)
		}
		total.Add(r.Stats)
	}
	t.Logf("%+v", total)
	return total
}

// TestQuorum runs quorums under everything that can go wrong.
func TestQuorum(t *testing.T) {
	total := runSeeds(t, Quorum)
	if total.Elections < *seeds || total.Crashes == 0 || total.Truncations == 0 || total.Downloads == 0 || total.Trims == 0 ||
		total.VoterChanges == 0 || total.Wiped == 0 || total.Cuts == 0 || total.Lost == 0 {
		t.Errorf("the faults did not do their work: %+v", total)
	}
}

// TestPartitions runs brokers with replicated partitions and producers.
func TestPartitions(t *testing.T) {
	total := runSeeds(t, Partitions)
	if total.Acknowledged < 100**seeds || total.Crashes == 0 || total.Expands == 0 || total.Shrinks == 0 ||
		total.LeaderChanges < 2**seeds || total.PartitionCuts == 0 {
		t.Errorf("the faults did not do their work: %+v", total)
	}
}

// TestSameSeedSameRun replays some seeds.
func TestSameSeedSameRun(t *testing.T) {
	for _, scenario := range Scenarios() {
		for s := range uint64(4) {
			a := scenario.Run(Options{Seed: s + 1, Virtual: 20 * time.Second})
			b := scenario.Run(Options{Seed: s + 1, Virtual: 20 * time.Second})
			if a.Digest != b.Digest || a.Stats != b.Stats {
				t.Errorf("%s: seed %d went two ways: %+v and %+v", scenario.Name, s+1, a, b)
			}
		}
	}
}

// TestTransactions runs clients that work exactly once over replicated coordinators.
func TestTransactions(t *testing.T) {
	total := runSeeds(t, Transactions)
	if total.TxnCommitted < 10**seeds || total.TxnAborted < *seeds || total.Crashes == 0 || total.LeaderChanges < 2**seeds {
		t.Errorf("the faults did not do their work: %+v", total)
	}
}
