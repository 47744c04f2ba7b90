package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// alterConfig sets a configuration, or takes it back with an empty value.
func (c *testCluster) alterConfig(kind kmsg.ConfigResourceType, name, key, value string) {
	c.t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version = 1
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kind, name
	k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	k.Name, k.Op, k.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
	if value == "" {
		k.Op, k.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	x.Configs = append(x.Configs, k)
	r.Resources = append(r.Resources, x)
	via := c.other(kafka.NoNode)
	if kind == kmsg.ConfigResourceTypeBroker && name != "" {
		fmt.Sscan(name, (*int32)(&via))
	}
	got := ask[*kmsg.IncrementalAlterConfigsResponse](c, via, r).Resources[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("%s of %s: %s", key, name, kafka.Code(got.ErrorCode).Name())
	}
}

// reassign asks for other replicas of partition 0 of a topic; none takes a reassignment back.
func (c *testCluster) reassign(topic string, to ...int32) {
	c.t.Helper()
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Version, r.TimeoutMillis = 0, 10_000
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = to
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	got := ask[*kmsg.AlterPartitionAssignmentsResponse](c, c.other(kafka.NoNode), r)
	if got.ErrorCode != 0 || got.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Fatalf("%v: %+v", to, got)
	}
}

// TestReassignmentIsThrottled: a throttled move stands still once more was copied than the rate allows, on the leader's side
// as on the follower's; acknowledgements and consumers do not wait for it; it goes on when the throttle is taken back, which
// is heard of without a restart.
func TestReassignmentIsThrottled(t *testing.T) {
	for _, side := range []string{"leader", "follower"} {
		t.Run(side, func(t *testing.T) {
			c := staticCluster(t, 3, "replica.fetch.wait.max.ms=50")
			c.start()
			c.create(1, "t", 1, 2)
			value := strings.Repeat("x", 200_000)
			for range 20 { // four answers of replica.fetch.max.bytes
				c.produce("t", value)
			}
			before := c.partition("t")
			third := kafka.NodeID(6) - before.Replicas[0] - before.Replicas[1]
			at, replicas := before.Leader, fmt.Sprintf("0:%d", before.Leader)
			if side == "follower" {
				at, replicas = third, fmt.Sprintf("0:%d", third)
			}
			c.alterConfig(kmsg.ConfigResourceTypeTopic, "t", side+".replication.throttled.replicas", replicas)
			c.alterConfig(kmsg.ConfigResourceTypeBroker, fmt.Sprint(at), side+".replication.throttled.rate", "1000")
			quota := c.nodes[at].throttles.leader
			if side == "follower" {
				quota = c.nodes[at].throttles.follower
			}
			c.eventually("the rate is heard of", func() bool { return quota.Rate() == 1000 })
			c.reassign("t", int32(before.Replicas[0]), int32(before.Replicas[1]), int32(third))
			c.eventually("more was copied than that", func() bool { return quota.Exceeded(c.nodes[at].o.Now()) })
			c.produce("t", "meanwhile")
			if p := c.partition("t"); slices.Contains(p.ISR, third) || !p.Reassigning() {
				t.Fatalf("4 MB were copied at 1 kB/s: %+v", p)
			}
			c.eventually("its lag is shown", func() bool { // the answer may still be on its way
				lag := c.nodes[third].replicaLags()
				return len(lag) == 1 && lag[0].Topic == "t" && lag[0].Leader == fmt.Sprint(before.Leader)
			})
			c.alterConfig(kmsg.ConfigResourceTypeBroker, fmt.Sprint(at), side+".replication.throttled.rate", "")
			c.eventually("the move is done", func() bool { p := c.partition("t"); return len(p.ISR) == 3 && !p.Reassigning() })
			c.alterConfig(kmsg.ConfigResourceTypeTopic, "t", side+".replication.throttled.replicas", "")
			c.whole("t")
			c.eventually("no lag is shown", func() bool { return len(c.nodes[third].replicaLags()) == 0 })
		})
	}
}
