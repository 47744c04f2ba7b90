package coordinator

import (
	"testing"

	"moldau/internal/kafka"
)

func TestTransactions(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("pending", w.ask("txn a 1 7 0"))
	w.expect("pending", w.ask("txn b 1 7 0"))
	w.expect("pending", w.ask("txn a 9 8 3"))
	w.expect("", w.ask("get a"))
	check := func(want string) {
		t.Helper()
		if got := w.state(); got != want {
			t.Fatalf("the machine holds %q, want %q", got, want)
		}
		if got := w.reloaded(); got != want {
			t.Fatalf("the log holds %q, want %q", got, want)
		}
	}
	check("(7/0 2) (8/3 1)")
	end := func(id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, commit bool) kafka.Code {
		t.Helper()
		return code(t, w.EndTransaction(Marker{Producer: Stamp{id, epoch}, Commit: commit, CoordinatorEpoch: coordinatorEpoch}).Get)
	}
	if c := end(7, 0, 4, true); c != kafka.None {
		t.Fatal(c)
	}
	check("a=1 b=1 (8/3 1)")
	if c := end(8, 2, 4, true); c != kafka.InvalidProducerEpoch {
		t.Fatal(c)
	}
	if c := end(7, 0, 3, true); c != kafka.TransactionCoordinatorFenced {
		t.Fatal(c)
	}
	check("a=1 b=1 (8/3 1)")
	if c := end(8, 3, 4, false); c != kafka.None {
		t.Fatal(c)
	}
	check("a=1 b=1")
	w.expect("INVALID_PRODUCER_EPOCH", w.ask("txn a 1 8 2"))
	for i, b := range w.batches() {
		control := i == 3 || i == 4
		if !b.IsTransactional() || b.IsControl() != control || b.BaseSequence() != kafka.NoSequence {
			t.Fatalf("batch %d: transactional %v, control %v, sequence %d", i, b.IsTransactional(), b.IsControl(), b.BaseSequence())
		}
	}
}

// TestMarkersCountAsWrites: what a marker makes visible is shown once the marker is committed.
func TestMarkersCountAsWrites(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("pending", w.ask("txn a 1 7 0"))
	w.hold()
	before := w.send("set b 1")
	done := w.EndTransaction(Marker{Producer: Stamp{7, 0}, Commit: true})
	get, other := w.send("get a"), w.send("get b")
	if _, ok := done.Get(); ok {
		t.Fatal("not committed, and done")
	}
	for _, p := range []*Pending{before, get, other} {
		w.expect("...", w.got(p))
	}
	w.flush()
	if c := code(t, done.Get); c != kafka.None {
		t.Fatal(c)
	}
	w.expect("1", w.got(get))
	w.hold()
	done = w.EndTransaction(Marker{Producer: Stamp{7, 0}, Commit: true})
	w.lead(2)
	if c := code(t, done.Get); c != kafka.NotCoordinator {
		t.Fatal(c)
	}
}
