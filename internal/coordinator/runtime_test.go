package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

func TestReadsWaitForTheWritesOfTheirScope(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	w.expect("1", w.ask("get a"))
	w.hold()
	set := w.send("set a 2")
	get, other, all := w.send("get a"), w.send("get b"), w.send("all x")
	for _, p := range []*Pending{set, get, all} {
		w.expect("...", w.got(p))
	}
	w.expect("", w.got(other)) // of another scope
	w.flush()
	w.expect("ok 2", w.got(set))
	w.expect("2", w.got(get))
	w.expect("a=2", w.got(all))
	if got := w.reloaded(); got != "a=2" {
		t.Fatalf("the log holds %q", got)
	}
}

// TestReadsWaitForTheLastWrite: that an earlier one of the scope is committed is not enough.
func TestReadsWaitForTheLastWrite(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("pending", w.ask("txn a 9 7 0"))
	w.hold()
	first := w.send("set a 1")
	second := w.begin()
	w.send("set a 2")
	third := w.begin()
	second()
	w.expect("ok 1", w.got(first))
	early := w.send("get a")
	w.expect("...", w.got(early))
	w.EndTransaction(Marker{Producer: Stamp{7, 0}, Commit: true})
	get, other := w.send("get a"), w.send("get b") // of which the transaction may be
	third()
	w.expect("2", w.got(early))
	w.expect("...", w.got(get))
	w.expect("...", w.got(other))
	w.flush()
	w.expect("9", w.got(get))
	w.expect("", w.got(other))
}

func TestEventsFollowInOrder(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("chained", w.ask("chain x"))
	want := []string{"loaded", "chain abc", "chain bc", "chain c", "chain ", "after c", "after bc", "after abc", "last"}
	if got := w.machines[0].log; !slices.Equal(got, want) {
		t.Fatalf("handled %q, want %q", got, want)
	}
	w.expect("one", w.ask("twice x")) // a second answer is none
	w.expect("then <nil> 5", w.ask("then a 5"))
}

func TestFailedAppendsChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name, want string
		arrange    func(w *world)
	}{
		{"too few replicas", "COORDINATOR_NOT_AVAILABLE", func(w *world) { w.config.MinInsyncReplicas = 2 }},
		{"disk full", "NOT_COORDINATOR", func(w *world) { w.fault("enospc *.log") }},
		{"batch above max.message.bytes", "UNKNOWN_SERVER_ERROR", func(w *world) { w.config.MaxMessageBytes = 60 }},
		{"batch above segment.bytes", "UNKNOWN_SERVER_ERROR", func(w *world) { w.config.SegmentBytes = 60 }},
		{"the disk fails", "NOT_COORDINATOR", func(w *world) { w.fault("write *.log error EIO") }},
		{"a log without a disk", "NOT_COORDINATOR", func(w *world) { w.DirFailed(w.dir, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			w.expect("ok 1", w.ask("set a 1"))
			c.arrange(w)
			w.expect(c.want, w.ask("set a 2"))
			w.expect(c.want, w.ask("big a 3 10 split"))
			w.expect("1", w.ask("get a"))
			if got := w.ask("then a 3"); !strings.HasPrefix(got, "then "+c.want) || !strings.HasSuffix(got, " 1") {
				t.Fatalf("Then saw %q", got)
			}
			if got := w.state(); got != "a=1" {
				t.Fatalf("the machine holds %q", got)
			}
		})
	}
}

func TestAppendsGoOnAfterAFailure(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fault("enospc *.log 1")
	w.expect("NOT_COORDINATOR", w.ask("set a 1"))
	w.expect("ok 2", w.ask("set a 2"))
	if got := w.reloaded(); got != "a=2" || w.state() != got {
		t.Fatalf("the log holds %q, the machine %q", got, w.state())
	}
}

