package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// testOffice answers AssignReplicasToDirs with the codes it was given, one for each request, then with success.
type testOffice struct {
	top, each []kafka.Code
	asked     []*kmsg.AssignReplicasToDirsRequest
}

func (o *testOffice) submit(r kmsg.Request) *promise.Promise[api.ControlReply] {
	q, ok := r.(*kmsg.AssignReplicasToDirsRequest)
	if !ok {
		answer := kmsg.NewPtrBrokerHeartbeatResponse()
		return promise.Done(api.ControlReply{Body: answer})
	}
	n := len(o.asked)
	o.asked = append(o.asked, q)
	code := func(list []kafka.Code) int16 {
		if n < len(list) {
			return int16(list[n])
		}
		return 0
	}
	out := kmsg.NewPtrAssignReplicasToDirsResponse()
	if out.ErrorCode = code(o.top); out.ErrorCode != 0 {
		return promise.Done(api.ControlReply{Body: out})
	}
	for _, d := range q.Directories {
		dir := kmsg.AssignReplicasToDirsResponseDirectory{ID: d.ID}
		for _, t := range d.Topics {
			topic := kmsg.AssignReplicasToDirsResponseDirectoryTopic{TopicID: t.TopicID}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions,
					kmsg.AssignReplicasToDirsResponseDirectoryTopicPartition{Partition: p.Partition, ErrorCode: code(o.each)})
			}
			dir.Topics = append(dir.Topics, topic)
		}
		out.Directories = append(out.Directories, dir)
	}
	return promise.Done(api.ControlReply{Body: out})
}

func desk(t *testing.T, o *testOffice) *lifecycle {
	l := &lifecycle{publisher: newPublisher(), changed: make(chan struct{}, 1), submit: o.submit, remind: o.submit, cordoned: func() []kafka.UUID { return nil },
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), interval: time.Millisecond}
	l.failed = func() (none []kafka.UUID) { return none }
	return l
}

// TestRefusedDirectoryReportsAreMadeAgain, unless the replica is nobody's any more.
func TestRefusedDirectoryReportsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		o     testOffice
		asked int
	}{
		"taken":               {testOffice{}, 1},
		"refused as a whole":  {testOffice{top: []kafka.Code{kafka.StaleBrokerEpoch, kafka.NotController}}, 3},
		"refused each":        {testOffice{each: []kafka.Code{kafka.UnknownServerError}}, 2},
		"topic deleted":       {testOffice{each: []kafka.Code{kafka.UnknownTopicID}}, 1},
		"no replica any more": {testOffice{each: []kafka.Code{kafka.NotLeaderOrFollower}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := desk(t, &c.o)
			l.report([]replica.DirReport{{TopicID: kafka.UUID{1}, Directory: kafka.UUID{2}}})
			for range 5 {
				l.retry(l.assign(t.Context(), l.takeReports()))
			}
			if len(c.o.asked) != c.asked {
				t.Errorf("asked %d times instead of %d", len(c.o.asked), c.asked)
			}
		})
	}
}

// TestLostReplicasAreToldBeforeServing: the request to be unfenced must not overtake them.
func TestLostReplicasAreToldBeforeServing(t *testing.T) {
	o := &testOffice{each: []kafka.Code{kafka.UnknownServerError}}
	l := desk(t, o)
	l.report([]replica.DirReport{{TopicID: kafka.UUID{1}, Directory: kafka.UUID{2}},
		{TopicID: kafka.UUID{3}, Directory: kafka.DirectoryLost}})
	if err := l.giveUpLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(o.asked) != 2 || o.asked[1].Directories[0].ID != kafka.DirectoryLost {
		t.Errorf("asked %d times", len(o.asked))
	}
	if rest := l.takeReports(); len(rest) != 1 || rest[0].Directory != (kafka.UUID{2}) {
		t.Errorf("what can wait: %v", rest)
	}
}

