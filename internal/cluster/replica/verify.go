package replica

import (
	"slices"
	"strings"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// Verification says what the transaction coordinator has to do with a transactional batch that would begin its
// transaction on this partition (KIP-890). A batch of a transaction that is open here needs nothing.
type Verification int8

// The kinds of verification.
const (
	// Unverified refuses such a batch: there is nobody to ask.
	Unverified Verification = iota
	// VerifyOnly asks whether the partition is in the producer's open transaction.
	VerifyOnly
	// VerifyAndAdd adds the partition to it: clients of transactions v2 leave that to the broker.
	VerifyAndAdd
	// Trusted takes the batch at its word (transaction.partition.verification.enable=false).
	Trusted
)

// TxnCheck is a question for a transaction coordinator: may this producer write to this partition in its transaction?
type TxnCheck struct {
	Partition       kafka.TopicPartition
	TransactionalID string
	Producer        kafka.ProducerID
	Epoch           kafka.ProducerEpoch
	Add             bool
	// Guard names the question: once a marker of the producer was appended, an answer to it is worth nothing. Never 0.
	Guard uint64
}

// VerificationError is the coordinator's word, or why there is none, that refused a held append: not the log's.
type VerificationError struct{ Cause error }

// Error gives the cause's text.
func (e *VerificationError) Error() string { return e.Cause.Error() }

// Unwrap lets errors.Is find the coordinator's code.
func (e *VerificationError) Unwrap() error { return e.Cause }

// verification is a producer's wait for its coordinator's word.
type verification struct {
	check TxnCheck
	asked bool // by Effects; Verified follows
	held  []heldAppend
	users int // who asks by themselves
}

// heldAppend is a batch that waits for it. Its bytes stay the caller's, who is told when they are not needed any more.
type heldAppend struct {
	r AppendRequest
	w *AppendWaiter
}

// opens says whether a batch would begin a transaction here. Clients' and coordinators' batches alike need the word of
// the transaction's coordinator then.
func (p *Partition) opens(r *AppendRequest) bool {
	return r.Producer.Origin != log.FromReplication && r.Batch.IsTransactional() && !r.Batch.IsControl() &&
		!p.log.HasOpenTxn(r.Batch.ProducerID(), r.Batch.ProducerEpoch())
}

// guarded says why a batch that begins a transaction may not be appended at once. hold: it may wait for the coordinator.
func (p *Partition) guarded(r *AppendRequest, w *AppendWaiter) (hold bool, err error) {
	if r.Verify == Trusted || flaw.In(flaw.Unverified) {
		return false, nil
	}
	if r.Guard != 0 {
		for _, v := range p.unverified[r.Batch.ProducerID()] {
			if v.check.Guard == r.Guard && v.check.Epoch == r.Batch.ProducerEpoch() {
				return false, nil
			}
		}
	} else if r.Verify != Unverified && w.Resumed != nil {
		return true, nil
	}
	return false, kafka.Errorf(kafka.InvalidTxnState, "producer %d has no transaction open on %s", r.Batch.ProducerID(), p.tp)
}

func (p *Partition) verificationOf(id kafka.ProducerID, epoch kafka.ProducerEpoch, add bool) *verification {
	for _, v := range p.unverified[id] {
		if v.check.Epoch == epoch && v.check.Add == add {
			return v
		}
	}
	return nil
}

// verification gives the producer's verification, begun now if there is none.
func (p *Partition) verification(c TxnCheck) *verification {
	if v := p.verificationOf(c.Producer, c.Epoch, c.Add); v != nil {
		return v
	}
	p.guards++
	c.Partition, c.Guard, c.TransactionalID = p.tp, p.guards, strings.Clone(c.TransactionalID)
	v := &verification{check: c}
	if p.unverified == nil {
		p.unverified = map[kafka.ProducerID][]*verification{}
	}
	p.unverified[c.Producer] = append(p.unverified[c.Producer], v)
	return v
}

// hold keeps a batch until Verified; what the same producer sends meanwhile queues behind it.
func (p *Partition) hold(r AppendRequest, w *AppendWaiter, e *Effects) {
	v := p.verification(TxnCheck{TransactionalID: r.TransactionalID, Producer: r.Batch.ProducerID(),
		Epoch: r.Batch.ProducerEpoch(), Add: r.Verify == VerifyAndAdd})
	v.held = append(v.held, heldAppend{r, w})
	w.holder = v
	e.p, e.held = p, true
	if !v.asked {
		v.asked = true
		check := v.check
		e.verify = &check
	}
}

// StartVerification begins a verification on behalf of a group coordinator, which asks by itself and then appends with the
// guard of the check that is returned; StopVerification follows. Nothing needs to be asked (false) while the producer's
// transaction is open here.
//
// Errors: NotLeaderOrFollower, KafkaStorageError.
func (p *Partition) StartVerification(c TxnCheck) (TxnCheck, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustLead(); err != nil {
		return c, false, err
	}
	if p.log.HasOpenTxn(c.Producer, c.Epoch) {
		return c, false, nil
	}
	v := p.verification(c)
	v.users++
	return v.check, true, nil
}

// StopVerification ends what StartVerification began, whatever came of it: the guard is worth nothing any more.
func (p *Partition) StopVerification(c TxnCheck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.unverified[c.Producer] {
		if v.check.Guard != c.Guard {
			continue
		}
		if v.users--; v.users == 0 && len(v.held) == 0 {
			p.endVerification(v)
		}
		return
	}
}

// Verified brings the coordinator's word on a check that Effects handed to the host: nil, or why not. Batches that waited
// are appended in the order of their sequences, or refused with a VerificationError. When a marker of the producer came in between the
// word may be of the transaction that it ended, and the check is handed out anew.
func (p *Partition) Verified(now time.Time, c TxnCheck, err error) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	v := p.verificationOf(c.Producer, c.Epoch, c.Add)
	if v == nil || !v.asked {
		return e // nobody waits any more
	}
	if v.check.Guard != c.Guard {
		check := v.check
		e.verify = &check
		return e
	}
	p.endVerification(v)
	slices.SortStableFunc(v.held, func(a, b heldAppend) int {
		return sequenceOrder(a.r.Batch.BaseSequence(), b.r.Batch.BaseSequence())
	})
	for _, h := range v.held {
		var refused error
		if err != nil {
			refused = &VerificationError{err}
		} else if refused = p.admit(&h.r); refused == nil {
			refused = p.append(now, h.r, h.w, &e)
		}
		e.resume(h.w, refused)
	}
	return e
}

