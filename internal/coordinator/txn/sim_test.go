package txn

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// sim is a small world in virtual time: a coordinator with its log, partitions (simpartition_test.go), clients
// (simclient_test.go) and a network that delays, repeats and loses. Everything comes from one seed.
type sim struct {
	t     *testing.T
	rnd   *rand.Rand
	now   time.Time
	queue simQueue
	seq   int

	image   *metadata.Image
	m       *Machine // nil: the coordinator is down
	epoch   kafka.LeaderEpoch
	log     []coordinator.Record
	durable int        // records of log that are committed
	waiting []simWrite // for their records to be committed
	timers  map[coordinator.TimerKey]time.Time
	nextID  kafka.ProducerID

	partitions []*simPartition
	clients    []*simClient
	trace      []string
}

type simEvent struct {
	at  time.Time
	seq int
	run func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

// simWrite is what waits until the log is committed up to end.
type simWrite struct {
	end int
	run func()
}

func (s *sim) after(d time.Duration, f func()) {
	s.seq++
	heap.Push(&s.queue, simEvent{s.now.Add(d), s.seq, f})
}

// soon runs f after a random delay of at most d.
func (s *sim) soon(d time.Duration, f func()) { s.after(time.Duration(s.rnd.Int64N(int64(d))), f) }

func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, s.now.Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (s *sim) fatal(format string, args ...any) {
	s.t.Helper()
	s.t.Log(strings.Join(s.trace[max(0, len(s.trace)-150):], "\n"))
	s.t.Fatalf(format, args...)
}

const simCommitDelay = 20 * time.Millisecond

// start brings the coordinator up on what its log holds.
func (s *sim) start() {
	s.epoch++
	o := options()
	o.ParkTime = 300 * time.Millisecond
	s.m = New(o, s.image)
	s.timers = map[coordinator.TimerKey]time.Time{}
	for _, r := range s.log {
		if err := s.m.Apply(r, coordinator.Origin{}); err != nil {
			s.fatal("replay: %v", err)
		}
	}
	s.durable = len(s.log)
	s.note("coordinator up, epoch %d", s.epoch)
	s.handle(coordinator.Loaded{Image: s.image, LeaderEpoch: s.epoch})
}

// crash takes the coordinator down. Of what is not committed a part may be lost.
func (s *sim) crash() {
	if s.m == nil {
		return
	}
	s.replayed()
	s.m, s.waiting = nil, nil
	s.log = s.log[:s.durable+s.rnd.IntN(len(s.log)-s.durable+1)]
	s.note("coordinator down, %d records", len(s.log))
	s.soon(400*time.Millisecond, s.start)
}

// replayed checks that a replay of the log gives the live state.
func (s *sim) replayed() {
	m := New(options(), s.image)
	for _, r := range s.log {
		_ = m.Apply(r, coordinator.Origin{})
	}
	if len(m.ids) != len(s.m.ids) {
		s.fatal("%d ids after a replay, %d live", len(m.ids), len(s.m.ids))
	}
	for id, e := range s.m.ids {
		if d := cmp.Diff(e.transaction, m.ids[id].transaction, cmp.AllowUnexported(transaction{})); d != "" {
			s.fatal("a replay of %s differs: %s", id, d)
		}
	}
}

// handle gives the coordinator an event, as the runtime does.
func (s *sim) handle(e coordinator.Event) {
	if s.m != nil {
		s.result(s.m.Handle(s.now, e, s.rnd))
	}
}

func (s *sim) result(r coordinator.Result) {
	var err error
	if len(r.Records) > 0 && s.chance(2) {
		err = kafka.CoordinatorNotAvailable
	}
	if err == nil {
		s.log = append(s.log, r.Records...)
		for _, x := range r.Records {
			s.noteRecord(x)
			if err := s.m.Apply(x, coordinator.Origin{}); err != nil {
				s.fatal("%v", err)
			}
		}
		for _, x := range r.Timers {
			s.setTimer(x)
		}
	}
	m := s.m
	tell := func() {
		for _, x := range r.Replies {
			a := x.Answer
			if err != nil {
				a = coordinator.Answer{Err: err}
			}
			if !x.To.Answer().Set(a) {
				s.fatal("answered twice")
			}
		}
		if err == nil {
			for _, w := range r.Outgoing {
				s.work(m, w)
			}
		}
	}
	if err != nil || s.durable == len(s.log) {
		tell()
	} else {
		s.waiting = append(s.waiting, simWrite{len(s.log), tell})
		s.soon(simCommitDelay, func() { s.commit(m) })
	}
	if r.Then != nil {
		s.result(r.Then(s.now, err))
	}
	for _, e := range r.Next {
		s.handle(e)
	}
}

func (s *sim) noteRecord(r coordinator.Record) {
	id, _ := parseKey(r.Key)
	if t, err := parseValue(id, r.Value); err == nil {
		s.note("%s %s %d/%d %v", id, t.state, t.producer.ID, t.producer.Epoch, t.partitions)
	}
}

// commit makes the log durable.
func (s *sim) commit(m *Machine) {
	if s.m != m {
		return
	}
	s.durable = len(s.log)
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		w.run()
	}
}

