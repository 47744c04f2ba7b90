package coordinator

import (
	"fmt"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/telemetry"
)

// reload makes node 1 lose and regain partition 0.
func (w *world) reload() {
	w.t.Helper()
	w.lead(2)
	w.lead(1)
}

func TestLoadInSteps(t *testing.T) {
	w := newWorld(t, worldOptions{options: func(o *Options) { o.LoadBytes = 300 }})
	for i := range 20 {
		w.expect("big", w.ask("big k%d 2 %d", i, 50*i))
	}
	before := w.state()
	w.manual = true
	w.reload()
	steps := 0
	for len(w.loads) > 0 {
		w.expect("COORDINATOR_LOAD_IN_PROGRESS", w.ask("get a"))
		for _, p := range w.Each(func() *Pending { return toyRequest("all x") }) {
			a, _ := p.Get()
			w.expect("COORDINATOR_LOAD_IN_PROGRESS", text(a))
		}
		if c := code(t, w.EndTransaction(Marker{}).Get); c != kafka.CoordinatorLoadInProgress {
			t.Fatal(c)
		}
		if n := w.Counts(); n != (telemetry.CoordinatorCounts{Loading: 1}) {
			t.Fatalf("%+v", n)
		}
		w.runLoads(1)
		steps++
	}
	if steps < 20 || w.state() != before {
		t.Fatalf("after %d steps the machine holds %q, want %q", steps, w.state(), before)
	}
	if got := w.machines[0].log; len(got) != 1 || got[0] != "loaded" {
		t.Fatalf("heard of %q", got)
	}
}

func TestLeadershipLostWhileLoading(t *testing.T) {
	w := newWorld(t, worldOptions{options: func(o *Options) { o.LoadBytes = 100 }})
	for i := range 9 {
		w.ask("set a %d", i)
	}
	w.manual = true
	w.reload()
	w.runLoads(2)
	w.lead(2)
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	w.lead(1) // while the abandoned load is still about
	w.runLoads(0)
	w.expect("8", w.ask("get a"))
	if len(w.loads) != 0 {
		t.Fatal("a load goes on")
	}
}

func TestImageThatChangesWhileLoading(t *testing.T) {
	w := newWorld(t, worldOptions{manual: true})
	w.apply(&metadata.TopicRecord{Name: "other", TopicID: kafka.UUID{0: 8, 15: 201}})
	w.runLoads(0)
	if s := w.table.Load().shards[0]; s.image != w.image {
		t.Fatal("loaded with an old image")
	}
	w.apply(&metadata.RemoveTopicRecord{TopicID: kafka.UUID{0: 8, 15: 201}})
	if got := fmt.Sprint(w.machines[0].log); got != "[loaded image]" {
		t.Fatalf("heard of %s", got)
	}
}

// appendRaw puts a batch into the log that no machine has seen.
func (w *world) appendRaw(o record.Options, damage bool, records ...Record) {
	w.t.Helper()
	b := record.NewBuilder(o)
	for _, r := range records {
		b.Append(t0.UnixMilli(), r.Key, r.Value, nil)
	}
	batch, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	if damage {
		batch[len(batch)-1] ^= 1
	}
	var done replica.AppendWaiter
	done.Done = func(*replica.AppendWaiter) {}
	e, err := w.partition().Append(t0, replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromCoordinator}}, &done)
	e.Run(w)
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestLoadGoesOnWithoutBadRecords: one group's damage must not take the others of the partition down.
func TestLoadGoesOnWithoutBadRecords(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	rec := func(k, v string) Record { return Record{[]byte(k), []byte(v)} }
	w.appendRaw(record.Options{}, true, rec("a", "damaged"), rec("b", "damaged"))
	w.appendRaw(record.Options{}, false, rec("bad", ""), rec("b", "1"))
	w.appendRaw(record.Options{}, false, Record{nil, []byte("keyless")}, rec("c", "1"))
	w.appendRaw(record.Options{Control: true}, false, rec("\x00\x00\x00\x63", "of a type not known"))
	w.appendRaw(record.Options{Codec: record.Zstd}, false, rec("d", "1"))
	for range 12 {
		w.appendRaw(record.Options{}, false, rec("bad", ""))
	}
	w.appendRaw(record.Options{}, false, rec("broken", ""), rec("e", "1"))
	w.expect("ok 2", w.ask("set a 2"))
	w.reload()
	if got := w.state(); got != "a=2 b=1 c=1 d=1 e=1" {
		t.Fatalf("loaded %q", got)
	}
	if got := w.metric("moldau_coordinator_load_bad_records_total"); got != 16 {
		t.Fatalf("%g bad records were counted", got)
	}
}