func TestCommitTimeoutKeepsTheState(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.hold()
	set := w.send("set a 1")
	w.advance(3 * time.Second)
	late := w.send("set a 2")
	w.advance(1999 * time.Millisecond)
	w.expect("...", w.got(set))
	w.advance(time.Millisecond)
	w.expect("COORDINATOR_NOT_AVAILABLE", w.got(set))
	w.expect("...", w.got(late))
	get := w.send("get a")
	w.advance(3 * time.Second)
	w.expect("COORDINATOR_NOT_AVAILABLE", w.got(late))
	w.expect("...", w.got(get)) // has a deadline of its own, and may still be told what will be committed
	w.flush()
	w.expect("2", w.got(get))
	if n := w.Counts(); n.Waiting != 0 {
		t.Fatalf("%d requests wait for nothing", n.Waiting)
	}
}

func TestParkedRequests(t *testing.T) {
	w := newWorld(t, worldOptions{})
	first, second := w.send("hold x"), w.send("hold y 700")
	if n := w.Counts(); n.Parked != 2 {
		t.Fatalf("%d requests are parked", n.Parked)
	}
	w.advance(699 * time.Millisecond)
	w.expect("...", w.got(first))
	w.advance(time.Millisecond)
	w.expect("released", w.got(first))
	w.expect("released", w.got(second))
	w.hold()
	third := w.send("hold x")
	w.send("set z 1")
	set := w.send("set r 1")
	release := w.send("release r")
	w.expect("...", w.got(third)) // released, but not before what its scope wrote is committed
	w.expect("...", w.got(release))
	w.flush()
	w.expect("ok 1", w.got(set))
	w.expect("released", w.got(third))
	w.expect("done", w.got(release))
	if n := w.Counts(); n.Parked != 0 {
		t.Fatalf("%d requests are parked", n.Parked)
	}
}

func TestLosingLeadership(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold x")
	w.hold()
	waiting, reading := w.send("set b 1"), w.send("get b")
	w.send("timer late 1000")
	before := w.machines[0]
	w.lead(2)
	for _, p := range []*Pending{parked, waiting, reading} {
		w.expect("NOT_COORDINATOR", w.got(p))
	}
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	w.flush()
	w.advance(time.Minute)
	if len(before.log) != 1 {
		t.Fatalf("a machine without leadership heard of %q", before.log)
	}
	w.lead(1)
	w.expect("b=1,1", strings.TrimPrefix(w.ask("all x"), "a=1 ")+","+w.ask("get a"))
	if w.machines[0] == before {
		t.Fatal("the shard was not loaded anew")
	}
}

// TestSameLeaderKeepsTheShard: a new term of the same leader changes no record, so that who is parked need not start over.
func TestSameLeaderKeepsTheShard(t *testing.T) {
	w := newWorld(t, worldOptions{})
	parked := w.send("hold x")
	w.lead(1)
	w.expect("...", w.got(parked))
	w.expect("ok 1", w.ask("set a 1"))
	w.ask("release x")
	w.expect("released", w.got(parked))
	if got := w.machines[0].log; !slices.Equal(got, []string{"loaded", "image"}) {
		t.Fatalf("heard of %q", got)
	}
}

func TestTopicDeletedAndMadeAnew(t *testing.T) {
	w := newWorld(t, worldOptions{partitions: 3})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold a")
	if n := len(w.Shards()); n != 3 {
		t.Fatalf("%d shards", n)
	}
	w.apply(&metadata.RemoveTopicRecord{TopicID: testTopicID(1)})
	w.expect("NOT_COORDINATOR", w.got(parked))
	if _, ok := w.PartitionFor("a"); ok {
		t.Fatal("a partition of no topic")
	}
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	w.create(2, 5)
	w.expect("", w.ask("get a"))
	if p, ok := w.PartitionFor("a"); !ok || p != partitionOf("a", 5) {
		t.Fatalf("a is in %d, %v", p, ok)
	}
}

