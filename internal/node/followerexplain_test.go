package node

import (
	"strings"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

func TestWhyInSync(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	before := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	alive := &metadata.Broker{ID: 2}
	for _, x := range []struct {
		f    replica.FollowerInfo
		b    *metadata.Broker
		want string
	}{
		{replica.FollowerInfo{}, nil, "not registered"},
		{replica.FollowerInfo{InSync: true}, &metadata.Broker{ID: 2, Fenced: true}, "fenced"},
		{replica.FollowerInfo{InSync: true}, &metadata.Broker{ID: 2, InControlledShutdown: true}, "shutting down"},
		{replica.FollowerInfo{InSync: true}, alive, "has until 30s"},
		{replica.FollowerInfo{}, alive, "never fetched"},
		{replica.FollowerInfo{InSync: true, LastFetch: before(40), CaughtUp: before(40)}, alive, "stopped fetching, 40s ago"},
		{replica.FollowerInfo{InSync: true, LastFetch: before(1), CaughtUp: before(2)}, alive, "keeps up"},
		{replica.FollowerInfo{InSync: true, LastFetch: before(1), CaughtUp: before(31)}, alive, "about to be dropped"},
		{replica.FollowerInfo{LastFetch: before(1)}, alive, "catching up"},
		{replica.FollowerInfo{LastFetch: before(1), CaughtUp: before(50)}, alive, "does not keep up: it had everything last 50s ago"},
		{replica.FollowerInfo{LastFetch: before(1), CaughtUp: before(1)}, alive, "about to be let in"},
	} {
		x.f.Broker = 2
		got := whyInSync(x.f, x.b, now, 30*time.Second, kafka.TopicPartition{Topic: "t"}, metadata.New())
		if !strings.Contains(got, x.want) {
			t.Errorf("%+v: %q, want %q", x.f, got, x.want)
		}
	}
}

// TestExplainFollowers: the leader says of each follower how far it is, and why it is missing.
func TestExplainFollowers(t *testing.T) {
	c := staticCluster(t, 3)
	c.start()
	active := c.active()
	c.create(active, "t", 1, 3)
	tp := kafka.TopicPartition{Topic: "t"}
	var leader kafka.NodeID
	explained := func() (PartitionExplanation, bool) {
		p, ok := c.nodes[active].publisher.Image().Partition(tp)
		if !ok || c.nodes[p.Leader] == nil {
			return PartitionExplanation{}, false
		}
		leader = p.Leader
		e, err := c.nodes[p.Leader].explainPartition(t.Context(), tp)
		return e, err == nil
	}
	c.eventually("both followers keep up", func() bool {
		e, ok := explained()
		return ok && len(e.Followers) == 2 && e.Followers[0].Why == "it keeps up" && e.Followers[1].Why == "it keeps up"
	})
	victim := kafka.NoNode
	for _, id := range c.ids {
		if id != leader && id != active {
			victim = id
		}
	}
	c.kill(victim)
	c.eventually("the dead one is missing, and why", func() bool {
		e, ok := explained()
		for _, f := range e.Followers {
			if kafka.NodeID(f.Broker) == victim {
				return ok && !f.InSync && strings.Contains(f.Why, "fenced")
			}
		}
		return false
	})
}
