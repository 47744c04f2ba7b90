package txn

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestExplain: what is told of an id at every stage, and by whom its last transaction was ended.
func TestExplain(t *testing.T) {
	b := newBench(t)
	if _, known := b.m.Explain("t"); known {
		t.Fatal("an id that nobody has used")
	}
	told := func(what string, state State, ended string, open, deciding bool) {
		t.Helper()
		e, known := b.m.Explain("t")
		if !known || e.TransactionalID != "t" || e.State != state || e.Ended != ended || e.Open() != open || e.Deciding() != deciding ||
			e.Began.IsZero() == open || e.Holds(kafka.TopicPartition{Topic: "x", Partition: 1}) {
			t.Fatalf("%s: %+v", what, e)
		}
		if got := slices.Collect(b.m.Open()); (len(got) == 1) != open {
			t.Fatalf("%s: open are %+v", what, got)
		}
	}
	b.expect("init", got{0, 101, 0}, initRequest(4, "t", -1, -1))
	told("new", Empty, "", false, false)
	b.expect("add", got{}, addRequest(3, "t", 101, 0, false, 0))
	told("begun", Ongoing, "", true, false)
	e, _ := b.m.Explain("t")
	if len(e.Partitions) != 1 || !e.Holds(e.Partitions[0]) || e.Timeout != time.Minute {
		t.Fatalf("%+v", e)
	}
	owns := func(id kafka.ProducerID) int {
		return len(slices.Collect(b.m.Owners(func(x kafka.ProducerID) bool { return x == id })))
	}
	if owns(101) != 1 || owns(102) != 0 || b.m.Len() != 1 {
		t.Fatal("owners")
	}
	b.expect("end", got{0, -1, -1}, endRequest(3, "t", 101, 0, true))
	told("decided", PrepareCommit, "producer", true, true)
	b.write()
	told("ended", CompleteCommit, "producer", false, false)
	b.expect("again", got{}, addRequest(3, "t", 101, 0, false, 0))
	b.pass(2 * time.Minute)
	told("timed out", PrepareAbort, "timeout", true, true)
	b.write()
	told("aborted", CompleteAbort, "timeout", false, false)
	p := b.outcome(b.ask(initRequest(4, "t", -1, -1)))
	b.expect("begun", got{}, addRequest(3, "t", p.ID, p.Epoch, false, 0))
	b.ask(initRequest(4, "t", -1, -1))
	told("taken over", PrepareAbort, "fenced", true, true)
	b.restart()
	told("at a new coordinator", PrepareAbort, "", true, true)
}

// BenchmarkOpen looks for open transactions among the ids of one shard of a node with a million: what the shard's lock is
// held for by the metrics.
func BenchmarkOpen(b *testing.B) {
	m := New(options(), metadata.New())
	for i := range 20_000 {
		id := strconv.Itoa(i)
		t := transaction{id: id, producer: coordinator.Stamp{ID: kafka.ProducerID(i)}, state: CompleteCommit}
		if i%1000 == 0 {
			t.state = Ongoing
		}
		if err := m.Apply(t.record(true), coordinator.Origin{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range m.Open() {
			n++
		}
		if n != 20 {
			b.Fatal(n)
		}
	}
}
