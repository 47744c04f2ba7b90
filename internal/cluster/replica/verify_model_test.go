package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"moldau/internal/kafka"
)

// txnWorld is a partition and the coordinator of one producer's transactions before version 2, in which a late batch looks
// like one of the next transaction. Questions, answers and markers take their time.
type txnWorld struct {
	*txnRig
	random   *rand.Rand
	open     bool // the partition is in the producer's open transaction
	marker   bool // it has ended, and the marker is on its way
	answers  []func()
	sequence int32
	sent     []*heldOutcome
	history  []string
}

func (w *txnWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// step does one thing at random.
func (w *txnWorld) step() {
	switch w.random.IntN(8) {
	case 0:
		if !w.open && !w.marker {
			w.open = true
			w.note("begin")
		}
	case 1:
		if w.open {
			w.open, w.marker = false, true
			w.note("end")
		}
	case 2:
		if w.marker {
			w.marker = false
			w.note("marker")
			w.mark(0, true)
		}
	case 3, 4:
		w.note("send %d", w.sequence)
		w.sent = append(w.sent, w.send(VerifyOnly, 0, w.sequence))
		w.sequence++
	case 5: // the oldest question arrives
		if len(w.desk.checks) > 0 {
			c := w.desk.checks[0]
			w.desk.checks = w.desk.checks[1:]
			var word error
			if !w.open {
				word = kafka.TransactionAbortable
			}
			w.note("asked: %v", word)
			w.answers = append(w.answers, func() { w.desk.run(w.p.Verified(t0, c, word)) })
		}
	case 6: // an answer arrives
		if len(w.answers) > 0 {
			w.note("answer")
			w.answers[0]()
			w.answers = w.answers[1:]
		}
	case 7:
		if len(w.sent) > 0 && w.random.IntN(4) == 0 {
			x := w.sent[w.random.IntN(len(w.sent))]
			w.note("expire")
			w.desk.run(w.p.Expire(&x.AppendWaiter))
		}
	}
}

// check holds what must be true at any time: no transaction is open in the log that the coordinator will not end.
func (w *txnWorld) check(t *testing.T) {
	hanging := w.p.log.HasOpenTxn(9, 0) && !w.open && !w.marker
	for i, x := range w.sent {
		if x.done > 1 || x.resumed > 1 || x.done > 0 && x.refusal != nil {
			t.Errorf("batch %d: done %d, resumed %d, %v", i, x.done, x.resumed, x.refusal)
		}
	}
	if hanging {
		t.Error("a transaction hangs")
	}
	if t.Failed() {
		t.Fatalf("history %q", w.history)
	}
}

// TestNoTransactionHangs, however questions, answers, batches and markers overtake each other, and every batch is answered
// once. Without verification it fails at once.
func TestNoTransactionHangs(t *testing.T) {
	for seed := range uint64(300) {
		w := &txnWorld{txnRig: newTxnRig(t), random: rand.New(rand.NewPCG(seed, 7))}
		for range 60 {
			w.step()
			w.check(t)
		}
		for len(w.desk.checks)+len(w.answers) > 0 { // let everything arrive
			for _, c := range w.desk.checks {
				w.answers = append(w.answers, func() { w.desk.run(w.p.Verified(t0, c, kafka.TransactionAbortable)) })
			}
			w.desk.checks = nil
			w.answers[0]()
			w.answers = w.answers[1:]
		}
		w.desk.flush(t, t0)
		for i, x := range w.sent {
			if x.done == 0 && x.refusal == nil {
				t.Fatalf("seed %d: batch %d was never answered; history %q", seed, i, w.history)
			}
		}
		if len(w.p.unverified) != 0 {
			t.Fatalf("seed %d: %d verifications are left", seed, len(w.p.unverified))
		}
		w.ordered(t)
	}
}

// ordered says that what was appended stands in the order of the sequences.
func (w *txnWorld) ordered(t *testing.T) {
	t.Helper()
	next := kafka.Offset(-1)
	for i, x := range w.sent {
		if x.done == 0 || x.Result.Err != nil {
			continue
		}
		if x.Result.First <= next {
			t.Fatalf("batch %d stands at %d, after %d; history %q", i, x.Result.First, next, w.history)
		}
		next = x.Result.First
	}
}
