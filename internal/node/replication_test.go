package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/edge/peer"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// flock is brokers that copy from each other inside the process: whole nodes as far as partitions, flushing and handlers
// go, a controller that is its decisions and nothing else, and no sockets.
type flock struct {
	t     *testing.T
	rnd   *rand.Rand
	nodes []*Node
	rows  []map[int16]server.API

	mu    sync.Mutex
	image *metadata.Image
	live  *controller.Liveness
	cut   map[kafka.NodeID]bool
}

var flockTopic = kafka.UUID{0: 7, 15: 200}

func newFlock(t *testing.T, brokers int, settings map[string]string) *flock {
	f := &flock{t: t, rnd: rand.New(rand.NewPCG(1, 2)), image: metadata.New(), live: controller.NewLiveness(),
		cut: map[kafka.NodeID]bool{}}
	var records []metadata.Record
	records = append(records, &metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature,
		Level: metadata.LatestMetadataVersion})
	for id := range kafka.NodeID(brokers) {
		n := f.newNode(id+1, settings)
		f.nodes = append(f.nodes, n)
		records = append(records, &metadata.RegisterBrokerRecord{BrokerID: n.self.ID, IncarnationID: newUUID(),
			BrokerEpoch: 100 + kafka.BrokerEpoch(id), LogDirs: []kafka.UUID{n.dirs.metadata.Meta().DirectoryID},
			Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "nowhere", Port: 1}}})
	}
	f.mu.Lock()
	f.apply(records...)
	f.mu.Unlock()
	for _, n := range f.nodes {
		n.publisher.activate()
	}
	t.Cleanup(f.close)
	return f
}

