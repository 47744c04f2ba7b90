package moldautest

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/node"
)

const (
	// minAge and backoff keep a client from waiting longer than a test's cluster needs.
	minAge    = 20 * time.Millisecond
	manyTries = 100_000
	// silence is how long a client waits for a node that says nothing.
	silence = 2 * time.Second
	// glance is how often something that is waited for is looked at.
	glance = 5 * time.Millisecond
)

func backoff(int) time.Duration { return minAge }

// PartitionState is what the cluster's metadata says of a partition.
type PartitionState struct {
	Leader       int32 // -1: none
	LeaderEpoch  int32
	Replicas     []int32
	ISR          []int32
	ELR          []int32 // eligible to lead though not in the ISR (KIP-966)
	LastKnownELR []int32
}

// State tells what the best informed of the running nodes knows of a partition; false: no running node knows it.
func (c *Machines) State(topic string, partition int32) (PartitionState, bool) {
	image := c.image()
	p, ok := image.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if !ok {
		return PartitionState{Leader: -1}, false
	}
	return PartitionState{Leader: int32(p.Leader), LeaderEpoch: int32(p.LeaderEpoch), Replicas: numbers(p.Replicas),
		ISR: numbers(p.ISR), ELR: numbers(p.ELR), LastKnownELR: numbers(p.LastKnownELR)}, true
}

func numbers(ids []kafka.NodeID) []int32 {
	var out []int32
	for _, id := range ids {
		out = append(out, int32(id))
	}
	slices.Sort(out)
	return out
}

// image is the newest one that a running node has.
func (c *Machines) image() *metadata.Image {
	newest := metadata.New()
	for _, n := range c.running() {
		if i := n.Image(); i != nil && i.Offset() > newest.Offset() {
			newest = i
		}
	}
	return newest
}

// running are the nodes that run.
func (c *Machines) running() map[int32]*node.Node {
	out := map[int32]*node.Node{}
	for id, m := range c.all {
		if n := m.live.Load(); n != nil {
			out[id] = n
		}
	}
	return out
}

// WaitFor waits until something is so.
func (c *Machines) WaitFor(what string, so func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(glance) {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// WaitLeader waits until a partition is led by a node that runs, and gives it.
func (c *Machines) WaitLeader(topic string, partition int32) int32 {
	c.t.Helper()
	var leader int32
	c.WaitFor("a leader of "+kafka.TopicPartition{Topic: topic, Partition: partition}.String(), func() bool {
		s, ok := c.State(topic, partition)
		leader = s.Leader
		return ok && leader >= 0 && c.Running(leader)
	})
	return leader
}

// WaitISR waits until exactly these nodes are in sync; until all replicas are when none is named.
func (c *Machines) WaitISR(topic string, partition int32, ids ...int32) {
	c.t.Helper()
	ids = slices.Sorted(slices.Values(ids))
	c.WaitFor("the in-sync set of "+kafka.TopicPartition{Topic: topic, Partition: partition}.String(), func() bool {
		s, ok := c.State(topic, partition)
		if len(ids) == 0 {
			return ok && len(s.ISR) > 0 && len(s.ISR) == len(s.Replicas)
		}
		return ok && slices.Equal(s.ISR, ids)
	})
}

// WaitController waits until more than half of all nodes run and agree on who is the active controller, and gives it.
func (c *Machines) WaitController() int32 {
	c.t.Helper()
	var leader int32
	c.WaitFor("a controller", func() bool {
		said := map[int32]int{}
		for _, n := range c.running() {
			said[int32(n.Controller())]++
		}
		for leader = range said {
			if leader >= 0 && said[leader] > len(c.all)/2 && c.Running(leader) {
				return true
			}
		}
		return false
	})
	return leader
}

// CreateTopic makes a topic and waits until all its replicas are in sync. configs are keys and values by turns.
func (c *Machines) CreateTopic(topic string, partitions int32, factor int16, configs ...string) {
	c.t.Helper()
	values := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		values[configs[i]] = &configs[i+1]
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if _, err := c.Admin().CreateTopic(ctx, partitions, factor, values, topic); err != nil && err != kerr.TopicAlreadyExists {
		c.t.Fatalf("topic %s: %v", topic, err) // it may exist: the first answer may have been lost
	}
	for p := range partitions {
		c.WaitISR(topic, p)
	}
}

// Admin is an administrator's client of the cluster, one for the whole test.
func (c *Machines) Admin() *kadm.Client {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admin == nil {
		c.admin = c.Client()
	}
	return kadm.NewClient(c.admin)
}
