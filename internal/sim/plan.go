package sim

import (
	"fmt"
	"strings"
	"time"
)

// fault is a kind of trouble that a plan allows.
type fault int

const (
	faultPower     fault = iota // power cuts between two events
	faultTorn                   // power cuts inside a call of the disk
	faultKill                   // kill -9
	faultPause                  // SIGSTOP and SIGCONT
	faultPartition              // groups that cannot talk to each other
	faultOneWay                 // a direction in which nothing passes
	faultDrop                   // single messages lost
	faultDuplicate              // requests that arrive twice
	faultSlowNet                // single messages very late
	faultSlowDisk               // syncs that take long
	faultRate                   // clocks that are fast or slow
	faultJump                   // clocks that jump ahead
	faultMembers                // voters that come and go
	faultWipe                   // a disk that is lost and replaced
	faultMove                   // replicas that are moved to other brokers
	faultStop                   // brokers that are stopped in order
	faultCount
)

func (f fault) String() string {
	return [...]string{"power", "torn", "kill", "pause", "partition", "one-way", "drop", "duplicate", "slow-net",
		"slow-disk", "clock-rate", "clock-jump", "members", "wipe", "move", "stop"}[f]
}

// plan is what a seed makes of a run: each fault is on in half of them, so that rare combinations come up and none
// hides another all the time.
type plan struct {
	faults                [faultCount]bool
	voters                int
	others                int // observers
	partitions, producers int
	static                bool // controller.quorum.voters instead of a voter set in the log
	latency               time.Duration
	sync                  time.Duration
	drop                  float64
	every                 time.Duration // between two faults
	downtime              time.Duration
	outage                time.Duration // of a pause or a partition
	traffic               time.Duration // between two proposals
	small                 bool          // segments, snapshots and fetches so small that everything happens often
}

func (w *World) newPlan() plan {
	r := w.rnd
	p := plan{voters: [...]int{1, 2, 3, 3, 3, 3, 4, 5}[r.IntN(8)], others: r.IntN(3), static: r.IntN(4) == 0,
		latency: []time.Duration{time.Millisecond, 2 * time.Millisecond, 10 * time.Millisecond}[r.IntN(3)],
		sync:    []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}[r.IntN(3)],
		drop:    []float64{0.001, 0.01, 0.05}[r.IntN(3)], every: time.Duration(500+r.IntN(3000)) * time.Millisecond,
		downtime: time.Duration(50+r.IntN(3000)) * time.Millisecond,
		outage:   time.Duration(200+r.IntN(5000)) * time.Millisecond,
		traffic:  time.Duration(10+r.IntN(90)) * time.Millisecond, small: r.IntN(3) > 0}
	for f := range p.faults {
		p.faults[f] = r.IntN(2) == 0
	}
	p.faults[faultMove], p.faults[faultStop] = false, false
	if p.static || p.voters < 3 {
		p.faults[faultWipe] = false // an empty disk with an old id is a voter that forgot: the operator must not do it
	}
	if p.faults[faultWipe] {
		p.faults[faultMembers] = false // together they could take the majority's only copies away
	}
	return p
}

func (p *plan) has(f fault) bool { return p.faults[f] }

// ofBrokers makes it a plan for nodes that are brokers too: three or more, whose disks and votes stay.
func (p *plan) ofBrokers(w *World) {
	p.voters = max(p.voters, 3)
	p.others = min(p.others, 1)
	p.partitions, p.producers = 1+w.rnd.IntN(3), 1+w.rnd.IntN(4)
	p.faults[faultMembers], p.faults[faultWipe] = false, false
	p.faults[faultMove], p.faults[faultStop] = w.chance(0.5), w.chance(0.5)
}

// String names the cluster and its faults.
func (p plan) String() string {
	var on []string
	for f := range faultCount {
		if p.has(f) {
			on = append(on, f.String())
		}
	}
	kind := "dynamic"
	if p.static {
		kind = "static"
	}
	return fmt.Sprintf("%d %s voters, %d observers; %s", p.voters, kind, p.others, strings.Join(on, " "))
}
