package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/kafka"
)

// world drives the controller as a node does: every record of a result is applied at once.
type world struct {
	t        testing.TB
	now      time.Time
	image    *metadata.Image
	liveness *Liveness
	next     kafka.Offset
	settings *Settings
	rnd      *rand.Rand
	written  []metadata.Record // of the last step
}

// founded are the bootstrap records of a cluster that Kafka 4.4 formats with the features this project starts
// with.
func founded() []metadata.Record {
	return []metadata.Record{
		&metadata.FeatureLevelRecord{Name: "metadata.version", Level: 33},
		&metadata.FeatureLevelRecord{Name: "eligible.leader.replicas.version", Level: 1},
		&metadata.FeatureLevelRecord{Name: "group.version", Level: 1},
		&metadata.FeatureLevelRecord{Name: "transaction.version", Level: 2},
	}
}

func newWorld(t testing.TB, bootstrap []metadata.Record, properties ...string) *world {
	t.Helper()
	w := &world{t: t, now: time.UnixMilli(1_000_000), image: metadata.New(), next: 1,
		settings: SettingsFrom(static(t, properties...)), rnd: rand.New(rand.NewPCG(1, 2))}
	w.activate(bootstrap)
	return w
}

func static(t testing.TB, properties ...string) *config.Static {
	t.Helper()
	layer, err := config.SetLayer(properties)
	if err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]config.Layer{layer}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// activate begins a new term.
func (w *world) activate(bootstrap []metadata.Record) {
	w.t.Helper()
	w.liveness = NewLiveness()
	w.next++ // LeaderChange
	w.apply(Activate(w.now, w.state(), bootstrap))
}

func (w *world) state() State {
	return State{Image: w.image, Liveness: w.liveness, NextOffset: w.next, Epoch: 1, Settings: w.settings}
}

func (w *world) apply(r Result) kmsg.Response {
	w.t.Helper()
	w.written = r.Records
	image, _, err := w.image.Apply(r.Records)
	if err != nil {
		w.t.Fatalf("the controller's records do not apply: %v", err)
	}
	w.image = image
	w.next += kafka.Offset(len(r.Records))
	return r.Reply
}

// do hands a request in, at its highest version unless it has one.
func (w *world) do(r kmsg.Request) kmsg.Response {
	w.t.Helper()
	return w.ask(Request{Principal: kafka.Anonymous, Body: r})
}

func (w *world) ask(r Request) kmsg.Response {
	w.t.Helper()
	if !Handles(r.Body.Key()) {
		w.t.Fatalf("%T is not handled", r.Body)
	}
	reply := w.apply(Handle(w.now, w.state(), r, w.rnd))
	if reply == nil {
		w.t.Fatalf("no reply to %T", r.Body)
	}
	if reply.GetVersion() != r.Body.GetVersion() {
		w.t.Fatalf("reply of version %d to %d", reply.GetVersion(), r.Body.GetVersion())
	}
	return reply
}

func (w *world) tick(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.apply(Tick(w.now, w.state(), w.rnd))
}

func directory(broker kafka.NodeID, n byte) kafka.UUID {
	return kafka.UUID{0: 0xd1, 14: byte(broker), 15: n}
}

// registration is what a broker of this project sends.
func (w *world) registration(id kafka.NodeID, incarnation byte, previous kafka.BrokerEpoch) *kmsg.BrokerRegistrationRequest {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.IncarnationID, r.PreviousBrokerEpoch = int32(id), kafka.UUID{0: incarnation, 15: byte(id)}, int64(previous)
	r.LogDirs = [][16]byte{directory(id, 1)}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "host", 9092
	r.Listeners = append(r.Listeners, l)
	for _, f := range metadata.Features() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, x)
	}
	return r
}

func (w *world) register(id kafka.NodeID, incarnation byte, previous kafka.BrokerEpoch) kafka.BrokerEpoch {
	w.t.Helper()
	r := w.do(w.registration(id, incarnation, previous)).(*kmsg.BrokerRegistrationResponse)
	if r.ErrorCode != 0 {
		w.t.Fatalf("registration: %v", kafka.Code(r.ErrorCode))
	}
	return kafka.BrokerEpoch(r.BrokerEpoch)
}

func (w *world) beat(id kafka.NodeID, fence, shutdown bool) *kmsg.BrokerHeartbeatResponse {
	w.t.Helper()
	b, _ := w.image.Broker(id)
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset = int32(id), int64(b.Epoch), int64(w.next-1)
	r.WantFence, r.WantShutdown = fence, shutdown
	return w.do(r).(*kmsg.BrokerHeartbeatResponse)
}

// up registers brokers and takes them into service.
func (w *world) up(ids ...kafka.NodeID) {
	w.t.Helper()
	for _, id := range ids {
		w.register(id, 1, -1)
		if r := w.beat(id, false, false); r.ErrorCode != 0 || r.IsFenced {
			w.t.Fatalf("broker %d: %+v", id, r)
		}
	}
}

// create makes a topic whose partitions have the given replicas.
func (w *world) create(name string, replicas ...[]int32) {
	w.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.SetVersion(r.MaxVersion())
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	for i, ids := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), ids
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	r.Topics = append(r.Topics, topic)
	if x := w.do(r).(*kmsg.CreateTopicsResponse).Topics[0]; x.ErrorCode != 0 {
		w.t.Fatalf("create %s: %v", name, kafka.Code(x.ErrorCode))
	}
}

func (w *world) partition(topic string, index int32) *metadata.Partition {
	w.t.Helper()
	p, ok := w.image.Partition(kafka.TopicPartition{Topic: topic, Partition: index})
	if !ok {
		w.t.Fatalf("no partition %s-%d", topic, index)
	}
	return p
}

func show(p *metadata.Partition) string {
	s := fmt.Sprintf("leader=%d epoch=%d/%d isr=%v elr=%v last=%v", p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, p.ELR,
		p.LastKnownELR)
	if p.Recovering {
		s += " recovering"
	}
	return s
}

func TestLifeOfALoneBroker(t *testing.T) {
	w := newWorld(t, founded())
	if got := w.image.Feature("transaction.version"); got != 2 {
		t.Fatalf("transaction.version %d", got)
	}
	first := w.register(1, 1, -1)
	if r := w.beat(1, false, false); r.IsFenced || !r.IsCaughtUp {
		t.Fatalf("%+v", r)
	}
	w.create("a", []int32{1})
	check := func(want string) {
		t.Helper()
		if got := show(w.partition("a", 0)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	check("leader=1 epoch=0/0 isr=[1] elr=[] last=[]")
	// Clean stop.
	if r := w.beat(1, false, true); r.ShouldShutdown {
		t.Fatal("leads and may stop")
	}
	check("leader=-1 epoch=1/1 isr=[] elr=[1] last=[1]")
	if r := w.beat(1, false, true); !r.ShouldShutdown {
		t.Fatal("may not stop")
	}
	// Clean start.
	w.activate(nil)
	second := w.register(1, 2, first)
	w.beat(1, false, false)
	check("leader=1 epoch=2/2 isr=[1] elr=[] last=[]")
	// Crash, and a start that vouches for nothing.
	w.activate(nil)
	w.register(1, 3, -1)
	check("leader=-1 epoch=3/3 isr=[] elr=[] last=[1]")
	w.beat(1, false, false)
	check("leader=1 epoch=4/4 isr=[1] elr=[] last=[] recovering")
	_ = second
}