func (f *flock) newNode(id kafka.NodeID, settings map[string]string) *Node {
	all := map[string]string{"log.dirs": "/data", "node.id": fmt.Sprint(id)}
	for k, v := range settings {
		all[k] = v
	}
	static, err := config.Load([]config.Layer{config.MapLayer("test", all)}, config.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	o := Options{Config: static, FS: vfs.NewMem(vfs.MemOptions{}), Log: slog.New(slog.NewTextHandler(f.t.Output(), nil))}.withDefaults()
	n := &Node{o: o, config: static, self: static.Node(), log: o.Log, stopping: make(chan struct{}), ended: make(chan struct{}),
		failed: make(chan struct{}), dirError: map[*log.Dir]error{}, flushers: map[*log.Dir]*flusher{}, started: o.Now()}
	if err := n.openStorage(); err != nil {
		f.t.Fatal(err)
	}
	n.lifecycle = &lifecycle{changed: make(chan struct{}, 1)} // keeps reports for the test
	n.inSync.submit = f.submit
	n.replication.send = func(to kafka.NodeID, _ string, r kmsg.Request) *promise.Promise[peer.Answer] { return f.ask(id, to, r) }
	b := &api.Broker{Self: id, Config: static, Log: o.Log, Now: o.Now, NewUUID: newUUID, Image: n.publisher.Image,
		Partitions: n.manager, Host: n, After: n.after, Metrics: n.metrics.handlers(), Groups: n.coordinators.groups,
		Transactions: n.coordinators.txns, Advertised: n.advertised, LeaderQuota: n.throttles.leader}
	rows := map[int16]server.API{}
	for _, r := range b.Rows() {
		rows[r.Key] = r
	}
	f.rows = append(f.rows, rows)
	return n
}

func (f *flock) close() {
	for _, n := range f.nodes {
		close(n.stopping)
	}
	for _, n := range f.nodes {
		_ = n.close(false, false)
	}
}

// apply makes records the newest image of everybody. The caller holds f.mu.
func (f *flock) apply(rs ...metadata.Record) {
	next, diff, err := f.image.Apply(rs)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.image = next.WithPosition(f.image.Offset()+kafka.Offset(len(rs)), 1, time.Now().UnixMilli())
	for _, n := range f.nodes {
		n.publisher.publish(published{image: f.image, diff: diff})
	}
}

// submit answers what nodes ask of the controller, before their images show it.
func (f *flock) submit(body kmsg.Request) *promise.Promise[api.ControlReply] {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := controller.Handle(time.Now(), controller.State{Image: f.image, Liveness: f.live, NextOffset: f.image.Offset() + 1,
		Epoch: 1, Settings: controller.SettingsFrom(f.nodes[0].config)}, controller.Request{Principal: kafka.Anonymous, Body: body}, f.rnd)
	f.apply(out.Records...)
	return promise.Done(api.ControlReply{Body: out.Reply})
}

// ask carries a request from one node to another's handler, by way of its wire form.
func (f *flock) ask(from, to kafka.NodeID, r kmsg.Request) *promise.Promise[peer.Answer] {
	f.mu.Lock()
	cut := f.cut[from] || f.cut[to]
	f.mu.Unlock()
	if cut {
		return promise.Done(peer.Answer{Err: kafka.NetworkException})
	}
	decoded := kmsg.RequestForKey(r.Key())
	decoded.SetVersion(r.GetVersion())
	if err := decoded.ReadFrom(r.AppendTo(nil)); err != nil {
		f.t.Error(err)
	}
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	c := &server.Call{Conn: server.NewConnInfo("PLAINTEXT", server.BrokerListener, address, address), Key: r.Key(),
		Version: r.GetVersion(), Now: time.Now()}
	return promise.Map(f.rows[to-1][r.Key()].Handle(c, decoded), func(reply server.Reply) peer.Answer {
		body := r.ResponseKind()
		body.SetVersion(r.GetVersion())
		if err := body.ReadFrom(wireOf(f.t, r.GetVersion(), reply)); err != nil {
			return peer.Answer{Err: err}
		}
		return peer.Answer{Body: body}
	})
}

// wireOf gives the bytes of a reply's body and releases it.
func wireOf(t *testing.T, version int16, r server.Reply) (out []byte) {
	if r.Release != nil {
		defer r.Release()
	}
	if r.Body != nil {
		r.Body.SetVersion(version)
		return r.Body.AppendTo(nil)
	}
	for _, s := range r.Segments {
		out = append(out, s.Bytes...)
		if x, ok := s.Extents.(*log.Extents); ok && x != nil {
			b, err := x.ReadAll()
			if err != nil {
				t.Error(err)
			}
			out = append(out, b...)
		}
	}
	return out
}

// topic makes partitions that the nodes lead in turn, with all of them as replicas and the given in-sync set.
func (f *flock) topic(partitions int, isr ...kafka.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := []metadata.Record{&metadata.TopicRecord{Name: "t", TopicID: flockTopic}}
	for i := range partitions {
		var ids []kafka.NodeID
		var dirs []kafka.UUID
		for j := range f.nodes {
			n := f.nodes[(i+j)%len(f.nodes)]
			ids, dirs = append(ids, n.self.ID), append(dirs, n.dirs.metadata.Meta().DirectoryID)
		}
		in := isr
		if len(isr) == 0 {
			in = ids[:1]
		}
		rs = append(rs, &metadata.PartitionRecord{PartitionID: int32(i), TopicID: flockTopic, Replicas: ids, ISR: in, Leader: ids[0],
			Directories: dirs})
	}
	f.apply(rs...)
}

// state is what the newest image says of a partition.
func (f *flock) state(i int) *metadata.Partition {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, _ := f.image.Partition(kafka.TopicPartition{Topic: "t", Partition: int32(i)})
	return s
}

func (f *flock) elect(i int, leader kafka.NodeID, isr ...kafka.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apply(&metadata.PartitionChangeRecord{PartitionID: int32(i), TopicID: flockTopic, Leader: &leader, ISR: isr})
}

func (f *flock) replica(id kafka.NodeID, i int) *replica.Partition {
	p, _ := f.nodes[id-1].manager.Get(kafka.TopicPartition{Topic: "t", Partition: int32(i)})
	return p
}

// produce appends with acks=all on a node; the promise tells the offset, or why it failed.
func (f *flock) produce(id kafka.NodeID, i int, value string) *promise.Promise[replica.AppendResult] {
	out := &promise.Promise[replica.AppendResult]{}
	b := record.NewBuilder(record.Options{})
	b.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
	batch, err := b.Build()
	if err != nil {
		f.t.Fatal(err)
	}
	p := f.replica(id, i)
	if p == nil {
		return promise.Done(replica.AppendResult{Err: kafka.NotLeaderOrFollower})
	}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) { out.Set(w.Result) }}
	e, err := p.Append(time.Now(), replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}}, w)
	e.Run(f.nodes[id-1])
	if err != nil {
		out.Set(replica.AppendResult{Err: err})
	}
	return out
}

func (f *flock) eventually(what string, cond func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: did not come about; partition 0 is %+v", what, f.state(0))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (f *flock) acknowledged(p *promise.Promise[replica.AppendResult]) {
	f.t.Helper()
	f.eventually("acknowledgement", func() bool { _, ok := p.Get(); return ok })
	if r, _ := p.Get(); r.Err != nil {
		f.t.Fatal(r.Err)
	}
}

