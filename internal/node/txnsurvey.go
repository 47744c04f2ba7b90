package node

import (
	"context"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/kafka"
	"moldau/internal/telemetry"
)

const (
	// txnSurveyEvery is how often open transactions are looked over.
	txnSurveyEvery = 10 * time.Second
	// lateAfter is how long after the longest timeout a coordinator has surely ended a transaction, if it knows of it.
	lateAfter = 5 * time.Minute
	// askAfter is how long a transaction may be open before coordinators on other brokers are asked about it.
	askAfter = time.Minute
)

// txnSurvey looks over the open transactions of this node, for metrics, and tells the log of those that hang.
type txnSurvey struct {
	n       *Node
	metrics telemetry.Transactions
	late    time.Duration
	seen    map[openKey]*seenOpen // those that were not known to be ended by a coordinator, by the last look
}

// openKey names a transaction on a partition.
type openKey struct {
	partition kafka.TopicPartition
	producer  kafka.ProducerID
	start     kafka.Offset
}

func (o openHere) key() openKey {
	return openKey{o.p.TopicPartition(), o.info.ProducerID, o.info.TxnStart}
}

// seenOpen is since when a transaction has had no coordinator that is known.
type seenOpen struct {
	first time.Time
	told  bool
}

func newTxnSurvey(n *Node) *txnSurvey {
	longest := time.Duration(n.config.Int64("transaction.max.timeout.ms")) * time.Millisecond
	return &txnSurvey{n: n, metrics: telemetry.NewTransactions(n.o.Metrics), late: longest + lateAfter, seen: map[openKey]*seenOpen{}}
}

// compute renews the metrics.
func (s *txnSurvey) compute(now time.Time) {
	s.coordinated(now)
	s.partitions(now)
}

// coordinated looks at the transactions of the coordinators here.
func (s *txnSurvey) coordinated(now time.Time) {
	var ids, ongoing, committing, aborting int64
	oldest := now
	s.n.coordinators.txns.InspectAll(func(_ int32, m coordinator.Machine) {
		machine := m.(*txn.Machine)
		ids += int64(machine.Len())
		for e := range machine.Open() {
			switch {
			case !e.Deciding():
				ongoing++
			case e.Commit():
				committing++
			default:
				aborting++
			}
			if e.Began.Before(oldest) {
				oldest = e.Began
			}
		}
	})
	s.metrics.IDs.Set(ids)
	s.metrics.Ongoing.Set(ongoing)
	s.metrics.Committing.Set(committing)
	s.metrics.Aborting.Set(aborting)
	s.metrics.OldestSeconds.SetSeconds(now.Sub(oldest))
}

// partitions looks at the transactions that are open on the partitions led here.
func (s *txnSurvey) partitions(now time.Time) {
	open, verdicts := s.n.openTransactions(s.n.manager.All())
	s.n.askElsewhere(context.Background(), open, verdicts, func(o openHere) bool {
		x := s.seen[o.key()]
		return x != nil && now.Sub(x.first) >= askAfter
	})
	var hanging, lag int64
	seen := map[openKey]*seenOpen{}
	for i, o := range open {
		lag = max(lag, int64(o.p.HighWatermark()-max(o.info.TxnStart, o.p.Log().View().Start)))
		if verdicts[i] == ends {
			continue
		}
		key := o.key()
		x := s.seen[key]
		if x == nil {
			x = &seenOpen{first: now}
		}
		seen[key] = x
		if verdicts[i] == hangs || now.Sub(x.first) >= s.late {
			hanging++
			s.tell(key, x, o)
		}
	}
	s.seen = seen
	s.metrics.Partitions.Set(int64(len(open)))
	s.metrics.Hanging.Set(hanging)
	s.metrics.LastStableLag.Set(lag)
}

// tell puts a transaction that hangs into the log, once.
func (s *txnSurvey) tell(key openKey, x *seenOpen, o openHere) {
	if x.told {
		return
	}
	x.told = true
	s.n.log.Warn("a transaction hangs: no coordinator will end it, and read_committed consumers wait; moldau txn abort ends it",
		"partition", key.partition.String(), "startOffset", key.start, "producerId", key.producer, "producerEpoch", o.info.Epoch)
}