func (s *sim) setTimer(x coordinator.Timer) {
	if x.At.IsZero() {
		delete(s.timers, x.Key)
		return
	}
	s.timers[x.Key] = x.At
	m := s.m
	s.after(max(0, x.At.Sub(s.now)), func() {
		if s.m == m && s.timers[x.Key].Equal(x.At) {
			delete(s.timers, x.Key)
			s.handle(coordinator.TimerFired{Key: x.Key})
		}
	})
}

// work does what the coordinator wants, as long as it lives.
func (s *sim) work(m *Machine, w coordinator.Work) {
	done := func(e coordinator.Event) {
		if s.m == m {
			s.handle(e)
		}
	}
	switch w := w.(type) {
	case DrawProducerID:
		s.soon(20*time.Millisecond, func() {
			if s.chance(5) {
				done(w.Drawn(kafka.NoProducer, kafka.CoordinatorNotAvailable))
				return
			}
			s.nextID++
			done(w.Drawn(s.nextID, nil))
		})
	case WriteMarkers:
		left := len(w.Partitions)
		if left == 0 {
			s.soon(20*time.Millisecond, func() { done(w.Done) })
		}
		for _, tp := range w.Partitions {
			s.mark(m, w, tp, func() {
				if left--; left == 0 {
					done(w.Done)
				}
			})
		}
	}
}

// mark has one marker written, however often that takes. Under transactions v2 it may arrive again later.
func (s *sim) mark(m *Machine, w WriteMarkers, tp kafka.TopicPartition, done func()) {
	told := false
	var try func()
	try = func() {
		if s.m != m || told {
			return
		}
		deliver := func() {
			s.partitions[tp.Partition].mark(w, func(err error) {
				if (err == nil || kafka.CodeOf(err) == kafka.InvalidProducerEpoch) && !told {
					told = true
					done()
				}
			})
		}
		s.soon(30*time.Millisecond, func() {
			if s.m == m {
				deliver()
			}
		})
		if w.TransactionVersion >= 2 && s.chance(20) {
			s.soon(3*time.Second, deliver)
		}
		s.after(100*time.Millisecond, try)
	}
	try()
}

// ask sends a request to the coordinator and gives its answer; nothing comes when it goes down.
func (s *sim) ask(r kmsg.Request, got func(coordinator.Answer)) {
	if s.m == nil {
		got(coordinator.Answer{Err: kafka.NotCoordinator})
		return
	}
	p := coordinator.NewPending(coordinator.Call{}, r)
	s.handle(p)
	p.Answer().OnDone(got)
}