// sequenceOrder compares sequences that lie near each other, on the circle from 0 to 2147483647.
func sequenceOrder(a, b int32) int {
	switch ahead := record.AddSequence(b, -a); {
	case a == b:
		return 0
	case ahead < 1<<30:
		return -1
	}
	return 1
}

func (p *Partition) endVerification(v *verification) {
	id := v.check.Producer
	rest := slices.DeleteFunc(p.unverified[id], func(x *verification) bool { return x == v })
	if len(rest) == 0 {
		delete(p.unverified, id)
	} else {
		p.unverified[id] = rest
	}
}

// settleVerification keeps the verifications true to what was appended: an open transaction needs none, and a marker makes answers
// to questions from before it worthless.
func (p *Partition) settleVerification(b record.Batch) {
	if len(p.unverified) == 0 || !b.IsTransactional() {
		return
	}
	for _, v := range slices.Clone(p.unverified[b.ProducerID()]) {
		switch {
		case len(v.held) > 0 && b.IsControl():
			p.guards++
			v.check.Guard = p.guards
		case len(v.held) == 0 && (b.IsControl() || v.check.Epoch == b.ProducerEpoch()):
			p.endVerification(v)
		}
	}
}

// release takes a held append out of its queue; false when it is not held.
func (p *Partition) release(w *AppendWaiter) bool {
	v := w.holder
	if v == nil {
		return false
	}
	w.holder = nil
	v.held = slices.DeleteFunc(v.held, func(h heldAppend) bool { return h.w == w })
	return true
}

// refuseHeld refuses all that waits for a coordinator's word, because this node does not lead any more.
func (p *Partition) refuseHeld(e *Effects, cause kafka.Code) {
	for _, all := range p.unverified { // each is of another producer; the order does not show
		for _, v := range all {
			for _, h := range v.held {
				e.resume(h.w, cause)
			}
		}
	}
	p.unverified = nil
}
