package replica

import (
	"errors"
	"strings"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

func one() ([]kafka.NodeID, []kafka.NodeID) { return []kafka.NodeID{1}, []kafka.NodeID{1} }

func (o *outcome) want(t *testing.T, done int, err error) {
	t.Helper()
	if o.done != done || (done > 0 && !errors.Is(o.Result.Err, err) && !(err == nil && o.Result.Err == nil)) {
		t.Fatalf("completed %d times with %v, want %d times with %v", o.done, o.Result.Err, done, err)
	}
}

func TestAcknowledgedOnlyWhenDurable(t *testing.T) {
	for _, acks := range []Acks{AcksLeader, AcksAll} {
		replicas, isr := one()
		r := newRig(t, nil, replicas, isr)
		o, err := r.append(t, acks, batch(t, "a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		o.want(t, 0, nil)
		if hw := r.p.HighWatermark(); hw != 0 {
			t.Fatalf("acks=%d: high watermark %d before the sync", acks, hw)
		}
		r.desk.flush(t, t0)
		o.want(t, 1, nil)
		if o.Result.First != 0 || r.p.HighWatermark() != 2 {
			t.Fatalf("first %d, high watermark %d", o.Result.First, r.p.HighWatermark())
		}
	}
}

func TestAsyncAcknowledgesAtOnce(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, func(c *log.Config) { c.FlushAsync = true }, replicas, isr)
	o, _ := r.append(t, AcksAll, batch(t, "a"))
	o.want(t, 1, nil)
	if len(r.desk.flushes) != 0 {
		t.Fatal("async asked for a flush")
	}
}

func TestFlushMessages(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, func(c *log.Config) { c.FlushAsync, c.FlushMessages = true, 3 }, replicas, isr)
	_, _ = r.append(t, AcksLeader, batch(t, "a", "b"))
	if len(r.desk.flushes) != 0 {
		t.Fatal("flushed below flush.messages")
	}
	_, _ = r.append(t, AcksLeader, batch(t, "c"))
	if len(r.desk.flushes) != 1 {
		t.Fatal("not flushed at flush.messages")
	}
}

func TestFlushMs(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, func(c *log.Config) { c.FlushAsync, c.FlushMs = true, 100 }, replicas, isr)
	_, _ = r.append(t, AcksLeader, batch(t, "a"))
	r.desk.run(r.p.Tick(t0.Add(99*time.Millisecond), time.Minute))
	if len(r.desk.flushes) != 0 {
		t.Fatal("flushed before flush.ms")
	}
	r.desk.run(r.p.Tick(t0.Add(100*time.Millisecond), time.Minute))
	if len(r.desk.flushes) != 1 {
		t.Fatal("not flushed at flush.ms")
	}
}

