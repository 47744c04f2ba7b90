package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// partition is what a running node's image says of a partition.
func (c *testCluster) partition(topic string) *metadata.Partition {
	for _, id := range c.ids {
		if n := c.nodes[id]; n != nil {
			if p, ok := n.publisher.Image().Partition(kafka.TopicPartition{Topic: topic}); ok {
				return p
			}
		}
	}
	return nil
}

// produce writes a record with acks=all to whoever leads, until somebody takes it, and gives its offset.
func (c *testCluster) produce(topic, value string) kafka.Offset {
	c.t.Helper()
	b := record.NewBuilder(record.Options{})
	b.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
	batch, err := b.Build()
	if err != nil {
		c.t.Fatal(err)
	}
	for end := time.Now().Add(waits); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		p := c.partition(topic)
		if p == nil || c.nodes[p.Leader] == nil {
			continue
		}
		r := kmsg.NewPtrProduceRequest()
		r.Version, r.Acks, r.TimeoutMillis = 9, -1, 10_000
		t := kmsg.NewProduceRequestTopic()
		t.Topic = topic
		x := kmsg.NewProduceRequestTopicPartition()
		x.Records = batch
		t.Partitions = append(t.Partitions, x)
		r.Topics = append(r.Topics, t)
		got := ask[*kmsg.ProduceResponse](c, p.Leader, r).Topics[0].Partitions[0]
		if got.ErrorCode == 0 {
			return kafka.Offset(got.BaseOffset)
		}
		c.t.Logf("%.40s to node %d: %s", value, p.Leader, kafka.Code(got.ErrorCode).Name())
	}
	c.t.Fatalf("%.40s was taken by nobody; the partition is %+v", value, c.partition(topic))
	return kafka.NoOffset
}

// has says whether a node's replica holds a value.
func (c *testCluster) has(id kafka.NodeID, topic string, at kafka.Offset, value string) bool {
	p, err := c.nodes[id].manager.Get(kafka.TopicPartition{Topic: topic})
	if err != nil || p.Log() == nil {
		return false
	}
	v := p.Log().View()
	if at < v.Start || at >= v.End {
		return false
	}
	x, err := v.Read(at, v.End, 1, true)
	if err != nil {
		return false
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		return false
	}
	batch, _, err := record.Split(b)
	if err != nil {
		return false
	}
	for r, err := range batch.Records(record.Limits{}) {
		if err == nil && r.Offset == at {
			return string(r.Value) == value
		}
	}
	return false
}

// TestLeaderIsLost: what was acknowledged by three replicas survives the loss of its leader, producers go on with another
// one, and the node that comes back copies what it missed and is in sync again.
func TestLeaderIsLost(t *testing.T) {
	c := staticCluster(t, 3, "min.insync.replicas=2")
	c.start()
	c.create(1, "t", 1, 3)
	c.eventually("all in sync", func() bool { p := c.partition("t"); return p != nil && len(p.ISR) == 3 })
	written := map[kafka.Offset]string{}
	write := func(n int, what string) {
		for i := range n {
			v := fmt.Sprint(what, i)
			written[c.produce("t", v)] = v
		}
	}
	write(20, "before ")
	for round := range 2 {
		lost := c.partition("t").Leader
		began := time.Now()
		c.kill(lost)
		write(1, fmt.Sprint("first after ", round, " "))
		t.Logf("node %d lost, written again after %v", lost, time.Since(began))
		write(20, fmt.Sprint("without ", round, " "))
		c.start(lost)
		c.eventually("in sync again", func() bool { return len(c.partition("t").ISR) == 3 })
		write(5, fmt.Sprint("again ", round, " "))
	}
	if len(written) != 20+2*26 {
		t.Errorf("%d offsets for %d records", len(written), 20+2*26)
	}
	for _, id := range c.ids {
		for at, v := range written {
			if !c.has(id, "t", at, v) {
				t.Errorf("node %d does not have %q at %d", id, v, at)
			}
		}
	}
}

// TestOrderlyStopMovesLeadership: clients of a node that is stopped in good order find another leader at once.
func TestOrderlyStopMovesLeadership(t *testing.T) {
	c := staticCluster(t, 3, "min.insync.replicas=2", "broker.session.timeout.ms=600000")
	c.start()
	c.create(1, "t", 1, 3)
	c.eventually("all in sync", func() bool { p := c.partition("t"); return p != nil && len(p.ISR) == 3 })
	c.produce("t", "a")
	leader := c.partition("t").Leader
	c.stop(leader)
	c.eventually("another node leads", func() bool { p := c.partition("t"); return p.HasLeader() && p.Leader != leader })
	// Told, not found out: the broker said that it goes, and kept its place until the leadership had moved.
	if b, _ := c.nodes[c.other(leader)].publisher.Image().Broker(leader); !b.InControlledShutdown {
		t.Errorf("broker %d was found dead", leader)
	}
	c.produce("t", "b")
	c.start(leader)
	c.eventually("in sync again", func() bool { return len(c.partition("t").ISR) == 3 })
}
