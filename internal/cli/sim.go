package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/sim"
)

type simFlags struct {
	scenario *choice
	seed     uint64
	seeds    int
	jobs     int
	virtual  time.Duration
	trace    bool
}

func newSim(s streams) *cobra.Command {
	var names []string
	for _, scenario := range sim.Scenarios() {
		names = append(names, scenario.Name)
	}
	f := simFlags{scenario: oneOf(names...)}
	c := &cobra.Command{Use: "sim", Short: "Run simulated clusters under every fault, each from a seed",
		Args: args(0, 0, "no argument")}
	c.Long = `Runs whole clusters in memory, with network, disks and clocks, under crashes, power cuts, partitions and more, and looks
after every event for what must never be. A seed is one cluster with one history: the same seed and the same program
give the same run, event for event.`
	c.Flags().Var(f.scenario, "scenario", "what is run")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "the first seed")
	c.Flags().IntVar(&f.seeds, "seeds", 1, "how many seeds to run, one after the other from the first")
	c.Flags().IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "how many to run at a time")
	c.Flags().DurationVar(&f.virtual, "virtual", time.Minute, "how long the faults last, in the cluster's own time")
	c.Flags().BoolVar(&f.trace, "trace", false, "print what happens; for one seed")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) }
	return c
}

func (f *simFlags) run(ctx context.Context, s streams) error {
	o := sim.Options{Virtual: f.virtual}
	if f.trace {
		if f.seeds > 1 {
			return errors.New("--trace is for one seed: leave --seeds out")
		}
		o.Trace = s.out
	}
	began := time.Now()
	tally := simTally{out: s.out, next: f.seed, end: f.seed + uint64(max(f.seeds, 0))}
	var workers sync.WaitGroup
	for range max(1, min(f.jobs, f.seeds)) {
		workers.Go(func() { tally.work(ctx, sim.Scenarios()[f.scenario.place()].Run, o) })
	}
	workers.Wait()
	fmt.Fprintf(s.out, "%d seeds, %d failed; %s of the clusters' time in %s\n%+v\n", tally.ran, tally.failed,
		tally.stats.Virtual.Round(time.Second), time.Since(began).Round(100*time.Millisecond), tally.stats)
	if tally.failed > 0 {
		return fmt.Errorf("%d of %d seeds failed; see one with moldau sim --scenario %s --seed N --trace", tally.failed,
			tally.ran, f.scenario)
	}
	return ctx.Err()
}

// simTally hands seeds out and counts what came of them.
type simTally struct {
	mu          sync.Mutex
	out         io.Writer
	next, end   uint64
	ran, failed int
	stats       sim.Stats
}

func (t *simTally) work(ctx context.Context, run func(sim.Options) sim.Result, o sim.Options) {
	for ctx.Err() == nil {
		t.mu.Lock()
		o.Seed = t.next
		t.next++
		t.mu.Unlock()
		if o.Seed >= t.end {
			return
		}
		t.take(run(o))
	}
}

func (t *simTally) take(r sim.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran++
	t.stats.Add(r.Stats)
	if r.Violation != nil {
		t.failed++
		fmt.Fprintf(t.out, "%s\n%s\n", r.Violation, r.Plan)
	}
}
