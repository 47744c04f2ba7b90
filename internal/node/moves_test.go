package node

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// alterDir asks a node to move its replica of partition 0 to a directory.
func (c *testCluster) alterDir(id kafka.NodeID, topic, dir string) kafka.Code {
	c.t.Helper()
	r := kmsg.NewPtrAlterReplicaLogDirsRequest()
	r.SetVersion(2)
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	d.Topics = append(d.Topics, kmsg.AlterReplicaLogDirsRequestDirTopic{Topic: topic, Partitions: []int32{0}})
	r.Dirs = append(r.Dirs, d)
	return kafka.Code(ask[*kmsg.AlterReplicaLogDirsResponse](c, id, r).Topics[0].Partitions[0].ErrorCode)
}

// describedIn says where a node's replica of partition 0 lies, and where a copy of it is made, by DescribeLogDirs.
func (c *testCluster) describedIn(id kafka.NodeID, topic string) (dir, future string) {
	c.t.Helper()
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.SetVersion(4)
	for _, d := range ask[*kmsg.DescribeLogDirsResponse](c, id, r).Dirs {
		for _, t := range d.Topics {
			switch {
			case t.Topic != topic:
			case t.Partitions[0].IsFuture:
				future = d.Dir
			default:
				dir = d.Dir
			}
		}
	}
	return dir, future
}

// placed waits until a replica lies in a directory and the controller knows.
func (c *testCluster) placed(id kafka.NodeID, topic, dir string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("the replica of node %d lies in %s", id, dir), func() bool {
		p := c.partition(topic)
		d, err := c.nodes[id].onlineDir(dir)
		at, future := c.describedIn(id, topic)
		return p != nil && err == nil && at == dir && future == "" && p.Directory(id) == d.Meta().DirectoryID
	})
}

// otherDir gives a directory of a node in which its replica does not lie.
func (c *testCluster) otherDir(id kafka.NodeID, topic string) string {
	c.t.Helper()
	c.eventually("the replica is there", func() bool { at, _ := c.describedIn(id, topic); return at != "" })
	at, _ := c.describedIn(id, topic)
	if at == "/a" {
		return "/b"
	}
	return "/a"
}

func (c *testCluster) replicaOf(id kafka.NodeID, topic string) *replica.Partition {
	c.t.Helper()
	p, err := c.nodes[id].manager.Get(kafka.TopicPartition{Topic: topic})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// TestMoveBetweenDirectories moves the leader's replica and a follower's under load, again and again, and everything
// that was acknowledged is on every node at the end.
func TestMoveBetweenDirectories(t *testing.T) {
	c := staticCluster(t, 3, "log.dirs=/a,/b", "metadata.log.dir=/a")
	c.start()
	c.create(1, "m", 1, 3)
	leader := c.leaderOf("m")
	follower := c.other(leader)
	stop, done := make(chan struct{}), make(chan map[kafka.Offset]string)
	go func() {
		acked := map[kafka.Offset]string{}
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- acked
				return
			default:
			}
			v := fmt.Sprintf("v%d-%s", i, strings.Repeat("x", 1000))
			acked[c.produce("m", v)] = v
		}
	}()
	for range 3 {
		for _, id := range []kafka.NodeID{leader, follower} {
			to := c.otherDir(id, "m")
			if code := c.alterDir(id, "m", to); code != kafka.None {
				t.Fatalf("%s", code.Name())
			}
			c.placed(id, "m", to)
		}
	}
	close(stop)
	acked := <-done
	for at, v := range acked {
		for _, id := range c.ids {
			c.eventually(fmt.Sprintf("node %d has offset %d", id, at), func() bool { return c.has(id, "m", at, v) })
		}
	}
	for _, id := range []kafka.NodeID{leader, follower} {
		for _, d := range c.nodes[id].dirs.online {
			parts, err := d.Partitions()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				if p.Partition.Topic == "m" && p.State == log.Future {
					t.Errorf("a copy is left in %s of node %d", d.Path(), id)
				}
			}
		}
	}
}

