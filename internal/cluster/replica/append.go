package replica

import (
	"errors"
	"io"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// Acks says whom an append waits for.
type Acks int16

// The values of the protocol.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// AppendRequest is one batch for a partition that this node leads.
type AppendRequest struct {
	// Batch has passed record validation for this partition's topic. It is stamped in place.
	Batch record.Batch
	Acks  Acks
	// LeaderEpoch that the sender expects, NoEpoch for any.
	LeaderEpoch kafka.LeaderEpoch
	// Producer says who sent it. RefuseNew is filled in here.
	Producer log.ProducerCheck
}

// Append appends a batch as leader. On success w is completed through Effects when the acknowledgement that Acks asks for
// is due: at once for AcksNone, after this node's disk for AcksLeader, at the high watermark for AcksAll. An error means
// that nothing was appended and w was not taken.
//
// Errors: NotLeaderOrFollower; FencedLeaderEpoch, UnknownLeaderEpoch; NotEnoughReplicas when AcksAll meets an in-sync set
// below min.insync.replicas; KafkaStorageError; InvalidTxnState for a client's transactional batch of a transaction that
// is not open here; those of log.Append.
func (p *Partition) Append(now time.Time, r AppendRequest, w *AppendWaiter) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.admit(r); err != nil {
		return Effects{}, err
	}
	if p.limits.RefuseNewProducers != nil && r.Batch.HasProducer() {
		r.Producer.RefuseNew = p.limits.RefuseNewProducers()
	}
	wasDurable := p.log.View().Durable == p.log.View().End
	done, err := p.log.Append(r.Batch, log.Stamp{Assign: true, LeaderEpoch: p.leaderEpoch, Producer: r.Producer}, now)
	e := Effects{p: p}
	if err != nil {
		p.judge(err, &e)
		return e, err
	}
	w.Result = AppendResult{First: done.First, LogAppendTimeMs: done.LogAppendTimeMs, LogStart: done.LogStart,
		Duplicate: done.Duplicate}
	w.required = done.Last + 1
	p.enqueue(w, r.Acks)
	if wasDurable {
		p.flushFrom = now
	}
	e.flush = p.wantsFlush(now) || done.Rolled
	p.settle(now, &e)
	if r.Acks == AcksNone {
		e.done(w, nil)
	}
	return e, nil
}

// admit says why a batch is not taken.
func (p *Partition) admit(r AppendRequest) error {
	if err := p.mustLead(); err != nil {
		return err
	}
	if err := p.checkEpoch(r.LeaderEpoch); err != nil {
		return err
	}
	if r.Acks == AcksAll && len(p.isr) < p.minISR() {
		return kafka.Errorf(kafka.NotEnoughReplicas, "the in-sync set of %s has %d members, min.insync.replicas is %d",
			p.tp, len(p.isr), p.minISR())
	}
	if r.Producer.Origin == log.FromClient && r.Batch.IsTransactional() && !r.Batch.IsControl() &&
		!p.log.HasOpenTxn(r.Batch.ProducerID(), r.Batch.ProducerEpoch()) {
		// No coordinator has said that this partition belongs to an open transaction (KIP-890).
		return kafka.Errorf(kafka.InvalidTxnState, "producer %d has no transaction open on %s", r.Batch.ProducerID(), p.tp)
	}
	return nil
}

func (p *Partition) checkEpoch(wanted kafka.LeaderEpoch) error {
	return compareEpoch(wanted, p.leaderEpoch)
}

// compareEpoch fences by leader epoch (KIP-320).
func compareEpoch(wanted, own kafka.LeaderEpoch) error {
	switch {
	case wanted == kafka.NoEpoch || wanted == own:
		return nil
	case wanted < own:
		return kafka.FencedLeaderEpoch
	}
	return kafka.UnknownLeaderEpoch
}

func (p *Partition) enqueue(w *AppendWaiter, acks Acks) {
	switch acks {
	case AcksLeader:
		p.byDisk.push(w)
	case AcksAll:
		p.byReplicas.push(w)
	}
}

// judge turns a change's error into what it means beyond that change: a disk that failed takes the log directory
// offline; a full one, or a lack of descriptors, passes; damage, a missing file, or a log that could not undo a change
// ends this replica and no other. The caller holds p.mu.
func (p *Partition) judge(err error, e *Effects) {
	if !errors.Is(err, kafka.KafkaStorageError) {
		return
	}
	switch usable := p.log.Failed() == nil; {
	case vfs.IsDiskFailure(err) || errors.Is(err, log.ErrSyncFailed):
		e.failure = err
	case usable && vfs.IsNoSpace(err):
		e.full = true
	case usable && (vfs.IsOutOfFiles(err) || errors.Is(err, io.ErrShortWrite)):
		// Nothing was changed, and the next try may find what it needs.
	default:
		p.breakDown(err, e)
	}
}

// breakDown takes this replica offline because its log is damaged. The caller holds p.mu.
func (p *Partition) breakDown(err error, e *Effects) {
	if p.role == Offline || p.role == Gone {
		return
	}
	p.role = Offline
	e.fail(&p.byDisk, kafka.KafkaStorageError)
	e.fail(&p.byReplicas, kafka.KafkaStorageError)
	e.moved |= p.publish() | movedRole
	e.broken = err
}

// Expire takes w out of the queues after its deadline and completes it with RequestTimedOut; what was appended stays.
func (p *Partition) Expire(w *AppendWaiter) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if !w.waits {
		return e
	}
	if p.byDisk.remove(w) || p.byReplicas.remove(w) {
		e.done(w, kafka.RequestTimedOut)
	}
	return e
}
