package replica

import (
	"errors"
	"strings"
	"testing"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// txnBatch is a batch of an open transaction of producer 9.
func txnBatch(t testing.TB, epoch kafka.ProducerEpoch, sequence int32) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.Options{Transactional: true, Producer: &record.Producer{ID: 9, Epoch: epoch, Sequence: sequence}})
	b.Append(t0.UnixMilli(), nil, []byte("v"), nil)
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// heldOutcome waits for an append that may be held.
type heldOutcome struct {
	AppendWaiter
	resumed, done int
	refusal       error
}

// txn makes a partition with a lone replica, and what transactions do to it.
type txnRig struct {
	*rig
	t *testing.T
}

func newTxnRig(t *testing.T) *txnRig {
	return &txnRig{newRig(t, nil, []kafka.NodeID{1}, []kafka.NodeID{1}), t}
}

func (r *txnRig) send(verify Verification, epoch kafka.ProducerEpoch, sequence int32) *heldOutcome {
	r.t.Helper()
	w := &heldOutcome{}
	w.Done = func(*AppendWaiter) { w.done++ }
	w.Resumed = func(_ *AppendWaiter, err error) { w.resumed++; w.refusal = err }
	e, err := r.p.Append(t0, AppendRequest{Batch: txnBatch(r.t, epoch, sequence), Acks: AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}, Verify: verify, TransactionalID: "t"}, &w.AppendWaiter)
	if err != nil {
		w.refusal = err
	}
	r.desk.run(e)
	return w
}

func (r *txnRig) mark(epoch kafka.ProducerEpoch, commit bool) {
	r.t.Helper()
	b, err := record.MarkerBatch(9, epoch, record.EndTxnMarker{Commit: commit}, t0.UnixMilli())
	if err != nil {
		r.t.Fatal(err)
	}
	w := &heldOutcome{}
	w.Done = func(*AppendWaiter) {}
	e, err := r.p.Append(t0, AppendRequest{Batch: b, Acks: AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromCoordinator}}, &w.AppendWaiter)
	if err != nil {
		r.t.Fatal(err)
	}
	r.desk.run(e)
}

// say answers the oldest question.
func (r *txnRig) say(err error) {
	r.t.Helper()
	if len(r.desk.checks) == 0 {
		r.t.Fatal("nothing was asked")
	}
	c := r.desk.checks[0]
	r.desk.checks = r.desk.checks[1:]
	r.desk.run(r.p.Verified(t0, c, err))
}

func (r *txnRig) asked(n int) {
	r.t.Helper()
	if len(r.desk.checks) != n {
		r.t.Fatalf("%d questions, want %d: %+v", len(r.desk.checks), n, r.desk.checks)
	}
}

func (r *txnRig) want(what string, w *heldOutcome, first kafka.Offset) {
	r.t.Helper()
	r.desk.flush(r.t, t0)
	if w.refusal != nil || w.done != 1 || w.Result.Err != nil || w.Result.First != first {
		r.t.Fatalf("%s: resumed %d, done %d, %v, %+v", what, w.resumed, w.done, w.refusal, w.Result)
	}
}

func (r *txnRig) wantRefused(what string, w *heldOutcome, err error) {
	r.t.Helper()
	if w.done != 0 || !errors.Is(w.refusal, err) {
		r.t.Fatalf("%s: done %d, %v, want %v", what, w.done, w.refusal, err)
	}
}

// TestFirstBatchIsHeld: the first batch of a transaction waits for the coordinator, those behind it too, and the rest of
// the transaction does not.
func TestFirstBatchIsHeld(t *testing.T) {
	r := newTxnRig(t)
	a, b, c := r.send(VerifyOnly, 0, 0), r.send(VerifyOnly, 0, 1), r.send(VerifyOnly, 0, 2)
	r.asked(1)
	if q := r.desk.checks[0]; q.Producer != 9 || q.TransactionalID != "t" || q.Partition != orders || q.Add || q.Guard == 0 {
		t.Fatalf("%+v", q)
	}
	if a.resumed+a.done != 0 || r.p.Info().End != 0 {
		t.Fatal("appended before the coordinator has spoken")
	}
	r.say(nil)
	r.want("first", a, 0)
	r.want("second", b, 1)
	r.want("third", c, 2)
	d := r.send(VerifyOnly, 0, 3)
	r.asked(0)
	r.want("in the open transaction", d, 3)
	if d.resumed != 0 {
		t.Fatal("it was not held")
	}
	r.mark(0, true)
	r.send(VerifyOnly, 0, 4)
	r.asked(1)
}

// TestHeldBatchesKeepTheirOrder: what overtook its predecessor on the way is put behind it again.
func TestHeldBatchesKeepTheirOrder(t *testing.T) {
	r := newTxnRig(t)
	b, a := r.send(VerifyAndAdd, 0, 1), r.send(VerifyAndAdd, 0, 0)
	r.say(nil)
	r.want("first", a, 0)
	r.want("second", b, 1)
	for _, x := range [][3]int32{{0, 1, -1}, {1, 0, 1}, {5, 5, 0}, {2147483647, 0, -1}, {0, 2147483647, 1}} {
		if got := sequenceOrder(x[0], x[1]); int32(got) != x[2] {
			t.Errorf("%d and %d: %d", x[0], x[1], got)
		}
	}
}