func TestHighWatermarkIsTheLeastOfTheISR(t *testing.T) {
	r := newRig(t, func(c *log.Config) { c.MinInsyncReplicas = 2 }, []kafka.NodeID{1, 2, 3}, []kafka.NodeID{1, 2, 3})
	o, err := r.append(t, AcksAll, batch(t, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(id kafka.NodeID, offset kafka.Offset) {
		r.desk.run(r.p.Fetched(t0, FollowerFetch{Replica: id, LeaderEpoch: 3, Offset: offset, Epoch: 1}, nil))
	}
	fetch(2, 2)
	fetch(3, 1)
	if hw := r.p.HighWatermark(); hw != 0 {
		t.Fatalf("high watermark %d before the leader's own sync", hw)
	}
	r.desk.flush(t, t0)
	if hw := r.p.HighWatermark(); hw != 1 {
		t.Fatalf("high watermark %d, want the least follower's 1", hw)
	}
	o.want(t, 0, nil)
	fetch(3, 2)
	o.want(t, 1, nil)
}

func TestMinISR(t *testing.T) {
	r := newRig(t, func(c *log.Config) { c.MinInsyncReplicas = 2 }, []kafka.NodeID{1, 2}, []kafka.NodeID{1})
	if _, err := r.append(t, AcksAll, batch(t, "a")); !errors.Is(err, kafka.NotEnoughReplicas) {
		t.Fatalf("acks=all below min ISR gives %v", err)
	}
	o, err := r.append(t, AcksLeader, batch(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	r.desk.flush(t, t0)
	o.want(t, 1, nil)
	if hw := r.p.HighWatermark(); hw != 0 {
		t.Fatalf("high watermark %d moved below min ISR", hw)
	}
	// A topic with fewer replicas than min.insync.replicas asks for is writable.
	single := newRig(t, func(c *log.Config) { c.MinInsyncReplicas = 2 }, []kafka.NodeID{1}, []kafka.NodeID{1})
	if _, err := single.append(t, AcksAll, batch(t, "a")); err != nil {
		t.Fatalf("RF 1 with min ISR 2 gives %v", err)
	}
}

func TestISRShrinksBelowMinWhileWaiting(t *testing.T) {
	r := newRig(t, func(c *log.Config) { c.MinInsyncReplicas = 2 }, []kafka.NodeID{1, 2}, []kafka.NodeID{1, 2})
	o, _ := r.append(t, AcksAll, batch(t, "a"))
	r.desk.flush(t, t0)
	r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1}, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 6})
	o.want(t, 0, nil) // the watermark is frozen: nobody may be told yes
	if hw := r.p.HighWatermark(); hw != 0 {
		t.Fatalf("high watermark %d", hw)
	}
}

func TestLosingLeadershipFailsWaiters(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	a, _ := r.append(t, AcksLeader, batch(t, "a"))
	b, _ := r.append(t, AcksAll, batch(t, "b"))
	r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: kafka.NoNode, LeaderEpoch: 4, PartitionEpoch: 6})
	a.want(t, 1, kafka.NotLeaderOrFollower)
	b.want(t, 1, kafka.NotLeaderOrFollower)
	r.desk.flush(t, t0)
	a.want(t, 1, kafka.NotLeaderOrFollower)
	if _, err := r.append(t, AcksLeader, batch(t, "c")); !errors.Is(err, kafka.NotLeaderOrFollower) {
		t.Fatalf("append without leadership gives %v", err)
	}
}

func TestFailedSyncAcknowledgesNothing(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	o, _ := r.append(t, AcksAll, batch(t, "a"))
	r.desk.flushWith(t, t0, func(x log.FlushToken) error { x.Drop(); return errors.New("EIO") })
	if len(r.desk.failed) != 1 {
		t.Fatalf("the host heard of %d failures", len(r.desk.failed))
	}
	o.want(t, 0, nil)
	r.desk.run(r.p.Fail())
	o.want(t, 1, kafka.KafkaStorageError)
	if _, err := r.append(t, AcksLeader, batch(t, "b")); !errors.Is(err, kafka.KafkaStorageError) {
		t.Fatalf("append after the failure gives %v", err)
	}
	if got := r.p.Read(ReadSpec{Replica: kafka.NoNode, LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch}); !errors.Is(got.Err, kafka.KafkaStorageError) {
		t.Fatalf("read after the failure gives %v", got.Err)
	}
}

func TestFullDisk(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	o, _ := r.append(t, AcksLeader, batch(t, "a"))
	r.desk.flush(t, t0)
	o.want(t, 1, nil)
	r.fs.SetCapacity(1)
	if _, err := r.append(t, AcksLeader, batch(t, strings.Repeat("b", 100_000))); !errors.Is(err, kafka.KafkaStorageError) || !vfs.IsNoSpace(err) {
		t.Fatalf("append to a full disk gives %v", err)
	}
	if r.desk.full != 1 || len(r.desk.failed) != 0 {
		t.Fatalf("full %d, failed %d", r.desk.full, len(r.desk.failed))
	}
	r.fs.SetCapacity(0)
	o, err := r.append(t, AcksLeader, batch(t, "b"))
	if err != nil || o.Result.First != 1 {
		t.Fatalf("append after space came back: %v at %d", err, o.Result.First)
	}
}