// TestTopicReplacedAtOnce: a node that is behind sees the old topic and the new one as one change.
func TestTopicReplacedAtOnce(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold a")
	id := testTopicID(2)
	w.apply(&metadata.RemoveTopicRecord{TopicID: testTopicID(1)}, &metadata.TopicRecord{Name: testTopic, TopicID: id},
		&metadata.PartitionRecord{TopicID: id, Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1,
			Directories: make([]kafka.UUID, 1)})
	w.expect("NOT_COORDINATOR", w.got(parked))
	w.expect("", w.ask("get a"))
	w.expect("ok 2", w.ask("set a 2"))
}

func TestNoTopic(t *testing.T) {
	w := newWorld(t, worldOptions{noTopic: true})
	w.expect("NOT_COORDINATOR", w.ask("get a"))
	if err := w.Inspect("a", func(Machine) {}); kafka.CodeOf(err) != kafka.NotCoordinator {
		t.Fatal(err)
	}
	if c := code(t, w.EndTransaction(Marker{}).Get); c != kafka.NotCoordinator {
		t.Fatal(c)
	}
	if len(w.Each(func() *Pending { return toyRequest("all x") })) != 0 {
		t.Fatal("asked a shard of no topic")
	}
}

func TestClose(t *testing.T) {
	w := newWorld(t, worldOptions{})
	parked := w.send("hold x")
	w.hold()
	set := w.send("set a 1")
	w.Close()
	w.expect("NOT_COORDINATOR", w.got(parked))
	w.expect("...", w.got(set))
	w.expect("COORDINATOR_NOT_AVAILABLE", w.ask("set a 2"))
	end := w.partition().Info().End
	w.advance(time.Minute)
	w.Changed(w.image, nil)
	w.flush()
	w.expect("ok 1", w.got(set)) // by the disk
	if w.partition().Info().End != end || len(w.Shards()) != 0 {
		t.Fatal("something was done after the end")
	}
	w.Close()
}

func TestEachAndInspect(t *testing.T) {
	w := newWorld(t, worldOptions{partitions: 4})
	for i := range 20 {
		w.expect("ok 1", w.ask("set k%d 1", i))
	}
	seen := 0
	for _, p := range w.Each(func() *Pending { return toyRequest("all x") }) {
		a, _ := p.Get()
		seen += len(strings.Fields(text(a)))
	}
	if seen != 20 {
		t.Fatalf("%d keys", seen)
	}
	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		if err := w.Inspect(key, func(m Machine) {
			if m.(*toy).values[key] != "1" {
				t.Errorf("%s is in another shard", key)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBigResults(t *testing.T) {
	w := newWorld(t, worldOptions{configure: func(c *log.Config) { c.MaxMessageBytes = 10_000 }})
	w.expect("UNKNOWN_SERVER_ERROR", w.ask("big a 100 1000"))
	if w.state() != "" || w.partition().Info().End != 0 {
		t.Fatal("a part of an atomic batch was written")
	}
	w.hold()
	big := w.send("big a 100 1000 split")
	w.expect("...", w.got(big))
	w.flush()
	w.expect("big", w.got(big))
	if w.state() != w.reloaded() || len(w.machines[0].values) != 100 {
		t.Fatal("the log and the machine differ")
	}
	w.expect("UNKNOWN_SERVER_ERROR", w.ask("big b 3 20000 split")) // no record fits
}

// TestPartOfASplitResult: what was written before a failure stands, and is applied.
func TestPartOfASplitResult(t *testing.T) {
	w := newWorld(t, worldOptions{configure: func(c *log.Config) { c.MaxMessageBytes = 10_000 }})
	w.fault("enospc *.log 3")
	w.expect("NOT_COORDINATOR", w.ask("big a 100 1000 split"))
	if n := len(w.machines[0].values); n == 0 || n == 100 || w.state() != w.reloaded() {
		t.Fatalf("the machine holds %d records and the log others", n)
	}
}

func TestRecordsAsTheTopicWantsThem(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*log.Config)
		options   func(*Options)
		want      record.Codec
		appended  bool
	}{
		{"as they are", nil, nil, record.Uncompressed, false},
		{"the coordinator's codec", nil, func(o *Options) { o.Codec = record.LZ4 }, record.LZ4, false},
		{"the topic's codec", func(c *log.Config) { c.KeepCodec, c.Codec = false, record.Zstd },
			func(o *Options) { o.Codec = record.LZ4 }, record.Zstd, false},
		{"append time", func(c *log.Config) { c.LogAppendTime = true }, nil, record.Uncompressed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{configure: c.configure, options: c.options})
			w.expect("big", w.ask("big a 3 500"))
			w.expect("ok 1", w.ask("set a 1"))
			for _, b := range w.batches() {
				if b.Codec() != c.want || b.IsLogAppendTime() != c.appended || b.MaxTimestamp() != t0.UnixMilli() || b.CheckCRC() != nil {
					t.Fatalf("codec %d, append time %v, timestamp %d", b.Codec(), b.IsLogAppendTime(), b.MaxTimestamp())
				}
			}
			if w.state() != w.reloaded() {
				t.Fatal("the log and the machine differ")
			}
		})
	}
}