// TestLineage: a metadata log that ends long before its broker was last heard of is a copy's.
func TestLineage(t *testing.T) {
	const session = 3 * time.Second
	me := kafka.UUID{7}
	broker := func(fenced bool) *metadata.Image {
		image, _, err := metadata.New().Apply([]metadata.Record{
			&metadata.RegisterBrokerRecord{BrokerID: 1, IncarnationID: me, BrokerEpoch: 5, Fenced: fenced}})
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	for name, c := range map[string]struct {
		sameEpochMs, laterEpochMs, fencedMs, snapshotMs int64 // 0: no such batch, or no snapshot of the leader's
		stale                                           bool
	}{
		"nothing newer":                         {},
		"a little behind in the same epoch":     {sameEpochMs: 105_000},
		"far behind in the same epoch":          {sameEpochMs: 107_000, stale: true},
		"a later epoch says nothing":            {laterEpochMs: 900_000},
		"fenced in time":                        {laterEpochMs: 900_000, fencedMs: 106_000},
		"fenced long after":                     {fencedMs: 106_001, stale: true},
		"fenced in time, and the epoch went on": {sameEpochMs: 900_000, fencedMs: 103_000},
		"a young snapshot of the leader's":      {snapshotMs: 105_000},
		"a snapshot from long after":            {snapshotMs: 107_000, stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lineage{localEnd: 10, epoch: kafka.NoEpoch}
			l.batch(4, 1, 50_000)
			l.batch(9, 2, 100_000)
			if c.fencedMs > 0 {
				l.image(broker(false), broker(true), 1, c.fencedMs)
			}
			if c.sameEpochMs > 0 {
				l.batch(20, 2, c.sameEpochMs)
			}
			if c.snapshotMs > 0 {
				l.snapshot(25, 3, c.snapshotMs)
			}
			if c.laterEpochMs > 0 {
				l.batch(30, 3, c.laterEpochMs)
			}
			if got := l.stale(me, session); got != c.stale {
				t.Errorf("stale: %t", got)
			}
			want := kafka.BrokerEpoch(5)
			if c.stale {
				want = -1
			}
			stale := func(id kafka.UUID) bool { return l.stale(id, session) }
			got, whose := previousEpoch(&dirs{}, 1, claim{vouched: []kafka.UUID{{9}, me}, image: broker(true), stale: stale})
			if got != want || (whose == me) != (want == 5) {
				t.Errorf("claims epoch %d of %s", got, whose)
			}
		})
	}
}

// TestStopWithoutCommit: a node whose metadata can never be written stops all the same.
func TestStopWithoutCommit(t *testing.T) {
	fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "alloc quorum-state* 1- error ENOSPC")
	if err != nil {
		t.Fatal(err)
	}
	static, err := config.Load([]config.Layer{config.MapLayer("test", map[string]string{"log.dirs": "/data"})}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, Options{Config: static, FS: fs, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), NoAdmin: true,
		Memory: server.NewMemoryListener("test:9092"), NoListen: true})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("started, or failed otherwise: %v", err)
	}
}

// TestGroupSyncErrorOfNobody: an error that the whole file system reports and none of the files has is somebody else's,
// and yet worth a line.
func TestGroupSyncErrorOfNobody(t *testing.T) {
	fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "")
	if err != nil {
		t.Fatal(err)
	}
	meta := log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{1}}
	if err := log.FormatDir(fs, "/data", meta); err != nil {
		t.Fatal(err)
	}
	d, err := log.OpenDir(fs, "/data", meta)
	if err != nil {
		t.Fatal(err)
	}
	c := log.DefaultConfig()
	l, err := d.Create(kafka.TopicPartition{Topic: "t"}, &c, log.CreateOptions{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Add("syncall * 1 error EIO"); err != nil {
		t.Fatal(err)
	}
	var text safeText
	f := newFlusher(d, nil, slog.New(slog.NewTextHandler(&text, nil)), time.Now, 1, nil)
	errs, group := f.sync([]log.FlushToken{l.Dirty()})
	if group || errs[0] != nil {
		t.Fatalf("errors %v, as a group %t", errs, group)
	}
	if !strings.Contains(text.String(), "input/output error") {
		t.Errorf("logged: %q", text.String())
	}
}

// safeText is a buffer for several goroutines.
type safeText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestForgottenBroker: a running broker that somebody unregistered registers again, as the incarnation that it is, and takes
// part as before.
func TestForgottenBroker(t *testing.T) {
	c := staticCluster(t, 3)
	c.start()
	c.create(1, "before", 1, 3)
	gone := c.other(c.active())
	before := c.nodes[gone].lifecycle.brokerEpoch()
	r := kmsg.NewPtrUnregisterBrokerRequest()
	r.BrokerID = int32(gone)
	if resp := ask[*kmsg.UnregisterBrokerResponse](c, c.active(), r); resp.ErrorCode != 0 {
		t.Fatal(kafka.Code(resp.ErrorCode).Name())
	}
	c.eventually("the broker is registered anew and in service", func() bool {
		b, ok := c.nodes[c.active()].publisher.Image().Broker(gone)
		return ok && b.Epoch > before && !b.Fenced && b.Epoch == c.nodes[gone].lifecycle.brokerEpoch() &&
			b.Incarnation == c.nodes[gone].lifecycle.instance
	})
	c.create(gone, "after", 3, 3)
	c.eventually("its replicas are in sync", func() bool {
		for _, topic := range []string{"before", "after"} {
			p, ok := c.nodes[gone].publisher.Image().Partition(kafka.TopicPartition{Topic: topic})
			if !ok || len(p.ISR) != 3 {
				return false
			}
		}
		return true
	})
	c.stop(gone)
}
