package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// createOffsets makes the offsets topic and waits until its shards are loaded.
func createOffsets(t *testing.T, n *Node, partitions int32) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = kafka.OffsetsTopic, partitions, 1
	cleanup := kmsg.NewCreateTopicsRequestTopicConfig()
	cleanup.Name, cleanup.Value = "cleanup.policy", kmsg.StringPtr("compact")
	topic.Configs = append(topic.Configs, cleanup)
	r.Topics = append(r.Topics, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := n.control.Submit(controller.Request{Principal: kafka.Anonymous, Body: r}).Wait(ctx)
	if err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	if code := kafka.Code(reply.Body.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); code != kafka.None {
		t.Fatal(code.Name())
	}
}

func commit(t *testing.T, n *Node, group, topicName string, offset int64) error {
	t.Helper()
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = topicName
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	a := do(t, n, group, r)
	if a.Err != nil {
		return a.Err
	}
	if code := kafka.Code(a.Body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		return code
	}
	return nil
}

// do asks until the shard is loaded.
func do(t *testing.T, n *Node, group string, r kmsg.Request) coordinator.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		a, err := n.coordinators.groups.Do(group, coordinator.NewPending(coordinator.Call{}, r)).Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if code := kafka.CodeOf(a.Err); a.Err == nil || code != kafka.CoordinatorLoadInProgress {
			return a
		}
		time.Sleep(time.Millisecond)
	}
}

func fetched(t *testing.T, n *Node, group string) int64 {
	t.Helper()
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	r.Groups = append(r.Groups, g)
	a := do(t, n, group, r)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	groups := a.Body.(*kmsg.OffsetFetchResponse).Groups
	if len(groups) != 1 || len(groups[0].Topics) != 1 {
		return -1
	}
	return groups[0].Topics[0].Partitions[0].Offset
}

func createTopic(t *testing.T, n *Node, name string) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	r.Topics = append(r.Topics, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := n.control.Submit(controller.Request{Principal: kafka.Anonymous, Body: r}).Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestCommittedOffsetsSurvive stops and kills a node between commits.
func TestCommittedOffsetsSurvive(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	n := start(t, fs)
	createTopic(t, n, "orders")
	createOffsets(t, n, 8)
	for round := range 4 {
		for g := range 20 {
			group := fmt.Sprintf("g%d", g)
			if round > 0 {
				if got := fetched(t, n, group); got != int64(100*(round-1)+g) {
					t.Fatalf("round %d: %s is at %d", round, group, got)
				}
			}
			if err := commit(t, n, group, "orders", int64(100*round+g)); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := n.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
		} else {
			fs.Crash()
			n.Kill()
			fs = fs.KillClone()
		}
		n = start(t, fs)
	}
	n.Kill()
}
