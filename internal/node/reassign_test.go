package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// traffic is producers, each of which numbers its records, and a consumer that checks that it sees all of each in order.
type traffic struct {
	c        *testCluster
	stopped  atomic.Bool
	writers  sync.WaitGroup
	consumer sync.WaitGroup
	end      context.CancelFunc
	acked    [3]atomic.Int64
	read     [3]atomic.Int64
}

func (c *testCluster) traffic(topic string) *traffic {
	x := &traffic{c: c}
	ctx, end := context.WithCancel(c.t.Context())
	x.end = end
	for id := range x.acked {
		cl := c.client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		x.writers.Go(func() {
			for n := int64(0); !x.stopped.Load() && ctx.Err() == nil; n++ {
				if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("%d %d", id, n))).FirstErr(); err != nil {
					if ctx.Err() == nil {
						c.t.Errorf("producer %d, record %d: %v", id, n, err)
					}
					return
				}
				x.acked[id].Add(1)
			}
		})
	}
	cl := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	x.consumer.Go(func() {
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				var id int
				var n int64
				if _, err := fmt.Sscanf(string(r.Value), "%d %d", &id, &n); err != nil || n != x.read[id].Load() {
					c.t.Errorf("read %q at %d where record %d of producer %d should be", r.Value, r.Offset, x.read[id].Load(), id)
				}
				x.read[id].Store(n + 1)
			})
		}
	})
	c.t.Cleanup(func() { end(); x.writers.Wait(); x.consumer.Wait() })
	return x
}

// flows waits until every producer has had something acknowledged that it began after the call.
func (x *traffic) flows() {
	x.c.t.Helper()
	for id := range x.acked {
		from := x.acked[id].Load()
		x.c.eventually(fmt.Sprintf("producer %d goes on", id), func() bool { return x.acked[id].Load() >= from+3 })
	}
}

// stop ends the producers and waits until everything they had acknowledged was read.
func (x *traffic) stop() {
	x.c.t.Helper()
	x.stopped.Store(true)
	x.writers.Wait()
	for id := range x.acked {
		x.c.eventually(fmt.Sprintf("all of producer %d is read", id), func() bool { return x.read[id].Load() >= x.acked[id].Load() })
	}
	x.end()
	x.consumer.Wait()
}

// TestReassignmentsUnderTraffic: replicas are added, moved, taken away, moved off a node and moves taken back, while producers
// and a consumer run that see no error, gap, repetition or change of order; at the end all replicas are the same.
func TestReassignmentsUnderTraffic(t *testing.T) {
	c := staticCluster(t, 3, "replica.fetch.wait.max.ms=100", "auto.leader.rebalance.enable=false")
	c.start()
	c.create(1, "t", 1, 1)
	only := int32(c.partition("t").Replicas[0])
	a, b := only%3+1, (only+1)%3+1
	x := c.traffic("t")
	x.flows()
	settled := func(to ...int32) {
		t.Helper()
		c.eventually(fmt.Sprint("replicas ", to, " in sync and nothing else"), func() bool {
			p := c.partition("t")
			slices.Sort(to) // what is taken back may have another order than before
			return !p.Reassigning() && slices.Equal(slices.Sorted(slices.Values(numbers(p.Replicas))), to) && len(p.ISR) == len(to) && slices.Contains(p.Replicas, p.Leader)
		})
		x.flows()
	}
	move := func(to ...int32) {
		t.Helper()
		c.reassign("t", to...)
		settled(slices.Clone(to)...)
		if got := numbers(c.partition("t").Replicas); !slices.Equal(got, to) {
			t.Errorf("replicas %v, wanted %v", got, to)
		}
	}
	move(only, a, b) // grow
	move(a, b)       // the leader leaves, and its node is drained
	move(only)       // everything elsewhere, and shrink
	move(b, only)    // grow and move the preference
	c.takeBack("t", a, func() { c.reassign("t", a, only) })
	settled(b, only)
	move(a)
	move(a, b, only)
	x.stop()
	c.whole("t")
	total := int64(0)
	for id := range x.acked {
		total += x.acked[id].Load()
	}
	p, err := c.nodes[kafka.NodeID(a)].manager.Get(kafka.TopicPartition{Topic: "t"})
	if err != nil || int64(p.Info().HighWatermark) != total {
		t.Errorf("%d records were acknowledged, and the partition has %d", total, p.Info().HighWatermark)
	}
	t.Logf("%d records", total)
}

// takeBack begins a move to a node that is throttled so that it cannot end, and takes it back.
func (c *testCluster) takeBack(topic string, to int32, begin func()) {
	c.t.Helper()
	c.alterConfig(kmsg.ConfigResourceTypeTopic, topic, "follower.replication.throttled.replicas", fmt.Sprint("0:", to))
	c.alterConfig(kmsg.ConfigResourceTypeBroker, fmt.Sprint(to), "follower.replication.throttled.rate", "1")
	quota := c.nodes[kafka.NodeID(to)].throttles.follower
	c.eventually("the rate is heard of", func() bool { return quota.Rate() == 1 })
	begin()
	c.eventually("it is on its way", func() bool { return c.partition(topic).Reassigning() })
	c.reassign(topic)
	c.alterConfig(kmsg.ConfigResourceTypeBroker, fmt.Sprint(to), "follower.replication.throttled.rate", "")
	c.alterConfig(kmsg.ConfigResourceTypeTopic, topic, "follower.replication.throttled.replicas", "")
}
