package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// Options say what to run.
type Options struct {
	Seed uint64
	// Virtual is how long the faults last, in virtual time.
	Virtual time.Duration
	// Trace, when not nil, gets a line for everything that matters.
	Trace io.Writer
}

// Scenario is something that can be simulated.
type Scenario struct {
	Name string
	Run  func(Options) Result
}

// Scenarios lists them.
func Scenarios() []Scenario { return []Scenario{{"quorum", Quorum}} }

// recovery is how long a cluster has, after the last fault, to do what it is there for.
const recovery = 30 * time.Second

// Result is the outcome of a run.
type Result struct {
	// Plan names the cluster and its faults.
	Plan  string
	Stats Stats
	// Digest is the same for runs that went the same way.
	Digest uint64
	// Violation is nil if nothing went wrong.
	Violation *Violation
}

// Quorum runs a quorum alone: replicas of the metadata log, and a controller that writes whatever comes to its mind.
func Quorum(o Options) (r Result) {
	w := newWorld(o)
	defer func() {
		// An assertion of the code under test is a finding like any other.
		if p := recover(); p != nil {
			w.fail("panic: %v\n%s", p, debug.Stack())
			r = w.result()
		}
	}()
	if err := w.buildQuorum(); err != nil {
		w.fail("founding: %v", err)
		return w.result()
	}
	w.write()
	w.trouble()
	w.runUntil(o.Virtual, nil)
	w.freeze()
	w.heal()
	w.progress()
	return w.result()
}

func newWorld(o Options) *World {
	w := &World{seed: o.Seed, rnd: rand.New(rand.NewPCG(o.Seed, 6)), trace: o.Trace}
	w.plan = w.newPlan()
	w.quorum.reset()
	w.logf("seed %d: %s", w.seed, w.plan)
	return w
}

func (w *World) result() Result {
	w.stats.Virtual = w.now
	return Result{Plan: w.plan.String(), Stats: w.stats, Digest: w.digest, Violation: w.failure}
}

func (w *World) buildQuorum() error {
	founders := w.founders()
	for i := range w.plan.voters + w.plan.others {
		m, err := w.newQuorumMachine(kafka.NodeID(i+1), founders)
		if err != nil {
			return err
		}
		w.machines = append(w.machines, m)
	}
	w.network.reset(len(w.machines))
	for _, m := range w.machines {
		m.start()
	}
	return nil
}

// write lets the controller in office, or whoever thinks to be, write something now and then.
func (w *World) write() {
	w.after(w.around(w.plan.traffic), func() {
		m := w.machines[w.rnd.IntN(len(w.machines))]
		if m.up() {
			m.happen(m.life, func() { w.propose(m.voter()) })
		}
		w.write()
	})
}

func (w *World) propose(v *voter) {
	epoch, ok := v.pump.InOffice()
	if !ok {
		return
	}
	var records []metadata.Record
	for range 1 + w.rnd.IntN(3) {
		w.stats.Produced++
		value := fmt.Sprint(w.stats.Produced)
		records = append(records, &metadata.ConfigRecord{ResourceType: metadata.BrokerResource,
			Name: fmt.Sprintf("key%d", w.stats.Produced%40), Value: &value})
	}
	_, err := v.pump.Propose(v.m.time(), quorum.Proposal{Epoch: epoch, Records: records, MetadataVersion: metadataVersion,
		Atomic: true})
	if err != nil {
		v.m.fail("in office, it cannot propose: %v", err)
	}
}

// freeze takes a minority out for good where that is fair: the others must do without it.
func (w *World) freeze() {
	if w.plan.has(faultMembers) || w.plan.has(faultWipe) || w.chance(0.5) {
		return // with voters that come and go it is not certain who is a minority
	}
	for range (w.plan.voters - 1) / 2 {
		m := w.machines[w.rnd.IntN(w.plan.voters)]
		if m.frozen {
			continue
		}
		m.frozen = true
		if m.up() {
			m.end()
		}
		w.logf("%d is down for good", m.id)
	}
}

// progress wants new things to be committed, and everybody to learn of them, now that there are no more faults.
func (w *World) progress() {
	goal := -1
	done := w.runUntil(w.now+recovery, func() bool {
		if goal < 0 {
			if w.inOffice() {
				goal = len(w.quorum.committed) + 3
			}
			return false
		}
		return len(w.quorum.committed) >= goal && w.caughtUp()
	})
	switch {
	case w.failure != nil:
	case !done:
		w.fail("no progress %s after the last fault", recovery)
	default:
		w.compareImages()
	}
}

func (w *World) inOffice() bool {
	for _, m := range w.machines {
		if m.up() {
			if _, ok := m.voter().pump.InOffice(); ok {
				return true
			}
		}
	}
	return false
}

// caughtUp says whether everybody who is up has applied nearly all that is committed: writing goes on meanwhile.
func (w *World) caughtUp() bool {
	for _, m := range w.machines {
		if m.frozen {
			continue
		}
		if !m.up() || m.voter().pump.Delivered().Offset < w.quorum.end()-6 {
			return false
		}
	}
	return true
}
