package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/promise"
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

// startListening starts a node with a listener.
func startListening(t *testing.T, fs vfs.FS) *Node {
	t.Helper()
	static, err := config.Load([]config.Layer{config.MapLayer("test", map[string]string{
		"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0"})}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := Start(ctx, Options{Config: static, FS: fs, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), NoAdmin: true})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStopAnswersWhoWaitsForOthers: a member that waits for a rebalance is sent away when the node stops, and does not
// hold the stop up.
func TestStopAnswersWhoWaitsForOthers(t *testing.T) {
	n := startListening(t, vfs.NewMem(vfs.MemOptions{}))
	dial := func() *wire {
		c, err := net.Dial("tcp", n.Addresses()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &wire{Conn: c}
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	first, second := dial(), dial()
	for code := kafka.CoordinatorNotAvailable; code != kafka.None; time.Sleep(5 * time.Millisecond) {
		resp, err := first.ask(find)
		if err != nil {
			t.Fatal(err)
		}
		if code = kafka.Code(resp.(*kmsg.FindCoordinatorResponse).ErrorCode); code != kafka.None && code != kafka.CoordinatorNotAvailable {
			t.Fatal(code.Name())
		}
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 3, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 300_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	join.Protocols = append(join.Protocols, p)
	code := kafka.CoordinatorLoadInProgress
	for ; code == kafka.CoordinatorLoadInProgress; time.Sleep(5 * time.Millisecond) {
		resp, err := first.ask(join)
		if err != nil {
			t.Fatal(err)
		}
		code = kafka.Code(resp.(*kmsg.JoinGroupResponse).ErrorCode)
	}
	if code != kafka.None {
		t.Fatal(code.Name())
	}
	told := make(chan kafka.Code, 1)
	go func() {
		resp, err := second.ask(join)
		if err != nil {
			told <- kafka.NetworkException
			return
		}
		told <- kafka.Code(resp.(*kmsg.JoinGroupResponse).ErrorCode)
	}()
	for n.coordinators.groups.Counts().Parked == 0 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if code := <-told; code != kafka.NotCoordinator {
		t.Errorf("the member was told %s", code.Name())
	}
}

// TestStopWhileGroupsWait ends the node while members wait for others, commits wait for the disk and shards are loaded: every
// request is answered, and a commit that was acknowledged is there afterwards.
func TestStopWhileGroupsWait(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	n := start(t, fs)
	createTopic(t, n, "orders")
	createOffsets(t, n, 8)
	acknowledged := map[string]int64{}
	for round := range 8 {
		if round%4 == 0 {
			fetched(t, n, "commit-0") // its shard is loaded
		}
		asked := map[string]*promise.Promise[coordinator.Answer]{}
		ask := func(group string, r kmsg.Request) {
			asked[group] = n.coordinators.groups.Do(group, coordinator.NewPending(coordinator.Call{}, r))
		}
		for i := range 60 {
			join := kmsg.NewPtrJoinGroupRequest()
			join.Version, join.Group, join.ProtocolType = 3, fmt.Sprintf("join-%d", i), "consumer"
			join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
			join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			ask(join.Group, join)
			group := fmt.Sprintf("commit-%d", i)
			commit := kmsg.NewPtrOffsetCommitRequest()
			commit.Version, commit.Group, commit.Generation = 8, group, -1
			commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "orders",
				Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: int64(round + 1)}}}}
			ask(group, commit)
		}
		if round%4 == 0 { // something has to be acknowledged before the end
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_, _ = asked["commit-0"].Wait(ctx)
			cancel()
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
		for group, p := range asked {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			a, err := p.Wait(ctx)
			cancel()
			if err != nil {
				t.Fatalf("round %d: %s is not answered", round, group)
			}
			if r, ok := a.Body.(*kmsg.OffsetCommitResponse); ok && a.Err == nil && r.Topics[0].Partitions[0].ErrorCode == 0 {
				acknowledged[group] = int64(round + 1)
			}
		}
		n = start(t, fs)
		if round%3 == 0 { // else the shards are still being loaded when the next round asks
			for group, at := range acknowledged {
				if got := fetched(t, n, group); got < at {
					t.Errorf("round %d: %s is at %d, and %d was acknowledged", round, group, got, at)
				}
			}
		}
	}
	for group, at := range acknowledged {
		if got := fetched(t, n, group); got < at {
			t.Errorf("%s is at %d, and %d was acknowledged", group, got, at)
		}
	}
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged, so the test shows nothing")
	}
	n.Kill()
}