func TestExpire(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	a, _ := r.append(t, AcksAll, batch(t, "a"))
	b, _ := r.append(t, AcksAll, batch(t, "b"))
	c, _ := r.append(t, AcksAll, batch(t, "c"))
	r.desk.run(r.p.Expire(&b.AppendWaiter))
	b.want(t, 1, kafka.RequestTimedOut)
	r.desk.flush(t, t0)
	a.want(t, 1, nil)
	b.want(t, 1, kafka.RequestTimedOut)
	c.want(t, 1, nil)
	r.desk.run(r.p.Expire(&c.AppendWaiter))
	c.want(t, 1, nil)
}

func TestISRExpandsAndShrinks(t *testing.T) {
	r := newRig(t, nil, []kafka.NodeID{1, 2}, []kafka.NodeID{1})
	_, _ = r.append(t, AcksLeader, batch(t, "a", "b"))
	r.desk.flush(t, t0)
	eligible := func(id kafka.NodeID) (kafka.BrokerEpoch, bool) { return 40, id == 2 }
	fetch := func(now time.Time, offset kafka.Offset, epoch kafka.BrokerEpoch) {
		r.desk.run(r.p.Fetched(now, FollowerFetch{Replica: 2, LeaderEpoch: 3, Offset: offset, Epoch: epoch}, eligible))
	}
	fetch(t0, 1, 40)
	if len(r.desk.proposals) != 0 {
		t.Fatal("proposed a follower below the high watermark")
	}
	fetch(t0, 2, 39)
	if len(r.desk.proposals) != 0 {
		t.Fatal("proposed an old incarnation")
	}
	fetch(t0, 2, 40)
	if len(r.desk.proposals) != 1 || len(r.desk.proposals[0].ISR) != 2 {
		t.Fatalf("proposals %v", r.desk.proposals)
	}
	fetch(t0, 2, 40)
	if len(r.desk.proposals) != 1 {
		t.Fatal("a second proposal while one is in flight")
	}
	// While it is in flight the new member holds the high watermark back.
	_, _ = r.append(t, AcksLeader, batch(t, "c"))
	r.desk.flush(t, t0)
	if hw := r.p.HighWatermark(); hw != 2 {
		t.Fatalf("high watermark %d ignores a pending member", hw)
	}
	r.assign(&metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1, 2}, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 6})
	lag := 30 * time.Second
	r.desk.run(r.p.Tick(t0.Add(lag), lag))
	if len(r.desk.proposals) != 1 {
		t.Fatal("shrunk within the lag time")
	}
	r.desk.run(r.p.Tick(t0.Add(lag+time.Millisecond), lag))
	if len(r.desk.proposals) != 2 || len(r.desk.proposals[1].ISR) != 1 {
		t.Fatalf("proposals %v", r.desk.proposals)
	}
}

