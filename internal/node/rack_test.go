package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/kafka"
)

// readsFrom counts the batches that a client read, by broker.
type readsFrom struct {
	mu sync.Mutex
	by map[kafka.NodeID]int
}

func (r *readsFrom) OnFetchBatchRead(b kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[kafka.NodeID(b.NodeID)]++
}

func (r *readsFrom) take() map[kafka.NodeID]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.by
	r.by = map[kafka.NodeID]int{}
	return out
}

// TestConsumersReadInTheirRack: a consumer with client.rack reads everything from the follower there, as it is written and
// committed; when that node is lost it goes on elsewhere and misses nothing, and comes back to the rack with it.
func TestConsumersReadInTheirRack(t *testing.T) {
	c := staticCluster(t, 3, "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
		"min.insync.replicas=2", "replica.fetch.wait.max.ms=500")
	plain := c.settings
	c.settings = func(id kafka.NodeID) map[string]string {
		out := plain(id)
		out["broker.rack"] = fmt.Sprint("rack-", id)
		return out
	}
	c.start()
	c.create(1, "t", 1, 3)
	c.eventually("all in sync", func() bool { return len(c.partition("t").ISR) == 3 })
	leader := c.partition("t").Leader
	near := c.other(leader)
	reads := &readsFrom{by: map[kafka.NodeID]int{}}
	cl := c.client(kgo.Rack(fmt.Sprint("rack-", near)), kgo.ConsumeTopics("t"), kgo.WithHooks(reads), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(500*time.Millisecond), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.RecheckPreferredReplicaInterval(500*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := 0
	pass := func(n int) {
		t.Helper()
		for range n {
			want := fmt.Sprint("value ", next)
			c.produce("t", want)
			got := []string{}
			for len(got) == 0 && ctx.Err() == nil {
				cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
			}
			if len(got) != 1 || got[0] != want {
				t.Fatalf("read %v after %q was written", got, want)
			}
			next++
		}
	}
	pass(20)
	if by := reads.take(); by[near] < 20 || len(by) != 1 {
		t.Fatalf("a consumer in the rack of node %d read batches from %v", near, by)
	}
	c.kill(near)
	pass(5)
	if by := reads.take(); by[near] != 0 {
		t.Fatalf("read from a dead node: %v", by)
	}
	c.start(near)
	c.eventually("in sync again", func() bool { return len(c.partition("t").ISR) == 3 })
	c.eventually("it is read from again", func() bool { pass(1); return reads.take()[near] > 0 })
}
