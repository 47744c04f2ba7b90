package replica

import (
	"errors"
	"io"
	"time"

	"moldau/internal/flaw"
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
	// Verify says what is asked of whom when the batch would begin its producer's transaction here; TransactionalID names
	// the coordinator. Guard is the one of a check that has been answered already (StartVerification); 0: there is none.
	Verify          Verification
	TransactionalID string
	Guard           uint64
}

// Append appends a batch as leader. On success w is completed through Effects when the acknowledgement that Acks asks for
// is due: at once for AcksNone, after this node's disk for AcksLeader, at the high watermark for AcksAll. An error means
// that nothing was appended and w was not taken.
//
// A client's batch that would begin a transaction here is held until the coordinator has spoken, which Effects.Held tells;
// then w.Resumed is called as well.
//
// Errors: NotLeaderOrFollower; FencedLeaderEpoch, UnknownLeaderEpoch; NotEnoughReplicas when AcksAll meets an in-sync set
// below min.insync.replicas; KafkaStorageError; InvalidTxnState for a client's transactional batch of a transaction that
// is not open here; those of log.Append.
func (p *Partition) Append(now time.Time, r AppendRequest, w *AppendWaiter) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var e Effects
	if err := p.admit(&r); err != nil {
		return e, err
	}
	if p.opens(&r) {
		hold, err := p.guarded(&r, w)
		if err != nil {
			return e, err
		}
		if hold {
			p.hold(r, w, &e)
			return e, nil
		}
	}
	err := p.append(now, r, w, &e)
	return e, err
}

// append appends a batch that may be. The caller holds p.mu.
func (p *Partition) append(now time.Time, r AppendRequest, w *AppendWaiter, e *Effects) error {
	if p.limits.RefuseNewProducers != nil && r.Batch.HasProducer() {
		r.Producer.RefuseNew = p.limits.RefuseNewProducers()
	}
	if flaw.In(flaw.NoDeduplication) {
		r.Producer.Origin = log.FromReplication
	}
	wasDurable := p.log.View().Durable == p.log.View().End
	done, err := p.log.Append(r.Batch, log.Stamp{Assign: true, LeaderEpoch: p.leaderEpoch, Producer: r.Producer}, now)
	e.p = p
	if err != nil {
		p.judge(err, e)
		return err
	}
	w.Result = AppendResult{First: done.First, LogAppendTimeMs: done.LogAppendTimeMs, LogStart: done.LogStart,
		Duplicate: done.Duplicate}
	w.required = done.Last + 1
	p.enqueue(w, r.Acks)
	if wasDurable {
		p.flushFrom = now
	}
	e.flush = e.flush || p.wantsFlush(now) || done.Rolled
	p.settleVerification(r.Batch)
	p.settle(now, e)
	if r.Acks == AcksNone {
		e.done(w, nil)
	}
	return nil
}

// admit says why a batch is not taken.
func (p *Partition) admit(r *AppendRequest) error {
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
	p.refuseHeld(e, kafka.KafkaStorageError)
	e.moved |= p.publish() | movedRole
	e.broken = err
}

// Expire takes w out of the queues after its deadline and completes it with RequestTimedOut; what was appended stays,
// what was held is not.
func (p *Partition) Expire(w *AppendWaiter) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.release(w) {
		e.resume(w, kafka.RequestTimedOut)
		return e
	}
	if !w.waits {
		return e
	}
	if p.byDisk.remove(w) || p.byReplicas.remove(w) {
		e.done(w, kafka.RequestTimedOut)
	}
	return e
}
