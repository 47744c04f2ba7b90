package node

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// How long a marker that could not be written waits before it is tried again: twice as long every time.
const (
	firstMarkerRetry = 20 * time.Millisecond
	lastMarkerRetry  = time.Second
)

// markerTriesTold is after how many tries the operator hears of it: some five seconds.
const markerTriesTold = 10

// markers writes the markers of decided transactions to their partitions, on one goroutine: appends must not run on the
// one that has just synced the decision.
type markers struct {
	n *Node

	mu      sync.Mutex
	queue   []*marking
	active  map[string]*marking // by transactional id, until all its markers are written
	running bool
	closed  bool
}

func newMarkers(n *Node) *markers { return &markers{n: n, active: map[string]*marking{}} }

// marking is one transaction whose markers are being written.
type marking struct {
	m     *markers
	work  txn.WriteMarkers
	alive func() bool
	done  func(coordinator.Event)
	tries int
	left  []kafka.TopicPartition // still without a marker

	awaited atomic.Int32 // answers
	mu      sync.Mutex
	again   []kafka.TopicPartition
	missing map[kafka.TopicPartition]error // partitions without marker, and why the last try failed
}

func newMarking(m *markers, w txn.WriteMarkers, alive func() bool, done func(coordinator.Event)) *marking {
	x := &marking{m: m, work: w, alive: alive, done: done, left: w.Partitions,
		missing: make(map[kafka.TopicPartition]error, len(w.Partitions))}
	for _, tp := range w.Partitions {
		x.missing[tp] = nil
	}
	return x
}

// add queues a transaction. It never blocks.
func (m *markers) add(x *marking) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.queue = append(m.queue, x)
	m.active[x.work.TransactionalID] = x
	if !m.running {
		m.running = true
		m.n.loops.Go(m.run)
	}
}

func (m *markers) run() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 || m.closed {
			m.running = false
			m.mu.Unlock()
			return
		}
		round := m.queue
		m.queue = nil
		m.mu.Unlock()
		var away letters
		for _, x := range round {
			x.write(&away)
		}
		away.send(m.n.coordinators.peers)
	}
}

// close gives up what is queued: the next coordinator finds it in its log.
func (m *markers) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.queue = true, nil
}

// write writes a marker to every partition that has none; what other brokers lead is put into letters to them. The last
// answer decides what follows.
func (x *marking) write(away *letters) {
	if !x.alive() {
		x.m.ended(x)
		return
	}
	left := x.left
	x.again = nil
	x.awaited.Store(int32(len(left)) + 1)
	for _, tp := range left {
		if to, ok := x.m.n.coordinators.peers.leader(tp); ok {
			away.add(to, x, tp)
			continue
		}
		marker := coordinator.Marker{Partition: tp.Partition, Producer: x.work.Producer, Commit: x.work.Commit,
			CoordinatorEpoch: x.work.CoordinatorEpoch, TransactionVersion: x.work.TransactionVersion}
		x.m.n.writeMarker(tp, marker).OnDone(func(err error) { x.told(tp, err) })
	}
	x.answered()
}

// told takes the answer of one partition.
func (x *marking) told(tp kafka.TopicPartition, err error) {
	owes := err != nil && x.owes(tp, err)
	x.mu.Lock()
	if owes {
		x.again = append(x.again, tp)
		x.missing[tp] = err
	} else {
		delete(x.missing, tp)
	}
	x.mu.Unlock()
	x.answered()
}

// owes says whether a partition that refused a marker must still get it.
func (x *marking) owes(tp kafka.TopicPartition, err error) bool {
	if errors.Is(err, kafka.InvalidProducerEpoch) {
		x.m.n.log.Warn("a transaction marker is too late for its partition", "partition", tp.String(),
			"transactionalId", x.work.TransactionalID, "producerId", x.work.Producer.ID, "error", err)
	}
	return x.work.Owes(err, func() bool {
		_, ok := x.m.n.publisher.Image().Partition(tp)
		return ok
	})
}

func (x *marking) answered() {
	if x.awaited.Add(-1) > 0 {
		return
	}
	x.mu.Lock()
	x.left = x.again
	x.mu.Unlock()
	if len(x.left) == 0 {
		x.m.ended(x)
		x.done(x.work.Done)
		return
	}
	slices.SortFunc(x.left, func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	wait := min(firstMarkerRetry<<min(x.tries, 10), lastMarkerRetry)
	if x.tries++; x.tries == markerTriesTold {
		x.m.n.log.Warn("a transaction cannot be completed; it is tried on", "transactionalId", x.work.TransactionalID,
			"partitions", len(x.left), "first", x.left[0].String(), "error", x.missing[x.left[0]])
	}
	x.m.n.after(wait, func() { x.m.add(x) })
}

// ended forgets a transaction that needs no more markers of this coordinator.
func (m *markers) ended(x *marking) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id := x.work.TransactionalID; m.active[id] == x {
		delete(m.active, id)
	}
}

// missingOf are the partitions that the marker of an id's transaction is yet to be written to, with the reason where the
// last try failed.
func (m *markers) missingOf(id string) map[kafka.TopicPartition]error {
	m.mu.Lock()
	x := m.active[id]
	m.mu.Unlock()
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.missing)
}

// markerWaiter waits until a marker is committed.
type markerWaiter struct {
	replica.AppendWaiter
	done promise.Promise[error]
}

// writeMarker ends a producer's transaction on a partition that this node leads. On one of __consumer_offsets the group
// coordinator does it, so that offsets count with the marker. The errors are those of replica.Partition.Append.
func (n *Node) writeMarker(tp kafka.TopicPartition, m coordinator.Marker) *promise.Promise[error] {
	if tp.Topic == kafka.OffsetsTopic {
		return promise.Map(n.coordinators.groups.EndTransaction(m), leadershipError)
	}
	p, err := n.manager.Get(tp)
	if err != nil {
		return promise.Done(err)
	}
	now := n.o.Now()
	batch, err := record.MarkerBatch(m.Producer.ID, m.Producer.Epoch,
		record.EndTxnMarker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}, now.UnixMilli())
	if err != nil {
		return promise.Done(err)
	}
	w := &markerWaiter{}
	w.Done = func(*replica.AppendWaiter) { w.done.Set(w.Result.Err) }
	e, err := p.Append(now, replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromCoordinator, TransactionVersion: m.TransactionVersion}}, &w.AppendWaiter)
	e.Run(n)
	if err != nil {
		return promise.Done(err)
	}
	return &w.done
}

// leadershipError tells a transaction coordinator, which knows partitions only, what a group coordinator says.
func leadershipError(err error) error {
	switch kafka.CodeOf(err) {
	case kafka.NotCoordinator, kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable:
		return kafka.NotLeaderOrFollower
	}
	return err
}
