package log

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// Origin says who wrote a batch, and so how much of it is checked.
type Origin int8

// The origins. Replication also stands for recovery: what a log or a leader says is a fact and never refused.
const (
	FromReplication Origin = iota
	FromClient             // a Produce request: epoch, sequence and transaction are checked
	FromCoordinator        // offsets and markers: no sequences, the epoch is checked
)

// ProducerCheck is what Check needs to know beside the batch.
type ProducerCheck struct {
	Origin Origin
	// RequireFirstSequence: the batch belongs to a producer on transactions v2, of whom a partition that
	// remembers no batch must see sequence 0 first (KIP-890). Plain idempotent producers may start anywhere,
	// as their state may have expired or been deleted with the data.
	RequireFirstSequence bool
	// TransactionVersion of the coordinator that wrote a marker: from 2 on, each transaction has a new epoch.
	TransactionVersion int16
	// RefuseNew: the broker's limit on producer ids is reached. A client's batch of an id that is not known
	// here gets PolicyViolation; known ids are never affected.
	RefuseNew bool
}

// Verdict is Check's answer on a batch that may be appended or was appended before.
type Verdict struct {
	Duplicate   bool
	First, Last kafka.Offset // of the original, when Duplicate
	TimestampMs int64        // max timestamp of the original, when Duplicate
}

// Check judges one batch against what its producer wrote before. A batch that is remembered with the same
// epoch and the same first and last sequence is a duplicate, answered with its original place and not to be
// appended. Errors:
//
//	InvalidProducerEpoch          the epoch is older than the known one
//	OutOfOrderSequenceNumber      a gap, a batch older than the window, or a new epoch that starts above 0
//	InvalidTxnState               a plain batch while the producer's transaction is open
//	TransactionCoordinatorFenced  a marker of an older coordinator
//	PolicyViolation               see ProducerCheck.RefuseNew
//	InvalidRecord                 a batch with producer id but no sequence, or an unreadable control batch
//
// It changes nothing; a batch must be followed by its Update before the next one is checked.
func (p *Producers) Check(b record.Batch, c ProducerCheck) (Verdict, error) {
	if !b.HasProducer() {
		return Verdict{}, nil
	}
	s := p.byID[b.ProducerID()]
	if b.IsControl() {
		return Verdict{}, s.checkMarker(b, c)
	}
	if c.Origin == FromReplication {
		return Verdict{}, nil
	}
	if c.Origin == FromClient && b.BaseSequence() < 0 {
		return Verdict{}, kafka.Errorf(kafka.InvalidRecord, "producer %d sent no sequence", b.ProducerID())
	}
	if s == nil {
		return Verdict{}, checkUnknown(b, c)
	}
	if c.Origin == FromClient && s.epoch == b.ProducerEpoch() {
		if d, ok := s.find(b.BaseSequence(), b.LastSequence()); ok {
			first := d.lastOffset - kafka.Offset(d.delta)
			return Verdict{Duplicate: true, First: first, Last: d.lastOffset, TimestampMs: d.timestamp}, nil
		}
	}
	return Verdict{}, s.checkData(b, c)
}

// checkUnknown judges a client's first batch of an id that is not known here.
func checkUnknown(b record.Batch, c ProducerCheck) error {
	if c.RefuseNew {
		return kafka.Errorf(kafka.PolicyViolation, "too many producer ids: %d is refused", b.ProducerID())
	}
	if c.Origin == FromClient && c.RequireFirstSequence && b.BaseSequence() != 0 {
		return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
			"transactional producer %d starts at sequence %d, but nothing is known of it here",
			b.ProducerID(), b.BaseSequence())
	}
	return nil
}

func (s *producer) checkData(b record.Batch, c ProducerCheck) error {
	if b.ProducerEpoch() < s.epoch {
		return kafka.Errorf(kafka.InvalidProducerEpoch, "producer %d has epoch %d, the batch %d",
			b.ProducerID(), s.epoch, b.ProducerEpoch())
	}
	if c.Origin == FromClient {
		if err := s.checkSequence(b); err != nil {
			return err
		}
	}
	if s.txnFirst != kafka.NoOffset && !b.IsTransactional() {
		return kafka.Errorf(kafka.InvalidTxnState, "producer %d has a transaction open since offset %d",
			b.ProducerID(), s.txnFirst)
	}
	return nil
}

// checkSequence demands the sequence after the last one, and 0 after a change of epoch, after a marker that
// changed the epoch, and after 2147483647.
func (s *producer) checkSequence(b record.Batch) error {
	if s.epoch == kafka.NoProducerEpoch {
		return nil // only a foreign snapshot can say that; it knows nothing
	}
	want := int32(0)
	if s.epoch == b.ProducerEpoch() {
		want = record.AddSequence(s.last().lastSeq, 1)
	}
	if b.BaseSequence() == want {
		return nil
	}
	return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
		"producer %d sent sequence %d in epoch %d, expected %d",
		b.ProducerID(), b.BaseSequence(), b.ProducerEpoch(), want)
}

// checkMarker judges a control batch. s is nil for an unknown producer, of whom any marker is taken.
func (s *producer) checkMarker(b record.Batch, c ProducerCheck) error {
	m, err := parseMarker(b)
	if err != nil {
		return err
	}
	if m.kind == markerNone || s == nil || c.Origin == FromReplication {
		return nil
	}
	if s.markerEpochTooOld(b.ProducerEpoch(), c.TransactionVersion) {
		return kafka.Errorf(kafka.InvalidProducerEpoch, "marker for producer %d has epoch %d, known is %d",
			b.ProducerID(), b.ProducerEpoch(), s.epoch)
	}
	if m.coordinatorEpoch < s.coordinatorEpoch {
		return kafka.Errorf(kafka.TransactionCoordinatorFenced,
			"marker for producer %d is of coordinator epoch %d, known is %d",
			b.ProducerID(), m.coordinatorEpoch, s.coordinatorEpoch)
	}
	return nil
}

// lastProducerEpoch is the highest epoch a producer id can have; its last transaction ends in it, so a marker
// cannot carry a higher one.
const lastProducerEpoch kafka.ProducerEpoch = 32767

// markerEpochTooOld: before transactions v2 a marker carries the producer's epoch or a higher one (fencing).
// Under v2 the epoch rises before the marker is written, so an equal one can only be a marker sent twice,
// which finds no open transaction: with one open, it is a late marker that would end the wrong transaction
// (KIP-890).
func (s *producer) markerEpochTooOld(epoch kafka.ProducerEpoch, version int16) bool {
	if version < 2 || epoch != s.epoch {
		return epoch < s.epoch
	}
	return s.txnFirst != kafka.NoOffset && epoch != lastProducerEpoch
}
