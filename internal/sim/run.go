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
func Scenarios() []Scenario {
	return []Scenario{{"quorum", Quorum}, {"partitions", Partitions},
		{"transactions", Transactions}}
}

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
func Quorum(o Options) Result {
	w := newWorld(o)
	return w.run(o, func() {
		w.build(w.newQuorumMachine)
		w.write()
	}, w.progress)
}

// Partitions runs brokers that are controllers too, with the replicas of a topic and producers that write to it.
func Partitions(o Options) Result {
	w := newWorld(o)
	w.plan.ofBrokers(w)
	w.partitions.begin(w)
	return w.run(o, func() {
		w.build(w.newBrokerMachine)
		w.createTopic()
		for i := range w.plan.producers {
			p := &producer{w: w, id: kafka.ProducerID(1000 + i),
				tp: kafka.TopicPartition{Topic: topicName, Partition: int32(i % w.plan.partitions)}}
			p.next()
		}
	}, w.replicated)
}

// Transactions runs the same brokers with coordinators of groups and transactions, and clients that work exactly once.
func Transactions(o Options) Result {
	w := newWorld(o)
	w.plan.ofBrokers(w)
	w.partitions.begin(w)
	w.transactions.begin(w)
	return w.run(o, func() {
		w.build(w.newBrokerMachine)
		w.createTopic()
		for i := range 1 + w.rnd.IntN(3) {
			c := &txnClient{w: w, place: i, id: fmt.Sprintf("txn-%d", i), epochs: map[kafka.TopicPartition]kafka.LeaderEpoch{}}
			w.transactions.clients = append(w.transactions.clients, c)
			c.restart()
		}
	}, w.exactlyOnce)
}

// run lets the faults loose on a cluster, then ends them and wants it to recover.
func (w *World) run(o Options, begin, after func()) (r Result) {
	defer func() {
		// An assertion of the code under test is a finding like any other.
		if p := recover(); p != nil {
			w.fail("panic: %v\n%s", p, debug.Stack())
			r = w.result()
		}
	}()
	w.logf("seed %d: %s", w.seed, w.plan)
	begin()
	w.trouble()
	w.runUntil(o.Virtual, nil)
	if w.failure == nil {
		w.freeze()
		w.heal()
		after()
	}
	return w.result()
}

func newWorld(o Options) *World {
	w := &World{seed: o.Seed, rnd: rand.New(rand.NewPCG(o.Seed, 6)), trace: o.Trace}
	w.plan = w.newPlan()
	w.quorum.reset()
	return w
}

func (w *World) result() Result {
	w.stats.Virtual = w.now
	return Result{Plan: w.plan.String(), Stats: w.stats, Digest: w.digest, Violation: w.failure}
}

// build makes the machines and starts them.
func (w *World) build(machineOf func(kafka.NodeID, quorum.VoterSet) (*machine, error)) {
	founders := w.founders()
	for i := range w.plan.voters + w.plan.others {
		m, err := machineOf(kafka.NodeID(i+1), founders)
		if err != nil {
			w.fail("founding: %v", err)
			return
		}
		w.machines = append(w.machines, m)
	}
	w.network.reset(len(w.machines))
	for _, m := range w.machines {
		m.start()
	}
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
		if m.frozen || !w.partitions.spares(m.id) {
			continue
		}
		m.frozen = true
		if m.up() {
			m.end()
		}
		w.logf("%d is down for good", m.id)
	}
}

// progress wants new things to be committed, and everybody to learn of what there was when they were asked for, now that
// there are no more faults. An observer that takes little at a time need not keep up with all that follows.
func (w *World) progress() {
	goal, due := -1, kafka.Offset(0)
	done := w.runUntil(w.now+recovery, func() bool {
		if goal < 0 {
			if w.inOffice() {
				goal, due = len(w.quorum.committed)+3, w.quorum.end()
			}
			return false
		}
		return len(w.quorum.committed) >= goal && w.caughtUp(due)
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

// caughtUp says whether everybody who is up has applied what is committed up to an offset.
func (w *World) caughtUp(to kafka.Offset) bool {
	for _, m := range w.machines {
		if m.frozen || !w.partitions.spares(m.id) {
			continue
		}
		if !m.up() || m.voter().pump.Delivered().Offset < to {
			return false
		}
	}
	return true
}

// replicated wants every partition to be led and in sync again, everything new to be acknowledged, and all logs to be
// equal.
func (w *World) replicated() {
	var goal int
	began := false
	done := w.runUntil(w.now+recovery, func() bool {
		if !began {
			if w.allInSync() {
				goal, began = w.stats.Acknowledged+5*w.plan.producers, true
			}
			return false
		}
		return w.stats.Acknowledged >= goal && w.allInSync()
	})
	if w.failure == nil && !done {
		w.fail("not in sync and serving %s after the last fault (%s)", recovery, w.describePartitions())
	}
}

// exactlyOnce wants every client to get on, and all that was committed to be there.
func (w *World) exactlyOnce() {
	var goals []int64
	done := w.runUntil(w.now+recovery, func() bool {
		if !w.allInSync() {
			return false
		}
		if goals == nil {
			for _, c := range w.transactions.clients {
				goals = append(goals, c.done+3)
			}
		}
		for i, c := range w.transactions.clients {
			if c.done < goals[i] {
				return false
			}
		}
		return w.transactions.complete()
	})
	if w.failure == nil && !done {
		w.fail("transactions do not get on %s after the last fault (%s; %s)", recovery, w.transactions.describe(),
			w.describePartitions())
	}
}

// allInSync says whether every partition has a leader and all replicas that can be are in sync with it.
func (w *World) allInSync() bool {
	topics := 0
	for topic := range w.partitions.newest.TopicsByID() {
		topics++
		for _, p := range topic.Partitions() {
			up := 0
			for _, id := range p.Replicas {
				if !w.machineOf(id).frozen {
					up++
				}
			}
			if !p.HasLeader() || len(p.ISR) < up || len(p.Removing) > 0 && up == len(p.Replicas) {
				return false
			}
		}
	}
	return topics == len(w.topics())
}

func (w *World) describePartitions() string {
	out := ""
	topic, ok := w.partitions.newest.Topic(topicName)
	if !ok {
		return "there is no topic"
	}
	for i, p := range topic.Partitions() {
		out += fmt.Sprintf("%d: led by %d in epoch %d, replicas %v, in sync %v, eligible %v; ", i, p.Leader, p.LeaderEpoch,
			p.Replicas, p.ISR, p.ELR)
	}
	return out
}