func TestCoordinatorRefuses(t *testing.T) {
	r := newTxnRig(t)
	a, b := r.send(VerifyOnly, 0, 0), r.send(VerifyOnly, 0, 1)
	r.say(kafka.TransactionAbortable)
	r.wantRefused("first", a, kafka.TransactionAbortable)
	r.wantRefused("second", b, kafka.TransactionAbortable)
	c := r.send(VerifyOnly, 0, 0) // is a question of its own
	r.say(nil)
	r.want("later", c, 0)
}

// TestMarkerInBetween: the coordinator's word may be of the transaction that the marker ended, so it is asked again.
func TestMarkerInBetween(t *testing.T) {
	r := newTxnRig(t)
	a := r.send(VerifyOnly, 0, 0)
	r.mark(0, false)
	r.say(nil)
	r.asked(1)
	if a.resumed != 0 {
		t.Fatal("an answer from before the marker was taken")
	}
	r.say(kafka.TransactionAbortable)
	r.wantRefused("late", a, kafka.TransactionAbortable)
}

// TestEpochsWaitApart: a zombie's batches do not hold up its successor's.
func TestEpochsWaitApart(t *testing.T) {
	r := newTxnRig(t)
	old, next := r.send(VerifyAndAdd, 0, 0), r.send(VerifyAndAdd, 1, 0)
	r.asked(2)
	r.desk.checks[0], r.desk.checks[1] = r.desk.checks[1], r.desk.checks[0]
	r.say(nil)
	r.want("successor", next, 0)
	r.say(nil) // however that came about
	r.wantRefused("zombie", old, kafka.InvalidProducerEpoch)
}

// TestHeldBatchesEnd: with the deadline, the leadership, the directory.
func TestHeldBatchesEnd(t *testing.T) {
	r := newTxnRig(t)
	a, b := r.send(VerifyOnly, 0, 0), r.send(VerifyOnly, 0, 1)
	r.desk.run(r.p.Expire(&a.AppendWaiter))
	r.wantRefused("expired", a, kafka.RequestTimedOut)
	r.desk.run(r.p.Expire(&a.AppendWaiter))
	if a.resumed != 1 {
		t.Fatal("told twice")
	}
	r.say(nil)
	r.want("behind", b, 0)

	for _, x := range []struct {
		end  func(r *txnRig)
		want kafka.Code
	}{
		{func(r *txnRig) {
			r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{2}, Leader: 2, LeaderEpoch: 4,
				PartitionEpoch: 6})
		}, kafka.NotLeaderOrFollower},
		{func(r *txnRig) { r.desk.run(r.p.Fail()) }, kafka.KafkaStorageError},
		{func(r *txnRig) { r.desk.run(r.p.Remove()) }, kafka.NotLeaderOrFollower},
	} {
		r := newTxnRig(t)
		a := r.send(VerifyOnly, 0, 0)
		x.end(r)
		r.wantRefused("ended", a, x.want)
		r.say(nil)
		if a.resumed != 1 {
			t.Fatal("told twice")
		}
	}
}

// TestNobodyToAsk: without a way to ask, a batch that would begin a transaction is refused; a trusted one is taken.
func TestNobodyToAsk(t *testing.T) {
	r := newTxnRig(t)
	r.wantRefused("unverified", r.send(Unverified, 0, 0), kafka.InvalidTxnState)
	r.want("trusted", r.send(Trusted, 0, 0), 0)
}

// TestGuard: a group coordinator asks by itself; a marker makes the answer worthless, and so does the end of the request.
func TestGuard(t *testing.T) {
	r := newTxnRig(t)
	commit := func(guard uint64) error {
		w := &heldOutcome{}
		w.Done = func(*AppendWaiter) {}
		b := txnBatch(t, 0, kafka.NoSequence)
		e, err := r.p.Append(t0, AppendRequest{Batch: b, Acks: AcksAll, LeaderEpoch: kafka.NoEpoch,
			Producer: log.ProducerCheck{Origin: log.FromCoordinator}, Guard: guard}, &w.AppendWaiter)
		r.desk.run(e)
		return err
	}
	start := func() uint64 {
		c, needed, err := r.p.StartVerification(TxnCheck{Producer: 9})
		if err != nil || !needed {
			t.Fatal(needed, err)
		}
		return c.Guard
	}
	stop := func(guard uint64) { r.p.StopVerification(TxnCheck{Producer: 9, Guard: guard}) }
	if err := commit(0); !errors.Is(err, kafka.InvalidTxnState) {
		t.Fatal(err)
	}
	guard := start()
	if start() != guard {
		t.Fatal("one producer, two guards")
	}
	r.mark(0, false)
	if err := commit(guard); !errors.Is(err, kafka.InvalidTxnState) || !strings.Contains(err.Error(), "no transaction open") {
		t.Fatal(err)
	}
	if err := commit(start()); err != nil {
		t.Fatal(err)
	}
	if _, needed, err := r.p.StartVerification(TxnCheck{Producer: 9}); needed || err != nil {
		t.Fatal(needed, err)
	}
	if err := commit(0); err != nil {
		t.Fatal(err)
	}
	r.mark(0, true)
	guard = start()
	start()
	stop(guard)
	if len(r.p.unverified) != 1 {
		t.Fatal("another request needs it")
	}
	stop(guard)
	if err := commit(guard); !errors.Is(err, kafka.InvalidTxnState) || len(r.p.unverified) != 0 {
		t.Fatal(err, r.p.unverified)
	}
}