func TestReadBoundsAndFencing(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	_, _ = r.append(t, AcksLeader, batch(t, "a", "b"))
	read := func(s ReadSpec) ReadResult {
		out := r.p.Read(s)
		t.Cleanup(out.Extents.Release)
		return out
	}
	spec := ReadSpec{Replica: kafka.NoNode, MaxBytes: 1 << 20, WholeBatch: true, LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch}
	if got := read(spec); got.Err != nil || got.Extents.Size() != 0 {
		t.Fatalf("a consumer saw %d undurable bytes, error %v", got.Extents.Size(), got.Err)
	}
	asReplica := spec
	asReplica.Replica = 2
	if got := read(asReplica); got.Err != nil || got.Extents.Size() == 0 {
		t.Fatalf("a replica saw %d bytes, error %v", got.Extents.Size(), got.Err)
	}
	r.desk.flush(t, t0)
	if got := read(spec); got.Extents.Size() == 0 || got.HighWatermark != 2 {
		t.Fatalf("a consumer saw %d bytes below %d", got.Extents.Size(), got.HighWatermark)
	}
	for _, c := range []struct {
		name string
		edit func(*ReadSpec)
		want error
	}{
		{"beyond the end", func(s *ReadSpec) { s.Offset = 3 }, kafka.OffsetOutOfRange},
		{"below the start", func(s *ReadSpec) { s.Offset = -1 }, kafka.OffsetOutOfRange},
		{"old epoch", func(s *ReadSpec) { s.LeaderEpoch = 2 }, kafka.FencedLeaderEpoch},
		{"new epoch", func(s *ReadSpec) { s.LeaderEpoch = 4 }, kafka.UnknownLeaderEpoch},
		{"own epoch", func(s *ReadSpec) { s.LeaderEpoch = 3 }, nil},
		{"at the end", func(s *ReadSpec) { s.Offset = 2 }, nil},
		{"unknown last epoch", func(s *ReadSpec) { s.LastEpoch = 9 }, kafka.OffsetOutOfRange},
	} {
		s := spec
		c.edit(&s)
		if got := read(s); !errors.Is(got.Err, c.want) && (got.Err != nil || c.want != nil) {
			t.Errorf("%s: %v, want %v", c.name, got.Err, c.want)
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	_, _ = r.append(t, AcksLeader, batch(t, "a", "b", "c"))
	r.desk.flush(t, t0)
	for _, c := range []struct {
		offset kafka.Offset
		low    kafka.Offset
		want   error
	}{{1, 1, nil}, {4, 0, kafka.OffsetOutOfRange}, {-2, 0, kafka.OffsetOutOfRange}, {0, 1, nil}, {-1, 3, nil}} {
		low, e, err := r.p.DeleteRecords(t0, c.offset)
		r.desk.run(e)
		if c.want != nil {
			if !errors.Is(err, c.want) {
				t.Fatalf("offset %d gives %v, want %v", c.offset, err, c.want)
			}
			continue
		}
		if err != nil || low != c.low {
			t.Fatalf("offset %d gives %d, %v, want %d", c.offset, low, err, c.low)
		}
	}
	compacted := newRig(t, func(c *log.Config) { c.Delete, c.Compact = false, true }, replicas, isr)
	if _, _, err := compacted.p.DeleteRecords(t0, -1); !errors.Is(err, kafka.PolicyViolation) {
		t.Fatalf("compact only gives %v", err)
	}
}

func TestWatcherWakesOnceVisible(t *testing.T) {
	replicas, isr := one()
	r := newRig(t, nil, replicas, isr)
	consumer, follower := 0, 0
	c := &Watcher{OnMove: func(*Partition) { consumer++ }}
	f := &Watcher{OnMove: func(*Partition) { follower++ }, Replica: true}
	r.p.Watch(c)
	r.p.Watch(f)
	_, _ = r.append(t, AcksLeader, batch(t, "a"))
	if consumer != 0 || follower != 1 {
		t.Fatalf("after the append: consumer %d, follower %d", consumer, follower)
	}
	r.desk.flush(t, t0)
	if consumer != 1 {
		t.Fatalf("after the sync: consumer %d", consumer)
	}
	r.p.Unwatch(c)
	_, _ = r.append(t, AcksLeader, batch(t, "b"))
	r.desk.flush(t, t0)
	if consumer != 1 {
		t.Fatal("woken after Unwatch")
	}
}

func TestUnreadableDiskIsReported(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	faulty, err := vfs.Faulty(mem, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t, faulty)
	c := log.DefaultConfig()
	l, err := dir.Create(orders, &c, log.CreateOptions{TopicID: topic}, t0)
	if err != nil {
		t.Fatal(err)
	}
	var reported []error
	d := &desk{}
	p := newPartition(1, orders, topic, l, 0, &Limits{ReadFailed: func(_ *log.Dir, err error) { reported = append(reported, err) }})
	r := &rig{dir: dir, desk: d, p: p}
	replicas, isr := one()
	r.assign(&metadata.Partition{Replicas: replicas, ISR: isr, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 5})
	for range 3 {
		_, _ = r.append(t, AcksLeader, batch(t, "a", "b"))
	}
	d.flush(t, t0)
	for range 2 { // the second call closes what was not used since the first
		_, e := p.CloseIdle()
		d.run(e)
		d.flush(t, t0)
	}
	if _, err := faulty.Add("open *.log error EIO"); err != nil {
		t.Fatal(err)
	}
	got := p.Read(ReadSpec{Replica: kafka.NoNode, Offset: 2, MaxBytes: 100, LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if !errors.Is(got.Err, kafka.KafkaStorageError) || len(reported) != 1 {
		t.Fatalf("a read of a broken disk gives %v and reports %v", got.Err, reported)
	}
}