// TestAlterReplicaLogDirs: the answers of Kafka 4.4, a move taken back and turned elsewhere, and a stop in the middle.
func TestAlterReplicaLogDirs(t *testing.T) {
	c := staticCluster(t, 2, "log.dirs=/a,/b,/c", "metadata.log.dir=/a", "replica.alter.log.dirs.io.max.bytes.per.second=2000000")
	c.start()
	c.create(1, "m", 1, 1)
	leader := c.leaderOf("m")
	other := c.other(leader)
	at, _ := c.describedIn(leader, "m")
	var free []string
	for _, d := range []string{"/a", "/b", "/c"} {
		if d != at {
			free = append(free, d)
		}
	}
	long := strings.Repeat("l", 230)
	c.create(1, long, 1, 1)
	for _, x := range []struct {
		node       kafka.NodeID
		topic, dir string
		want       kafka.Code
	}{
		{leader, "m", "/nowhere", kafka.LogDirNotFound},
		{leader, "m", at + "/", kafka.LogDirNotFound},
		{leader, "m", at, kafka.None},
		{leader, "none", at, kafka.UnknownTopicOrPartition},
		{leader, kafka.MetadataTopic, at, kafka.UnknownTopicOrPartition},
		{c.leaderOf(long), long, "/b", kafka.InvalidTopicException},
		{other, "m", "/b", kafka.ReplicaNotAvailable},
	} {
		if got := c.alterDir(x.node, x.topic, x.dir); got != x.want {
			t.Errorf("%.20s to %s: %s, want %s", x.topic, x.dir, got.Name(), x.want.Name())
		}
	}
	for range 40 {
		c.produce("m", strings.Repeat("y", 200_000)) // at the rate given, seconds of copying
	}
	if code := c.alterDir(leader, "m", free[0]); code != kafka.None {
		t.Fatal(code.Name())
	}
	if got, future := c.describedIn(leader, "m"); got != at || future != free[0] {
		t.Fatalf("in %q, future in %q", got, future)
	}
	c.setCordoned(leader, free[1])
	if code := c.alterDir(leader, "m", free[1]); code != kafka.InvalidReplicaAssignment {
		t.Fatalf("to a cordoned directory: %s", code.Name())
	}
	c.setCordoned(leader, "")
	if code := c.alterDir(leader, "m", free[1]); code != kafka.None {
		t.Fatal(code.Name())
	}
	if got, future := c.describedIn(leader, "m"); got != at || future != free[1] {
		t.Fatalf("in %q, future in %q", got, future)
	}
	c.stop(leader)
	c.start(leader)
	if x := c.replicaOf(leader, "m").Move(); x == nil || x.Target().Path() != free[1] {
		t.Fatalf("%+v after a stop in the middle", x)
	}
	c.kill(leader)
	c.start(leader)
	if x := c.replicaOf(leader, "m").Move(); x == nil || x.Target().Path() != free[1] {
		t.Fatalf("%+v after a crash in the middle", x)
	}
	if code := c.alterDir(leader, "m", at); code != kafka.None {
		t.Fatal(code.Name())
	}
	if got, future := c.describedIn(leader, "m"); got != at || future != "" {
		t.Fatalf("taken back: in %q, future in %q", got, future)
	}
	if code := c.alterDir(leader, "m", free[0]); code != kafka.None {
		t.Fatal(code.Name())
	}
	c.delete("m")
	c.eventually("the copy goes with the topic", func() bool {
		for _, d := range []string{"/a", "/b", "/c"} {
			entries, err := c.fs[leader].ReadDir(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name, "m-0") && path.Ext(e.Name) != "" && !strings.HasSuffix(e.Name, "-delete") {
					return false
				}
			}
		}
		return true
	})
}

// leaderOf waits for a leader of partition 0.
func (c *testCluster) leaderOf(topic string) (leader kafka.NodeID) {
	c.t.Helper()
	c.eventually("there is a leader of "+topic, func() bool {
		p := c.partition(topic)
		if p == nil || !p.HasLeader() || c.nodes[p.Leader] == nil {
			return false
		}
		leader = p.Leader
		at, _ := c.describedIn(leader, topic)
		return at != ""
	})
	return leader
}

func (c *testCluster) delete(name string) {
	c.t.Helper()
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.SetVersion(6)
	r.TimeoutMillis = 10_000
	x := kmsg.NewDeleteTopicsRequestTopic()
	x.Topic = &name
	r.Topics = append(r.Topics, x)
	if got := ask[*kmsg.DeleteTopicsResponse](c, c.ids[0], r).Topics[0]; got.ErrorCode != 0 {
		c.t.Fatalf("%v", kafka.Code(got.ErrorCode))
	}
}

// setCordoned closes a directory of a node, none with "", and waits until the node knows.
func (c *testCluster) setCordoned(id kafka.NodeID, dir string) {
	c.t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.SetVersion(1)
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, fmt.Sprint(id)
	k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	k.Name, k.Value = "cordoned.log.dirs", &dir
	if dir == "" {
		k.Value, k.Op = nil, kmsg.IncrementalAlterConfigOpDelete
	}
	x.Configs = append(x.Configs, k)
	r.Resources = append(r.Resources, x)
	if got := ask[*kmsg.IncrementalAlterConfigsResponse](c, id, r).Resources[0]; got.ErrorCode != 0 {
		c.t.Fatalf("%v: %v", kafka.Code(got.ErrorCode), *got.ErrorMessage)
	}
	c.eventually("the node knows what is cordoned", func() bool {
		return (len(c.nodes[id].cordoned()) > 0) == (dir != "")
	})
}