// TestWriteBufferIsUsedAgain: a batch must not change under a reader when the next one is built.
func TestWriteBufferIsUsedAgain(t *testing.T) {
	w := newWorld(t, worldOptions{options: func(o *Options) { o.KeepBytes = func() int { return 1000 } }})
	for i := range 30 {
		w.expect("big", w.ask("big a%d 3 %d", i, 100*(i%7)))
	}
	s := w.table.Load().shards[0]
	if cap(s.buffer) > 1000 {
		t.Fatalf("a buffer of %d bytes is kept", cap(s.buffer))
	}
	if w.state() != w.reloaded() || len(w.machines[0].values) != 90 {
		t.Fatal("the log and the machine differ")
	}
}

// TestManyClients hammers the shards from many goroutines while leadership changes and the disk is slow.
func TestManyClients(t *testing.T) {
	w := newWorld(t, worldOptions{partitions: 3})
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]int{}
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				key := fmt.Sprintf("k%d", g)
				p := w.send("set %s %d", key, i)
				if i%10 == 0 {
					w.send("hold h%d %d", g, i)
					w.send("timer t%d %d", g, i)
				}
				if i%7 == 0 {
					w.send("release h%d", g)
					_ = w.send("get %s", key)
				}
				p.Answer().OnDone(func(a Answer) {
					if a.Err == nil {
						mu.Lock()
						acknowledged[key] = max(acknowledged[key], i)
						mu.Unlock()
					}
				})
			}
		})
	}
	for i := range 30 {
		leader := kafka.NodeID(1 + i%2)
		w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), PartitionID: int32(i) % 3, Leader: &leader})
		w.advance(100 * time.Millisecond)
	}
	wg.Wait()
	leader := kafka.NodeID(1)
	for i := range int32(3) {
		w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), PartitionID: i, Leader: &leader})
	}
	for key, least := range acknowledged {
		var got int
		if _, err := fmt.Sscan(w.ask("get %s", key), &got); err != nil || got < least {
			t.Errorf("%s is %d, and %d was acknowledged", key, got, least)
		}
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was acknowledged")
	}
}

// TestMachineThatBreaks: a panic costs its request an error and its shard a load, and nobody else anything.
func TestMachineThatBreaks(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	parked := w.send("hold a")
	w.expect("UNKNOWN_SERVER_ERROR", w.ask("panic a"))
	w.expect("NOT_COORDINATOR", w.got(parked))
	w.advance(time.Second)
	w.expect("1", w.ask("get a"))
	w.hold()
	late := w.send("late a 2") // is in the log
	w.expect("...", w.got(late))
	w.flush()
	w.expect("ok 2", w.got(late))
	w.advance(time.Second)
	w.expect("2", w.ask("get a"))
	w.expect("UNKNOWN_SERVER_ERROR", w.ask("set broken 1")) // by its own record, which the load leaves out
	w.advance(time.Second)
	w.expect("2", w.ask("get a"))
}
