package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// startApart starts a node whose coordinators take every broker of the cluster, itself too, for another one: what they
// ask for goes over the wire.
func startApart(t *testing.T) *Node {
	t.Helper()
	n := startListening(t, vfs.NewMem(vfs.MemOptions{}))
	n.coordinators.peers.self.ID = 99
	return n
}

// TestTransactionsOverTheWire: partitions are confirmed and markers written by the broker that an image names.
func TestTransactionsOverTheWire(t *testing.T) {
	n := startApart(t)
	defer n.Kill()
	createTopic(t, n, "one")
	createTopic(t, n, "two")
	createTopic(t, n, "other")
	createTransactions(t, n)
	for _, commit := range []bool{true, false} {
		who := begin(t, n, "tx", "one", "two")
		for topic, want := range map[string]kafka.Code{"one": kafka.None, "two": kafka.None, "other": kafka.TransactionAbortable} {
			err, _ := n.coordinators.verifier.ask(replica.TxnCheck{Partition: kafka.TopicPartition{Topic: topic},
				TransactionalID: "tx", Producer: who.ID, Epoch: who.Epoch}).Wait(t.Context())
			if kafka.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", topic, err, want.Name())
			}
		}
		end := kmsg.NewPtrEndTxnRequest()
		end.Version, end.TransactionalID, end.Commit = 3, "tx", commit
		end.ProducerID, end.ProducerEpoch = int64(who.ID), int16(who.Epoch)
		if code := doTxn(t, n, "tx", end).(*kmsg.EndTxnResponse).ErrorCode; code != 0 {
			t.Fatal(kafka.Code(code).Name())
		}
		for _, topic := range []string{"one", "two"} {
			p, err := n.manager.Get(kafka.TopicPartition{Topic: topic})
			if err != nil {
				t.Fatal(err)
			}
			for open := 1; open > 0; time.Sleep(time.Millisecond) {
				found, err := p.OpenTransactions()
				if err != nil || t.Context().Err() != nil {
					t.Fatal(err)
				}
				open = len(found)
			}
		}
		for len(n.coordinators.markers.missingOf("tx")) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestMarkersReachWhoLeads: a broker that cannot be reached is tried again until it can.
func TestMarkersReachWhoLeads(t *testing.T) {
	n := startListening(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	var away atomic.Bool
	away.Store(true)
	peers := n.coordinators.peers
	peers.self.ID, peers.image = 99, func() *metadata.Image {
		image := n.publisher.Image()
		b, ok := image.Broker(n.self.ID)
		if !ok || !away.Load() {
			return image
		}
		without, _, err := image.Apply([]metadata.Record{&metadata.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}})
		if err != nil {
			t.Error(err)
		}
		return without
	}
	createTopic(t, n, "one")
	createTransactions(t, n)
	who := begin(t, n, "tx", "one")
	one := kafka.TopicPartition{Topic: "one"}
	check := replica.TxnCheck{Partition: one, TransactionalID: "tx", Producer: who.ID, Epoch: who.Epoch}
	if err, _ := n.coordinators.verifier.ask(check).Wait(t.Context()); kafka.CodeOf(err) != kafka.NetworkException {
		t.Error(err)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.Commit = 3, "tx", true
	end.ProducerID, end.ProducerEpoch = int64(who.ID), int16(who.Epoch)
	doTxn(t, n, "tx", end)
	for n.coordinators.markers.missingOf("tx")[one] == nil {
		time.Sleep(time.Millisecond)
	}
	if err := n.coordinators.markers.missingOf("tx")[one]; kafka.CodeOf(err) != kafka.BrokerNotAvailable {
		t.Error(err)
	}
	away.Store(false)
	for len(n.coordinators.markers.missingOf("tx")) > 0 {
		time.Sleep(time.Millisecond)
	}
	p, err := n.manager.Get(one)
	if err != nil {
		t.Fatal(err)
	}
	if open, err := p.OpenTransactions(); err != nil || len(open) > 0 {
		t.Errorf("%v, %v", open, err)
	}
}

// TestLetters: one request for a broker, as long as answers can be told apart.
func TestLetters(t *testing.T) {
	m := &markers{active: map[string]*marking{}}
	x := func(id string, producer kafka.ProducerID) *marking {
		return newMarking(m, txn.WriteMarkers{TransactionalID: id, Commit: id == "a", CoordinatorEpoch: 7, TransactionVersion: 2,
			Producer: coordinator.Stamp{ID: producer, Epoch: 3}}, nil, nil)
	}
	at := func(topic string, i int32) kafka.TopicPartition {
		return kafka.TopicPartition{Topic: topic, Partition: i}
	}
	a, b, again := x("a", 1), x("b", 2), x("c", 1)
	var l letters
	l.add(2, a, at("t", 0))
	l.add(2, a, at("t", 1))
	l.add(3, a, at("t", 2))
	l.add(2, a, at("u", 0))
	l.add(2, b, at("t", 0))
	l.add(2, again, at("t", 5))
	if len(l) != 3 || l[0].to != 2 || l[1].to != 3 || l[2].to != 2 {
		t.Fatalf("%+v", l)
	}
	got := ""
	for _, m := range l[0].request().Markers {
		got += fmt.Sprint(m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch, m.TransactionVersion)
		for _, topic := range m.Topics {
			got += fmt.Sprint(" ", topic.Topic, topic.Partitions)
		}
		got += "; "
	}
	if want := "1 3 true 7 2 t[0 1] u[0]; 2 3 false 7 2 t[0]; "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	resp.Markers = []kmsg.WriteTxnMarkersResponseMarker{{ProducerID: 2, Topics: []kmsg.WriteTxnMarkersResponseMarkerTopic{
		{Topic: "t", Partitions: []kmsg.WriteTxnMarkersResponseMarkerTopicPartition{{Partition: 0}}}}},
		{ProducerID: 1, Topics: []kmsg.WriteTxnMarkersResponseMarkerTopic{
			{Topic: "t", Partitions: []kmsg.WriteTxnMarkersResponseMarkerTopicPartition{{Partition: 1}, {Partition: 0, ErrorCode: 6}}}}}}
	a.awaited.Store(9)
	b.awaited.Store(9)
	l[0].answered(peer.Answer{Body: resp})
	if len(a.again) != 2 || a.missing[at("t", 0)] != kafka.NotLeaderOrFollower || a.missing[at("u", 0)] != kafka.UnknownServerError ||
		len(b.again) != 0 || b.awaited.Load() != 8 || a.awaited.Load() != 6 {
		t.Errorf("%+v, %+v", a.missing, b.missing)
	}
	l[1].answered(peer.Answer{Err: kafka.NetworkException})
	if a.missing[at("t", 2)] != kafka.NetworkException {
		t.Errorf("%+v", a.missing)
	}
	// A letter that is full is followed by another.
	l = nil
	for i := range int32(maxLetterPartitions + 1) {
		l.add(2, a, at("t", i))
	}
	if len(l) != 2 || l[1].partitions != 1 {
		t.Errorf("%d letters", len(l))
	}
}

// TestHangingIsFoundElsewhere: coordinators on other brokers tell which transactions they will end. As long as one has
// not answered, nothing is called hanging.
func TestHangingIsFoundElsewhere(t *testing.T) {
	n := startApart(t)
	defer n.Kill()
	createTopic(t, n, "one")
	createTransactions(t, n)
	who := begin(t, n, "tx", "one")
	appendOpen(t, n, "one", coordinator.Stamp{ID: 4711})
	p, err := n.manager.Get(kafka.TopicPartition{Topic: "one"})
	if err != nil {
		t.Fatal(err)
	}
	look := func(want func(openHere) bool) map[kafka.ProducerID]verdict {
		open, verdicts := n.openTransactions([]*replica.Partition{p})
		for i := range open {
			open[i].owner, verdicts[i] = nil, unknown // as if no coordinator were here
		}
		n.askElsewhere(t.Context(), open, verdicts, want)
		out := map[kafka.ProducerID]verdict{}
		for i, o := range open {
			out[o.info.ProducerID] = verdicts[i]
			if o.held() && (o.owner.TransactionalID != "tx" || o.owner.State != txn.Ongoing || o.owner.Timeout != time.Minute || o.owner.Began.IsZero()) {
				t.Errorf("%+v", o.owner)
			}
		}
		return out
	}
	everything := func(openHere) bool { return true }
	if got := look(everything); got[who.ID] != ends || got[4711] != hangs || len(got) != 2 {
		t.Error(got)
	}
	if got := look(func(openHere) bool { return false }); got[who.ID] != unknown || got[4711] != unknown {
		t.Error(got)
	}
	n.coordinators.peers.close()
	if got := look(everything); got[who.ID] != unknown || got[4711] != unknown {
		t.Error(got)
	}
}