// TestLoadBeginsAtTheLogStart, also where that lies within a batch.
func TestLoadBeginsAtTheLogStart(t *testing.T) {
	w := newWorld(t, worldOptions{configure: func(c *log.Config) { c.Delete = true }})
	w.expect("big", w.ask("big a 5 3"))
	_, e, err := w.partition().DeleteRecords(w.clock(), 3)
	e.Run(w)
	if err != nil {
		t.Fatal(err)
	}
	w.reload()
	if got := w.state(); got != "a-3=xxx a-4=xxx" {
		t.Fatalf("loaded %q", got)
	}
}

func TestLoadThatCannotReadIsTriedAgain(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold x")
	w.lead(2)
	w.fault("read *.log error EIO")
	w.lead(1)
	w.expect("NOT_COORDINATOR", w.got(parked))
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	if n := w.Counts(); n.Failed != 1 {
		t.Fatalf("%+v", n)
	}
	w.advance(time.Minute)
	if n := w.metric("moldau_coordinator_load_failures_total"); n < 8 || n > 12 {
		t.Fatalf("%g loads failed in a minute", n)
	}
	w.faults.Clear()
	w.advance(31 * time.Second)
	w.expect("1", w.ask("get a"))
	w.fault("read *.log error EIO")
	w.reload()
	w.lead(2)
	w.advance(time.Minute) // a retry that nobody wants any more
	w.faults.Clear()
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	w.lead(1)
	w.expect("1", w.ask("get a"))
}

// TestLoadOfWhatIsNotCommitted: the log is loaded to its end, but what may still vanish is shown to nobody.
func TestLoadOfWhatIsNotCommitted(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), ISR: []kafka.NodeID{1, 2}})
	set := w.send("set b 1") // node 2 fetches nothing
	w.expect("...", w.got(set))
	w.reload()
	w.expect("NOT_COORDINATOR", w.got(set))
	get, all := w.send("get b"), w.send("all x")
	w.expect("...", w.got(get))
	w.expect("...", w.got(all))
	w.advance(5 * time.Second)
	w.expect("COORDINATOR_NOT_AVAILABLE", w.got(get))
	get = w.send("get a")
	later := w.send("set c 1")
	w.expect("...", w.got(get))
	if n := w.partition().Watching(); n != 1 {
		t.Fatalf("%d watchers", n)
	}
	w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), ISR: []kafka.NodeID{1}})
	w.expect("1", w.got(get))
	w.expect("ok 1", w.got(later))
	w.expect("1", w.ask("get b"))
	if n := w.partition().Watching(); n != 0 {
		t.Fatalf("%d watchers", n)
	}
	w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), ISR: []kafka.NodeID{1, 2}})
	w.send("set b 2")
	w.reload()
	get = w.send("get b")
	w.lead(2)
	w.expect("NOT_COORDINATOR", w.got(get))
	if n := w.partition().Watching(); n != 0 {
		t.Fatalf("%d watchers", n)
	}
}

// TestLogThatIsLostWhileLeading: a partition that fails under a shard ends it, and the shard is not answered from.
func TestLogThatIsLostWhileLeading(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold x")
	w.hold()
	set := w.send("set a 2")
	w.DirFailed(w.dir, nil)
	w.expect("NOT_COORDINATOR", w.got(set))
	w.expect("NOT_COORDINATOR", w.got(parked))
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	w.advance(time.Minute)
	if n := w.Counts(); n.Failed != 1 {
		t.Fatalf("%+v", n)
	}
	w.Close()
	w.advance(time.Hour)
}

func TestRetryAfter(t *testing.T) {
	for tries, want := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 8: 25600 * time.Millisecond,
		9: lastRetry, 1000: lastRetry} {
		if got := retryAfter(tries); got != want {
			t.Errorf("after %d tries %v, want %v", tries, got, want)
		}
	}
}