// content gives a replica's bytes.
func (f *flock) content(id kafka.NodeID, i int) []byte {
	v := f.replica(id, i).Log().View()
	if v.Start == v.End {
		return nil
	}
	x, err := v.Read(v.Start, v.End, 1<<30, true)
	if err != nil {
		return nil
	}
	defer x.Release()
	b, _ := x.ReadAll()
	return bytes.Clone(b)
}

// stored gives a replica's values by offset.
func (f *flock) stored(id kafka.NodeID, i int) map[kafka.Offset]string {
	f.t.Helper()
	out := map[kafka.Offset]string{}
	for b := f.content(id, i); len(b) > 0; {
		batch, rest, err := record.Split(b)
		if err != nil {
			f.t.Fatal(err)
		}
		for r, err := range batch.Records(record.Limits{}) {
			if err != nil {
				f.t.Fatal(err)
			}
			out[r.Offset] = string(r.Value)
		}
		b = rest
	}
	return out
}

// same waits until all replicas of a partition have the same.
func (f *flock) same(i int) {
	f.t.Helper()
	f.eventually("replicas that are the same", func() bool {
		first := f.content(1, i)
		for _, n := range f.nodes[1:] {
			if !bytes.Equal(first, f.content(n.self.ID, i)) {
				return false
			}
		}
		return true
	})
}

func TestFollowersJoinAndAreWaitedFor(t *testing.T) {
	f := newFlock(t, 3, map[string]string{"replica.lag.time.max.ms": "400", "replica.fetch.wait.max.ms": "100",
		"replica.socket.timeout.ms": "1000", "min.insync.replicas": "2"})
	f.topic(4)
	for i := range 4 {
		f.eventually("all in sync", func() bool { return len(f.state(i).ISR) == 3 })
		f.acknowledged(f.produce(f.state(i).Leader, i, "a"))
		f.same(i)
	}
	began := time.Now()
	for n := range 20 {
		f.acknowledged(f.produce(1, 0, fmt.Sprint(n)))
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 acknowledgements took %v", took)
	}

	f.mu.Lock()
	f.cut[3] = true
	f.mu.Unlock()
	late := f.produce(1, 0, "late")
	if _, ok := late.Get(); ok {
		t.Fatal("acknowledged without a member of the in-sync set")
	}
	f.eventually("a set without the node that was cut off", func() bool {
		f.nodes[0].upkeep.tick()
		return slices.Equal(f.state(0).ISR, []kafka.NodeID{1, 2})
	})
	f.acknowledged(late)
	f.mu.Lock()
	f.cut[3] = false
	f.mu.Unlock()
	f.eventually("the node is back in sync", func() bool { return len(f.state(0).ISR) == 3 })
	f.same(0)
	for _, n := range f.nodes {
		m := scrape(t, n.o.Metrics)
		for _, name := range []string{"moldau_isr_changes_total", "moldau_replica_fetchers", "moldau_replica_copied_bytes_total", "moldau_replica_sent_bytes_total"} {
			if m[name] == 0 {
				t.Errorf("%s has not moved on node %d", name, n.self.ID)
			}
		}
	}
}

func TestLeadershipMoves(t *testing.T) {
	f := newFlock(t, 3, map[string]string{"replica.fetch.wait.max.ms": "50", "num.replica.fetchers": "2", "min.insync.replicas": "2"})
	f.topic(2, 1, 2, 3)
	rnd := rand.New(rand.NewPCG(4, 5))
	acked := map[string]kafka.Offset{}
	pending := map[string]*promise.Promise[replica.AppendResult]{}
	end := time.Now().Add(2500 * time.Millisecond)
	for n := 0; time.Now().Before(end); n++ {
		value := fmt.Sprint("value ", n)
		pending[value] = f.produce(f.state(0).Leader, 0, value)
		if rnd.IntN(40) == 0 {
			isr := f.state(0).ISR
			f.elect(0, isr[rnd.IntN(len(isr))])
		}
		for v, p := range pending {
			if r, ok := p.Get(); ok {
				delete(pending, v)
				if r.Err == nil {
					acked[v] = r.First
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	f.same(0)
	f.eventually("all in sync", func() bool { return len(f.state(0).ISR) == 3 })
	stored := f.stored(1, 0)
	for v, at := range acked {
		if stored[at] != v {
			t.Errorf("%q was acknowledged at %d, where %q is", v, at, stored[at])
		}
	}
	t.Logf("%d acknowledged, leader epoch %d", len(acked), f.state(0).LeaderEpoch)
	if len(acked) < 50 {
		t.Errorf("only %d were acknowledged", len(acked))
	}
}
