package txn

import (
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// ending is who decided the outcome of an id's last transaction. Only the coordinator that was there knows.
type ending uint8

const (
	unknownEnding ending = iota
	endedByProducer
	endedByTimeout
	endedByFence // a new producer took the id over
)

var endingNames = [...]string{"", "producer", "timeout", "fenced"}

// Explanation is what a coordinator knows of a transactional id.
type Explanation struct {
	TransactionalID string
	State           State
	Producer        coordinator.Stamp
	Timeout         time.Duration
	Began           time.Time // of the open transaction; zero without one
	Updated         time.Time // of the last transition
	Partitions      []kafka.TopicPartition
	// Ended is who decided the outcome of the last transaction: producer, timeout, or fenced when a new producer took the
	// id over; "" when this coordinator was not there.
	Ended string
	// Parked are the requests that wait for the end of the transaction.
	Parked int
}

// Open says that a transaction has begun and not all its markers are known to be written.
func (e Explanation) Open() bool { return !e.State.idle() }

// Deciding says that the outcome of the transaction is decided and its markers are under way.
func (e Explanation) Deciding() bool { return e.State.preparing() }

// Commit says that the transaction is, or was, to be committed.
func (e Explanation) Commit() bool { return e.State == PrepareCommit || e.State == CompleteCommit }

// Holds says whether a partition is in the open transaction.
func (e Explanation) Holds(tp kafka.TopicPartition) bool {
	_, ok := slices.BinarySearchFunc(e.Partitions, tp, comparePartitions)
	return ok && e.Open()
}

// Explain tells what is known of a transactional id.
func (m *Machine) Explain(id string) (Explanation, bool) {
	e := m.ids[id]
	if e == nil {
		return Explanation{}, false
	}
	return e.explain(), true
}

// Len is the number of transactional ids.
func (m *Machine) Len() int { return len(m.ids) }

// Open gives the ids with an open transaction, in order.
func (m *Machine) Open() iter.Seq[Explanation] {
	return m.which(func(e *entry) bool { return !e.state.idle() })
}

// Owners gives the ids whose producer id is wanted, in order.
func (m *Machine) Owners(wanted func(kafka.ProducerID) bool) iter.Seq[Explanation] {
	return m.which(func(e *entry) bool { return wanted(e.producer.ID) })
}

func (m *Machine) which(wanted func(*entry) bool) iter.Seq[Explanation] {
	return func(yield func(Explanation) bool) {
		var ids []string
		for id, e := range m.ids {
			if wanted(e) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			if !yield(m.ids[id].explain()) {
				return
			}
		}
	}
}

func (e *entry) explain() Explanation {
	out := Explanation{TransactionalID: e.id, State: e.state, Producer: e.producer, Updated: time.UnixMilli(e.updateMs),
		Timeout: time.Duration(e.timeoutMs) * time.Millisecond, Partitions: slices.Clone(e.partitions),
		Ended: endingNames[e.ended], Parked: len(e.parked)}
	if !e.state.idle() {
		out.Began = time.UnixMilli(e.startMs)
	}
	return out
}

// Described reads what a coordinator on another broker tells of an id (DescribeTransactions). It is false when that says
// nothing: an error, or a state that is none of an id that lives.
func Described(d *kmsg.DescribeTransactionsResponseTransactionState) (Explanation, bool) {
	name := d.State
	if name == "PrepareEpochFence" { // Kafka's own: on the way to PrepareAbort
		name = PrepareAbort.String()
	}
	at := slices.Index(stateNames[:], name)
	if d.ErrorCode != 0 || at < 0 {
		return Explanation{}, false
	}
	out := Explanation{TransactionalID: d.TransactionalID, State: State(at), Timeout: time.Duration(d.TimeoutMillis) * time.Millisecond,
		Producer: coordinator.Stamp{ID: kafka.ProducerID(d.ProducerID), Epoch: kafka.ProducerEpoch(d.ProducerEpoch)}}
	if out.Open() {
		out.Began = time.UnixMilli(d.StartTimestamp)
	}
	for _, t := range d.Topics {
		for _, i := range t.Partitions {
			out.Partitions = append(out.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: i})
		}
	}
	slices.SortFunc(out.Partitions, comparePartitions)
	return out, true
}
