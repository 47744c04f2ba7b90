package txn

import (
	"cmp"
	"math"
	"slices"

	"moldau/internal/coordinator"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// State is where a transactional id stands. The values are those of the records.
type State int8

// The states that are ever written. Kafka's Dead and PrepareEpochFence live in its memory only; here a fence and the abort
// that follows are one step, and a dead id is one that is gone.
const (
	Empty State = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

// String is the name that DescribeTransactions and ListTransactions show.
func (s State) String() string { return stateNames[s] }

// preparing says that the outcome is decided and the markers are under way.
func (s State) preparing() bool { return s == PrepareCommit || s == PrepareAbort }

// idle says that no transaction is open or completing.
func (s State) idle() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }

// transaction is what the log knows of one transactional id. It is a value: a transition makes a changed copy, whose record
// is appended and applied.
type transaction struct {
	id       string
	producer coordinator.Stamp
	// previousID is the producer id before the last transition; nextID takes over, with epoch 0, when the transaction
	// that is being completed has used the last epoch.
	previousID, nextID kafka.ProducerID
	timeoutMs          int32
	state              State
	partitions         []kafka.TopicPartition // sorted
	startMs, updateMs  int64                  // -1: no transaction was begun
	// version is the transaction protocol of the client that began the transaction: 2 bumps the epoch with each (KIP-890).
	version int16
}

// lastEpoch is the highest epoch that a client is ever given: the one above is needed for the markers of its last
// transaction.
const lastEpoch kafka.ProducerEpoch = math.MaxInt16 - 1

// exhausted says that the producer id has no epoch left to give.
func (t *transaction) exhausted() bool { return t.producer.Epoch >= lastEpoch }

// holds says whether all the partitions are in the transaction.
func (t *transaction) holds(tps []kafka.TopicPartition) bool {
	for _, tp := range tps {
		if _, ok := slices.BinarySearchFunc(t.partitions, tp, comparePartitions); !ok {
			return false
		}
	}
	return true
}

func comparePartitions(a, b kafka.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// with gives the transaction with more partitions, begun at nowMs if none was open.
func (t transaction) with(tps []kafka.TopicPartition, version int16, nowMs int64) transaction {
	if t.state != Ongoing {
		t.partitions, t.startMs, t.state = nil, nowMs, Ongoing
	}
	t.partitions = append(slices.Clone(t.partitions), tps...)
	slices.SortFunc(t.partitions, comparePartitions)
	t.partitions = slices.Compact(t.partitions)
	t.previousID, t.version, t.updateMs = t.producer.ID, version, nowMs
	return t
}

// prepared gives the transaction with its outcome decided. Under version 2 the epoch is bumped here, so that the markers
// carry the new one and whatever the producer sent before is fenced by them; at the last epoch nextID must be given.
func (t transaction) prepared(commit bool, version int16, nextID kafka.ProducerID, nowMs int64) transaction {
	if t.state != Ongoing {
		t.partitions, t.startMs = nil, nowMs
	}
	t.state = PrepareAbort
	if commit {
		t.state = PrepareCommit
	}
	if version >= 2 && !flaw.In(flaw.EpochKept) {
		t.producer.Epoch++
	}
	t.previousID, t.version, t.nextID, t.updateMs = t.producer.ID, version, nextID, nowMs
	return t
}

// fenced gives the transaction aborted by the coordinator: no epoch that a client holds is valid any more. level is what
// the cluster has finalized as transaction.version, whichever protocol the client spoke; nextID is as for prepared.
func (t transaction) fenced(level int16, nextID kafka.ProducerID, nowMs int64) transaction {
	version := int16(2)
	if level < 2 {
		version = 0
		t.producer.Epoch++
	}
	return t.prepared(false, version, nextID, nowMs)
}

// completed gives the transaction after all its markers were written.
func (t transaction) completed(nowMs int64) transaction {
	t.state += CompleteCommit - PrepareCommit // PrepareAbort to CompleteAbort likewise
	t.previousID, t.partitions, t.updateMs = t.producer.ID, nil, nowMs
	if t.nextID != kafka.NoProducer {
		t.producer = coordinator.Stamp{ID: t.nextID}
		t.nextID = kafka.NoProducer
	}
	return t
}

// awaits says that p is who goes on after the transaction that is being completed: it was told its next epoch already, and
// only has to wait for the markers. So has everybody with the producer id that takes over: whose epoch is right shows then.
func (t *transaction) awaits(p coordinator.Stamp) bool {
	return t.state.preparing() && (p == t.successor() || t.nextID != kafka.NoProducer && p.ID == t.nextID)
}

// successor is the producer that the client goes on with after the transaction that is being, or was, completed.
func (t *transaction) successor() coordinator.Stamp {
	if t.nextID != kafka.NoProducer {
		return coordinator.Stamp{ID: t.nextID}
	}
	return t.producer
}
