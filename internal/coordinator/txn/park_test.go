package txn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestSuccessorWaits: a producer that was told its next epoch goes on with it before the markers are written, whatever it
// asks and also when that epoch is of a new producer id.
func TestSuccessorWaits(t *testing.T) {
	for name, x := range map[string]struct {
		epoch kafka.ProducerEpoch
		next  got
	}{
		"next epoch":   {0, got{0, 101, 1}},
		"new producer": {lastEpoch, got{0, 102, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []struct {
				request kmsg.Request
				want    got
			}{
				{addRequest(5, "w", x.next.ID, x.next.Epoch, false, 0), got{}},
				{addRequest(5, "w", x.next.ID, x.next.Epoch, true, 0), got{Code: kafka.TransactionAbortable}},
				{endRequest(5, "w", x.next.ID, x.next.Epoch, false), got{0, x.next.ID, x.next.Epoch + 1}},
				{endRequest(5, "w", x.next.ID, x.next.Epoch, true), got{Code: kafka.InvalidTxnState}},
				{initRequest(5, "w", x.next.ID, x.next.Epoch), got{0, x.next.ID, x.next.Epoch + 1}},
				{initRequest(5, "w", -1, -1), got{0, x.next.ID, x.next.Epoch + 1}},
				{endRequest(5, "w", 101, int16(x.epoch), true), x.next}, // the same end again
			} {
				b := newBench(t)
				b.expect("init", got{0, 101, 0}, initRequest(5, "w", -1, -1))
				b.m.ids["w"].producer.Epoch = x.epoch
				b.expect("add", got{}, addRequest(5, "w", 101, int16(x.epoch), false, 0))
				b.expect("commit", x.next, endRequest(5, "w", 101, int16(x.epoch), true))
				p := b.ask(r.request)
				if _, ok := p.Answer().Get(); ok {
					t.Fatalf("%T: %+v before the markers are written", r.request, b.outcome(p))
				}
				b.write()
				if d := cmp.Diff(r.want, b.outcome(p)); d != "" {
					t.Errorf("%T: %s", r.request, d)
				}
			}
		})
	}
}

// TestZombieDoesNotWait: who holds an epoch that is over is told so at once.
func TestZombieDoesNotWait(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(5, "w", -1, -1))
	b.expect("init", got{0, 101, 1}, initRequest(5, "w", -1, -1))
	b.expect("add", got{}, addRequest(5, "w", 101, 1, false, 0))
	b.expect("commit", got{0, 101, 2}, endRequest(5, "w", 101, 1, true))
	b.expect("add", got{Code: kafka.ProducerFenced}, addRequest(5, "w", 101, 0, false, 0))
	b.expect("verify", got{Code: kafka.ProducerFenced}, addRequest(5, "w", 101, 0, true, 0))
	b.expect("end", got{Code: kafka.ProducerFenced}, endRequest(5, "w", 101, 0, true))
	b.expect("other producer", got{Code: kafka.ProducerFenced}, initRequest(5, "w", 55, 0))
	if w := b.markers[0]; w.Producer != (coordinator.Stamp{ID: 101, Epoch: 2}) {
		t.Fatalf("markers %+v", w)
	}
}