// TestSimulation: whatever is delayed, repeated or lost, and whoever crashes when: what a transaction wrote is seen once, on
// all its partitions or on none, as its producer was told, and nothing holds readers back for longer than the transaction's
// timeout and what it takes to recover.
func TestSimulation(t *testing.T) {
	seeds := uint64(160)
	if testing.Short() {
		seeds = 40
	}
	var committed, aborted, unknown, fenced int
	for seed := range seeds {
		s := simulate(t, seed)
		for _, c := range s.clients {
			for _, x := range c.done {
				switch x.outcome {
				case outcomeCommitted:
					committed++
				case outcomeAborted:
					aborted++
				default:
					unknown++
				}
			}
			if c.dead {
				fenced++
			}
		}
	}
	t.Logf("%d transactions committed, %d aborted, %d of unknown outcome; %d producers fenced", committed, aborted, unknown, fenced)
	if committed == 0 || aborted == 0 || unknown == 0 || fenced == 0 {
		t.Error("the simulation is too tame")
	}
}

func simulate(t *testing.T, seed uint64) *sim {
	b := newBench(t)
	s := &sim{t: t, rnd: rand.New(rand.NewPCG(seed, 5)), now: time.UnixMilli(1_000_000), image: b.image, nextID: 100}
	for i := range int32(3) {
		s.partitions = append(s.partitions, &simPartition{s: s, index: i})
	}
	if seed%2 == 0 { // the epochs are about to be used up
		for i := range kafka.ProducerID(3) {
			x := transaction{id: fmt.Sprint("id-", i), producer: coordinator.Stamp{ID: i, Epoch: lastEpoch - kafka.ProducerEpoch(s.rnd.IntN(9))},
				previousID: i, nextID: kafka.NoProducer, timeoutMs: 1000, startMs: -1, updateMs: s.now.UnixMilli()}
			s.log = append(s.log, x.record(true))
		}
	}
	s.start()
	end := s.now.Add(20 * time.Second)
	for i := range 3 {
		s.newClient(fmt.Sprint("id-", i), i != 0, end)
	}
	for s.now.Before(end.Add(30 * time.Second)) {
		if len(s.queue) == 0 {
			break
		}
		e := heap.Pop(&s.queue).(simEvent)
		s.now = e.at
		e.run()
		if s.now.Before(end) {
			s.chaos()
		}
		for _, p := range s.partitions {
			p.checkStable()
		}
	}
	if s.m != nil {
		s.replayed()
	}
	s.check(seed)
	return s
}

// chaos makes trouble once in a while.
func (s *sim) chaos() {
	switch s.rnd.IntN(600) {
	case 0:
		s.crash()
	case 1:
		s.partitions[s.rnd.IntN(len(s.partitions))].crash()
	case 2:
		old := s.clients[s.rnd.IntN(len(s.clients))]
		if !old.dead && len(s.clients) < 12 {
			s.note("another %s", old.id)
			s.newClient(old.id, old.v2, old.end)
		}
	}
}

// check compares what readers see with what producers were told.
func (s *sim) check(seed uint64) {
	s.t.Helper()
	var seen [][]string
	for _, p := range s.partitions {
		if p.stable() != kafka.Offset(len(p.log)) {
			s.fatal("seed %d: partition %d is stable up to %d of %d only", seed, p.index, p.stable(), len(p.log))
		}
		seen = append(seen, p.committed())
	}
	for _, c := range s.clients {
		for _, x := range append(c.done, c.open()...) {
			var on, missing []int32
			for _, p := range x.wrote {
				switch n := count(seen[p], x.value); n {
				case 0:
					missing = append(missing, p)
				case 1:
					on = append(on, p)
				default:
					s.fatal("seed %d: %s is seen %d times on %d", seed, x.value, n, p)
				}
			}
			switch {
			case x.outcome == outcomeCommitted && len(missing) > 0:
				s.fatal("seed %d: %s was committed and is missing on %v", seed, x.value, missing)
			case x.outcome == outcomeAborted && len(on) > 0:
				s.fatal("seed %d: %s was aborted and is seen on %v", seed, x.value, on)
			case len(on) > 0 && len(missing) > 0:
				s.fatal("seed %d: %s is seen on %v but not on %v", seed, x.value, on, missing)
			}
		}
	}
}

func count(values []string, v string) int {
	n := 0
	for range slices.Values(values) {
		i := slices.Index(values, v)
		if i < 0 {
			return n
		}
		n++
		values = values[i+1:]
	}
	return n
}
