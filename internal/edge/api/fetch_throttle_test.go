package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// followed makes a topic of one partition that this node leads and node 2 follows, in sync or not.
func (f *fixture) followed(name string, isr []kafka.NodeID, settings ...string) kafka.UUID {
	id := topicID(name)
	rs := []metadata.Record{&metadata.TopicRecord{Name: name, TopicID: id}}
	for i := 0; i < len(settings); i += 2 {
		rs = append(rs, &metadata.ConfigRecord{ResourceType: metadata.TopicResource, ResourceName: name, Name: settings[i],
			Value: &settings[i+1]})
	}
	f.apply(append(rs, &metadata.PartitionRecord{TopicID: id, Replicas: []kafka.NodeID{1, 2}, ISR: isr, Leader: 1, LeaderEpoch: 3,
		Directories: make([]kafka.UUID, 2)})...)
	return id
}

// follow fetches as node 2, in a session of its own.
func (f *fixture) follow(id kafka.UUID, offset int64, wait time.Duration) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 17
	r.ReplicaState.ID, r.ReplicaState.Epoch = 2, 102
	r.MinBytes, r.MaxBytes, r.MaxWaitMillis = 1, 1<<20, int32(wait.Milliseconds())
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = id
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = offset, 1<<20, 3, -1
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// TestThrottledFollower: a throttled follower that is not in sync is given nothing while the quota is exceeded, but hears
// where the log stands; its wait is not ended by what it does not get. One in sync, one that is not throttled and consumers
// get everything.
func TestThrottledFollower(t *testing.T) {
	const key = "leader.replication.throttled.replicas"
	one, both := []kafka.NodeID{1}, []kafka.NodeID{1, 2}
	for name, c := range map[string]struct {
		isr       []kafka.NodeID
		list      string
		throttled bool
	}{
		"throttled":            {one, "0:1,0:2", true},
		"all of the topic":     {one, "*", true},
		"in sync":              {both, "*", false},
		"another broker":       {one, "0:2", false},
		"another partition":    {one, "1:1", false},
		"nothing is throttled": {one, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.LeaderQuota = replica.NewQuota(11, time.Second)
			id := f.followed("t", c.isr, key, c.list)
			f.produceOn("t", "a")
			get := func() []string {
				r := ask[*kmsg.FetchResponse](f, f.follow(id, 0, 0))
				p := r.Topics[0].Partitions[0]
				if p.ErrorCode != 0 || p.LogStartOffset != 0 {
					t.Fatalf("%+v", p)
				}
				return valuesIn(t, p.RecordBatches)
			}
			f.LeaderQuota.SetRate(1)
			if len(get()) != 1 {
				t.Fatal("what is asked first is given: nothing was counted yet")
			}
			if got := f.LeaderQuota.Exceeded(f.clock()); got != (c.throttled || name == "in sync") {
				t.Fatalf("the quota is exceeded: %t", got)
			}
			if got := len(get()); (got == 0) != c.throttled {
				t.Fatalf("%d records", got)
			}
			_, waits := f.start(f.follow(id, 0, time.Second))
			if _, answered := waits.Get(); answered == c.throttled {
				t.Fatalf("answered at once: %t", answered)
			}
			f.advance(time.Second)
			f.reply(waits)
			f.advance(20 * time.Second)
			if len(get()) != 1 {
				t.Fatal("nothing, though the quota has recovered")
			}
			consumer := fetchRequest(12, "t", 0, 0)
			consumer.MaxWaitMillis = 0
			if p := f.fetched(consumer); p.ErrorCode != 0 {
				t.Errorf("a consumer: %+v", p)
			}
		})
	}
}

// produceOn writes with acks=1.
func (f *fixture) produceOn(topic string, values ...string) {
	f.t.Helper()
	r := ask[*kmsg.ProduceResponse](f, produceRequest(9, topic, 0, 1, batchOf(f.t, record.Options{}, values...)))
	if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
		f.t.Fatal(kafka.Code(code).Name())
	}
}
