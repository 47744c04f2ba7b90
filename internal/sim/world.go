package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"moldau/internal/kafka"
)

// World is one cluster with its time, its network and the truth about it.
type World struct {
	seed       uint64
	rnd        *rand.Rand
	plan       plan
	now        time.Duration // since the beginning
	queue      queue
	sequence   uint64
	machines   []*machine
	network    network
	quorum     quorumTruth
	partitions partitionTruth
	// transactions are those of clients, where there are such.
	transactions txnTruth
	trace        io.Writer
	calm         bool // faults are over
	stats        Stats
	failure      *Violation
	digest       uint64
}

// Stats say what happened in a run: a run in which nothing happened proves nothing.
type Stats struct {
	Events, Messages, Lost                    int
	Crashes, Pauses, Cuts, Jumps, Wiped       int
	Elections, Committed, Truncations         int
	Snapshots, Downloads, Trims, VoterChanges int
	Produced, Acknowledged, Expands, Shrinks  int
	LeaderChanges, PartitionCuts, Restarted   int
	TxnCommitted, TxnAborted, Moves, Stops    int
	Virtual                                   time.Duration
}

// Violation is something that must never be.
type Violation struct {
	Seed uint64
	At   time.Duration
	What string
	// State is the cluster at that moment.
	State string
}

// Error gives all of it.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d at %s: %s\n%s", v.Seed, v.At, v.What, v.State)
}

// event is something that happens at a time; those of one time happen in the order in which they were made.
type event struct {
	at       time.Duration
	sequence uint64
	do       func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].sequence < q[j].sequence
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

// after makes something happen later.
func (w *World) after(d time.Duration, do func()) {
	w.sequence++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.sequence, do})
}

// runUntil lets everything happen up to a time, or until done says so; false: the time came first, or something went
// wrong.
func (w *World) runUntil(end time.Duration, done func() bool) bool {
	for w.failure == nil {
		if done != nil && done() {
			return true
		}
		if len(w.queue) == 0 || w.queue[0].at > end {
			w.now = end
			return false
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.stats.Events++
		w.note("event", uint64(e.at), e.sequence)
		e.do()
	}
	return false
}

// note makes a fact part of the run's digest, by which two runs are compared.
func (w *World) note(what string, facts ...uint64) {
	h := fnv.New64a()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], w.digest)
	_, _ = h.Write(b[:])
	_, _ = io.WriteString(h, what)
	for _, f := range facts {
		binary.BigEndian.PutUint64(b[:], f)
		_, _ = h.Write(b[:])
	}
	w.digest = h.Sum64()
}

// fail records the first violation; the run ends with it.
func (w *World) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Seed: w.seed, At: w.now, What: fmt.Sprintf(format, args...), State: w.describe()}
	}
}

func (w *World) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12s %s\n", w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) describe() string {
	out := ""
	for _, m := range w.machines {
		out += m.describe() + "\n"
	}
	return out
}

// chance draws an event of probability p.
func (w *World) chance(p float64) bool { return w.rnd.Float64() < p }

// around draws a time that is mean on average, mostly shorter and sometimes much longer.
func (w *World) around(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * w.rnd.ExpFloat64())
}

func (w *World) machineAt(host string) *machine {
	for _, m := range w.machines {
		if m.host() == host {
			return m
		}
	}
	return nil
}

func (w *World) machineOf(id kafka.NodeID) *machine {
	for _, m := range w.machines {
		if m.id == id {
			return m
		}
	}
	return nil
}

// Add adds what happened in another run.
func (s *Stats) Add(o Stats) {
	s.Events += o.Events
	s.Messages += o.Messages
	s.Lost += o.Lost
	s.Crashes += o.Crashes
	s.Pauses += o.Pauses
	s.Cuts += o.Cuts
	s.Jumps += o.Jumps
	s.Wiped += o.Wiped
	s.Elections += o.Elections
	s.Committed += o.Committed
	s.Truncations += o.Truncations
	s.Snapshots += o.Snapshots
	s.Downloads += o.Downloads
	s.Trims += o.Trims
	s.VoterChanges += o.VoterChanges
	s.Produced += o.Produced
	s.Acknowledged += o.Acknowledged
	s.Expands += o.Expands
	s.Shrinks += o.Shrinks
	s.LeaderChanges += o.LeaderChanges
	s.PartitionCuts += o.PartitionCuts
	s.Restarted += o.Restarted
	s.TxnCommitted += o.TxnCommitted
	s.TxnAborted += o.TxnAborted
	s.Moves += o.Moves
	s.Stops += o.Stops
	s.Virtual += o.Virtual
}
