package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// racked registers broker 2 to 4 in racks: 2 and 3 in "near", 4 in "far"; this node is in its own.
func (f *fixture) racked(own string) {
	racks := map[kafka.NodeID]string{1: own, 2: "near", 3: "near", 4: "far"}
	for id := kafka.NodeID(1); id <= 4; id++ {
		b := broker(id, kafka.UUID{0: byte(10 - id), 15: 255})
		b.BrokerEpoch += 10
		rack := racks[id]
		b.Rack = &rack
		f.apply(b)
	}
}

func TestConsumersAreSentToTheirRack(t *testing.T) {
	const near, far = 2, 4
	for name, c := range map[string]struct {
		selector, own, rack string
		isr                 []kafka.NodeID
		behind              bool // the replicas do not have the offset
		fenced              bool
		version             int16
		replica             int32
		want                int32
	}{
		"near":                    {rack: "near", want: near},
		"far":                     {rack: "far", want: far},
		"nobody is there":         {rack: "elsewhere", want: -1},
		"no rack":                 {rack: "", want: -1},
		"the leader is there too": {rack: "near", own: "near", want: -1},
		"not in sync":             {rack: "far", isr: []kafka.NodeID{1, 2, 3}, want: -1},
		"behind the offset":       {rack: "near", behind: true, want: -1},
		"fenced":                  {rack: "near", fenced: true, want: -1},
		"an old consumer":         {rack: "near", version: 10, want: -1},
		"a follower":              {rack: "near", replica: 4, want: -1},
		"the leader's selector":   {selector: "org.apache.kafka.common.replica.LeaderSelector", rack: "near", want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			selector := c.selector
			if selector == "" {
				selector = rackAwareSelector
			}
			f := newFixture(t, "replica.selector.class", selector)
			f.racked(c.own)
			if c.fenced {
				f.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 112, Fenced: metadata.Fence},
					&metadata.BrokerRegistrationChangeRecord{BrokerID: 3, BrokerEpoch: 113, Fenced: metadata.Fence})
			}
			isr := c.isr
			if isr == nil {
				isr = []kafka.NodeID{1, 2, 3, 4}
			}
			id := topicID("t")
			f.apply(&metadata.TopicRecord{Name: "t", TopicID: id}, &metadata.PartitionRecord{TopicID: id,
				Replicas: []kafka.NodeID{1, 2, 3, 4}, ISR: isr, Leader: 1, LeaderEpoch: 3, Directories: make([]kafka.UUID, 4)})
			f.produceOn("t", "a", "b", "c")
			for _, at := range []struct{ id, offset int64 }{{2, 3}, {3, 2}, {4, 3}} { // of 2 and 3 the one that has more
				offset := at.offset
				if c.behind {
					offset = 0
				}
				ask[*kmsg.FetchResponse](f, f.followAs(int32(at.id), id, offset))
			}
			r := fetchRequest(12, "t", 0, 1)
			r.Version, r.Rack, r.ReplicaID, r.MaxWaitMillis = max(c.version, 10), c.rack, -1, 0
			if c.version == 0 {
				r.Version = 12
			}
			if c.replica != 0 {
				r.ReplicaID = c.replica
			}
			p := f.fetched(r)
			if p.ErrorCode != 0 || p.PreferredReadReplica != c.want {
				t.Fatalf("%+v, want replica %d", p, c.want)
			}
			if c.want >= 0 && (len(p.RecordBatches) > 0 || p.LastStableOffset != -1 || p.LogStartOffset != 0) {
				t.Errorf("sent away with %+v", p)
			}
		})
	}
}

// followAs fetches as a follower that has everything below an offset.
func (f *fixture) followAs(id int32, topic kafka.UUID, offset int64) *kmsg.FetchRequest {
	r := f.follow(topic, offset, 0)
	r.ReplicaState.ID, r.ReplicaState.Epoch = id, 110+int64(id)
	return r
}

// TestSentAwayAtOnce: a consumer that waits for many bytes in a session is sent away at once and each time it comes back, and
// hears of a leader epoch that it has wrong.
func TestSentAwayAtOnce(t *testing.T) {
	f := newFixture(t, "replica.selector.class", rackAwareSelector)
	f.racked("here")
	id := f.followed("t", []kafka.NodeID{1, 2})
	ask[*kmsg.FetchResponse](f, f.followAs(2, id, 0))
	r := fetchRequest(12, "t", 0, 0)
	r.Rack, r.MinBytes, r.MaxWaitMillis, r.SessionEpoch = "near", 1<<20, 60_000, 0
	first := ask[*kmsg.FetchResponse](f, r)
	if got := first.Topics[0].Partitions[0].PreferredReadReplica; got != 2 || first.SessionID == 0 {
		t.Fatalf("%+v", first)
	}
	for epoch := int32(1); epoch < 4; epoch++ {
		next := kmsg.NewPtrFetchRequest()
		next.Version, next.Rack, next.MinBytes, next.MaxBytes, next.MaxWaitMillis = 12, "near", 1<<20, 1<<20, 60_000
		next.SessionID, next.SessionEpoch = first.SessionID, epoch
		got := ask[*kmsg.FetchResponse](f, next)
		if len(got.Topics) != 1 || got.Topics[0].Partitions[0].PreferredReadReplica != 2 {
			t.Fatalf("request %d: %+v", epoch, got)
		}
	}
	r = fetchRequest(12, "t", 0, 0)
	r.Rack, r.Topics[0].Partitions[0].CurrentLeaderEpoch = "near", 2
	if p := f.fetched(r); kafka.Code(p.ErrorCode) != kafka.FencedLeaderEpoch {
		t.Errorf("%+v", p)
	}
}

// TestFollowersHearOfTheHighWatermark: where consumers read from followers, a parked follower is told at once how far they
// may; elsewhere that waits for the next answer.
func TestFollowersHearOfTheHighWatermark(t *testing.T) {
	for _, near := range []bool{true, false} {
		t.Run(fmt.Sprint(near), func(t *testing.T) {
			selector := rackAwareSelector
			if !near {
				selector = "org.apache.kafka.common.replica.LeaderSelector"
			}
			f := newFixture(t, "replica.selector.class", selector)
			id := f.followed("t", []kafka.NodeID{1, 2})
			req := f.follow(id, 0, 0)
			req.SessionEpoch = 0
			session := ask[*kmsg.FetchResponse](f, req)
			f.hold()
			_, produced := f.start(produceRequest(9, "t", 0, 1, batchOf(t, record.Options{}, "a")))
			next := f.follow(id, 1, time.Minute)
			next.SessionID, next.SessionEpoch = session.SessionID, 1
			_, parked := f.start(next)
			if _, ok := parked.Get(); ok {
				t.Fatal("answered without news")
			}
			f.flush() // the leader's disk was what the high watermark waited for
			f.reply(produced)
			if _, ok := parked.Get(); ok != near {
				t.Fatalf("answered: %t", ok)
			}
			f.advance(time.Minute)
			got := f.body(next, f.reply(parked)).(*kmsg.FetchResponse)
			if hw := got.Topics[0].Partitions[0].HighWatermark; hw != 1 {
				t.Errorf("high watermark %d", hw)
			}
		})
	}
}
