//go:build unix

package chaos

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Remove()
	os.Exit(code)
}

// isLong says whether the whole of the suite is asked for.
func isLong() bool { return os.Getenv("MOLDAU_LONG") == "1" }

// seeds gives the seeds of a random test: CHAOS_SEED repeats one.
func seeds(t *testing.T, count int) []uint64 {
	t.Helper()
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		s, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{s}
	}
	out := make([]uint64, count)
	for i := range out {
		out[i] = rand.Uint64N(1_000_000)
	}
	return out
}

// directory is where a test's files go: CHAOS_KEEP keeps them below the directory it names.
func directory(t *testing.T) string {
	t.Helper()
	keep := os.Getenv("CHAOS_KEEP")
	if keep == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(keep, filepath.Base(t.Name())+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Log("files are in ", dir)
	return dir
}

// start makes a cluster of processes and starts it.
func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	if o.Binary == "" {
		bin, err := Binary()
		if err != nil {
			t.Fatal(err)
		}
		o.Binary = bin
	}
	if o.Dir == "" {
		o.Dir = directory(t)
	}
	o.Log = t.Logf
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, n := range c.Nodes {
				t.Logf("node %d:\n%s", n.ID, n.Tail(60))
			}
		}
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// load starts clients.
func load(t *testing.T, c *Cluster, o LoadOptions) *Load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	l, err := StartLoad(ctx, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return l
}

// some is a load for two cores that others use too.
func some(seed uint64) LoadOptions {
	return LoadOptions{Plain: 3, OneDisk: 1, Transactional: 2, Pipelines: 2, Members: 2, Administrators: 1, Seed: seed, Pause: 8 * time.Millisecond}
}

// judge ends a run. A long one stops its nodes in good order, a short one kills them.
func judge(t *testing.T, c *Cluster, l *Load) {
	t.Helper()
	for _, err := range l.Judge(t.Context(), isLong()) {
		t.Error(err)
	}
}

// TestFaults does damage of all kinds at random, or of the quick kinds in a short run. CHAOS_ROUNDS and CHAOS_FAULTS, a
// regular expression, choose for themselves.
func TestFaults(t *testing.T) {
	names, rounds, count := ".", 15, 3
	if !isLong() {
		names, rounds, count = "^(kill -9 of a node|SIGTERM of a node|kill -9 of a leader)", 2, 1
	}
	if r, err := strconv.Atoi(os.Getenv("CHAOS_ROUNDS")); err == nil {
		names, rounds = cmp.Or(os.Getenv("CHAOS_FAULTS"), "."), r
	}
	faults := FaultsNamed(regexp.MustCompile(names))
	for _, seed := range seeds(t, count) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Logf("CHAOS_SEED=%d repeats it", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			c := start(t, Options{})
			l := load(t, c, some(seed))
			if err := Run(t.Context(), c, r, faults, rounds); err != nil {
				t.Error(err)
			}
			judge(t, c, l)
		})
	}
}

// TestControl shows that the checker bites: what one disk has acknowledged while nobody copies is lost with that node, which
// acks=1 allows. What acks=all and transactions were told at the same time is not.
func TestControl(t *testing.T) {
	c := start(t, Options{Settings: []string{"replica.lag.time.max.ms=60000"}})
	l := load(t, c, LoadOptions{Plain: 2, OneDisk: 3, Transactional: 1, Members: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*settleLimit)
	defer cancel()
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if ctx.Err() != nil {
				t.Fatal("never: ", what)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err := c.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	leader := c.Nodes[c.Leader(ctx, OneDisk, 0)-1]
	c.Logf("node %d leads", leader.ID)
	acknowledged := func() int { return l.History.acknowledgedAt(OneDisk, 0) }
	until("a record on one disk", func() bool { return acknowledged() > 20 })
	c.holdFetches(leader)
	before := acknowledged()
	until("records that nobody copies", func() bool { return acknowledged() > before+50 })
	leader.Kill()
	c.Links.Sever(leader.ID)
	c.Links.Heal()
	until("another leader", func() bool { now := c.Leader(ctx, OneDisk, 0); return now != 0 && now != leader.ID })
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Error(err)
	}
	wrong, err := l.Finish(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
	all, err := c.Read(ctx, kgo.ReadUncommitted(), Plain, OneDisk, Transactional)
	if err != nil {
		t.Fatal(err)
	}
	lost := l.History.LostAcknowledged(all)
	c.Logf("%d records of acks=1 were acknowledged and are lost", lost)
	if lost == 0 {
		t.Error("nothing of acks=1 is lost: the harness does no damage, or the checker sees none")
	}
	for _, w := range l.History.writers {
		if w.promise == perhaps {
			w.promise = once
		}
	}
	if found := l.History.Check(all, all); len(found) == 0 {
		t.Error("the checker does not miss what is lost")
	}
}
