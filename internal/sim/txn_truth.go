package sim

import (
	"bytes"
	"fmt"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// outcome is how a transaction ended, as far as its client knows.
type outcome int8

const (
	outcomeNone      outcome = iota // nobody has asked for a commit
	outcomeUnknown                  // somebody has
	outcomeCommitted                // its client was told, or has found its offset
	outcomeAborted
)

// txnWork is one transaction.
type txnWork struct {
	client  *txnClient
	number  int64  // among those of its client that are committed: the offset that it commits
	serial  uint64 // among all
	abort   bool
	outcome outcome
	writes  []txnWrite
}

// txnWrite is a record of a transaction.
type txnWrite struct {
	tp       kafka.TopicPartition
	value    string
	sequence int32
	// committed and aborted say what marker came after it.
	committed, aborted bool
}

// txnTruth is what was promised about transactions.
type txnTruth struct {
	w       *World
	clients []*txnClient
	begun   uint64
	all     map[uint64]*txnWork
	// open holds the records of producers on partitions that no marker has come after.
	open map[openAt][]*txnWrite
}

type openAt struct {
	tp       kafka.TopicPartition
	producer kafka.ProducerID
}

func (t *txnTruth) begin(w *World) {
	t.w, t.all, t.open = w, map[uint64]*txnWork{}, map[openAt][]*txnWrite{}
}

// settled notes what a client has learned of its transaction's end.
func (t *txnTruth) settled(x *txnWork, committed bool) {
	if committed {
		x.outcome = outcomeCommitted
		t.w.stats.TxnCommitted++
	} else {
		x.outcome = outcomeAborted
		t.w.stats.TxnAborted++
	}
	t.w.note("settled", x.serial, uint64(x.outcome))
	t.judge(x)
}

// visible takes a batch that consumers may see now.
func (t *txnTruth) visible(tp kafka.TopicPartition, b record.Batch, r record.Record) {
	if t.w == nil || tp.Topic != topicName || !b.IsTransactional() {
		return
	}
	at := openAt{tp, b.ProducerID()}
	if !b.IsControl() {
		x := t.find(r.Value)
		if x == nil {
			t.w.fail("%s: %q was never written", tp, r.Value)
			return
		}
		t.open[at] = append(t.open[at], x)
		return
	}
	m, err := b.EndTxnMarker()
	if err != nil {
		t.w.fail("%s: marker: %v", tp, err)
		return
	}
	for _, x := range t.open[at] {
		x.committed, x.aborted = m.Commit, !m.Commit
		t.judge(t.of([]byte(x.value)))
	}
	delete(t.open, at)
}

func (t *txnTruth) of(value []byte) *txnWork {
	serial, _, _ := bytes.Cut(value, []byte("/"))
	n, err := strconv.ParseUint(string(serial), 10, 64)
	if err != nil {
		return nil
	}
	return t.all[n]
}

func (t *txnTruth) find(value []byte) *txnWrite {
	work := t.of(value)
	if work == nil {
		return nil
	}
	for i := range work.writes {
		if work.writes[i].value == string(value) {
			return &work.writes[i]
		}
	}
	return nil
}

// judge wants all of a transaction to end the same way, and in the way that was told.
func (t *txnTruth) judge(x *txnWork) {
	for i := range x.writes {
		r := &x.writes[i]
		switch {
		case r.committed && (x.outcome == outcomeAborted || x.outcome == outcomeNone):
			t.w.fail("%q on %s is committed, and its transaction was not", r.value, r.tp)
		case r.aborted && x.outcome == outcomeCommitted:
			t.w.fail("%q on %s is aborted, and its transaction was committed", r.value, r.tp)
		}
		for j := range i {
			if q := &x.writes[j]; r.committed && q.aborted || r.aborted && q.committed {
				t.w.fail("%q on %s and %q on %s are of one transaction, and one is committed, the other aborted", r.value, r.tp,
					q.value, q.tp)
			}
		}
	}
}

// complete says whether everything that clients were told is committed can be read.
func (t *txnTruth) complete() bool {
	for serial := uint64(1); serial <= t.begun; serial++ {
		x := t.all[serial]
		if x.outcome != outcomeCommitted || x.number == x.client.done {
			continue // or its markers may be on their way
		}
		for i := range x.writes {
			if !x.writes[i].committed {
				return false
			}
		}
	}
	return true
}

func (t *txnTruth) describe() string {
	out := ""
	for _, c := range t.clients {
		out += fmt.Sprintf("%s is %v and has committed %d; ", c.id, c.stamp, c.done)
		if c.work != nil {
			out += fmt.Sprintf("its work %d is %d; ", c.work.serial, c.work.outcome)
		}
	}
	return out
}
