package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// listCluster describes nodes 1 to n that know nothing but the list of their addresses.
func listCluster(t *testing.T, n int) *testCluster {
	c := staticCluster(t, n)
	var list []string
	for _, id := range c.ids {
		list = append(list, fmt.Sprintf("n%d:9092", id))
	}
	c.list = strings.Join(list, ",")
	c.settings = func(kafka.NodeID) map[string]string { return quickQuorum() }
	return c
}

// TestFounding: three nodes that are given the same list become one cluster, which goes on without any one of them and
// takes it back.
func TestFounding(t *testing.T) {
	c := listCluster(t, 3)
	began := time.Now()
	c.start()
	t.Logf("founded and serving after %v", time.Since(began))
	for _, id := range c.ids {
		n := c.nodes[id]
		if n.self.ID != id || n.ClusterID() != c.nodes[1].ClusterID() {
			t.Errorf("node %d became %d of cluster %s", id, n.self.ID, n.ClusterID())
		}
	}
	value, _ := c.nodes[1].publisher.Image().Config(metadata.BrokerResource, "").Get(minISRKey)
	if value != "2" {
		t.Errorf("min.insync.replicas of the cluster is %q", value)
	}
	c.create(2, "topic", 3, 3)
	leader := c.active()
	c.kill(leader)
	c.create(c.active(), "other", 1, 2)
	c.start(leader)
	if c.nodes[leader].self.ID != leader {
		t.Errorf("node %d came back as %d", leader, c.nodes[leader].self.ID)
	}
}

// TestWipedDiskJoinsAsObserver: a node that lost its disk comes back under its number, but with a directory of its own, and
// not as the voter it was: it is made one again only when it has caught up.
func TestWipedDiskJoinsAsObserver(t *testing.T) {
	c := listCluster(t, 3)
	c.start()
	c.create(1, "topic", 1, 3)
	lost := c.other(c.active())
	before := c.nodes[lost].dirs.metadata.Meta().DirectoryID
	c.kill(lost)
	c.fs[lost] = vfs.NewMem(vfs.MemOptions{})
	c.start(lost)
	n := c.nodes[lost]
	if n.self.ID != lost || n.dirs.metadata.Meta().DirectoryID == before {
		t.Fatalf("node %d came back as %d with directory %s", lost, n.self.ID, n.dirs.metadata.Meta().DirectoryID)
	}
	c.eventually("the node is a voter again, with its new directory", func() bool {
		d, err := c.nodes[c.active()].control.Describe().Wait(t.Context())
		if err != nil || d.Err != nil {
			return false
		}
		for _, v := range d.Description.Voters {
			if v.Key.ID == lost {
				return v.Key.Directory == n.dirs.metadata.Meta().DirectoryID
			}
		}
		return false
	})
}

// TestJudgeFounding: what a node makes of what the others tell.
func TestJudgeFounding(t *testing.T) {
	entries, err := config.ParseCluster("a:9092,b:9092,c:9092")
	if err != nil {
		t.Fatal(err)
	}
	f := &founders{n: &Node{}, own: 1, directory: kafka.UUID{2}, numbered: true}
	for _, e := range entries {
		e.Port += config.ControllerPortStep
		f.entries = append(f.entries, e)
	}
	voter := func(id kafka.NodeID, directory byte, host string) quorum.Voter {
		return quorum.NewVoter(quorum.ReplicaKey{ID: id, Directory: kafka.UUID{directory}},
			[]quorum.Endpoint{{Name: "CONTROLLER", Host: host, Port: 10092}})
	}
	fresh := func(id kafka.NodeID, directory byte) *sighting {
		return &sighting{cluster: f.listHash(), isNew: true, voters: quorum.VoterSet{voter(id, directory, "x")}}
	}
	settled := func(certain bool, voters ...quorum.Voter) *sighting {
		return &sighting{cluster: "it", certain: certain, voters: voters}
	}
	other := fresh(3, 3)
	other.cluster = "another list"
	for name, c := range map[string]struct {
		seen   []*sighting
		clear  bool
		id     kafka.NodeID
		voters int
	}{
		"one is missing":          {[]*sighting{fresh(1, 1), nil, nil}, false, 0, 0},
		"one has another list":    {[]*sighting{fresh(1, 1), nil, other}, false, 0, 0},
		"all are new":             {[]*sighting{fresh(1, 1), nil, fresh(3, 3)}, true, 2, 3},
		"one has begun, with me":  {[]*sighting{settled(false, voter(1, 1, "a"), voter(2, 2, "b"), voter(3, 3, "c")), nil, nil}, true, 2, 3},
		"one has begun, unsure":   {[]*sighting{settled(false, voter(1, 1, "a"), voter(3, 3, "c")), nil, fresh(3, 3)}, false, 0, 0},
		"begun without me":        {[]*sighting{settled(true, voter(1, 1, "a"), voter(3, 3, "c")), nil, nil}, true, 2, 0},
		"I had another disk":      {[]*sighting{settled(true, voter(1, 1, "a"), voter(2, 9, "b")), nil, nil}, true, 2, 0},
		"my address has a number": {[]*sighting{settled(true, voter(1, 1, "a"), voter(7, 9, "b")), nil, nil}, true, 7, 0},
		"two of us join":          {[]*sighting{nil, nil, settled(true, voter(1, 1, "c"))}, true, 3, 0},
	} {
		out, ok := f.judge(c.seen)
		if ok != c.clear || out.id != c.id || len(out.voters) != c.voters {
			t.Errorf("%s: clear %t, node %d with %d voters", name, ok, out.id, len(out.voters))
		}
	}
}

// TestFoundedBetweenTheQuestions: a node that is founded between the two questions it is asked is never taken for one whose
// cluster is called by the hash of the list.
func TestFoundedBetweenTheQuestions(t *testing.T) {
	const hash, founded = "hash of the list", "the cluster"
	voters := quorum.VoterSet{quorum.NewVoter(quorum.ReplicaKey{ID: 1, Directory: kafka.UUID{1}}, nil),
		quorum.NewVoter(quorum.ReplicaKey{ID: 2, Directory: kafka.UUID{2}}, nil)}
	for after := range 3 { // answers that are those of a new node
		asked := 0
		s := inquire(func(r kmsg.Request) kmsg.Response {
			isNew := asked < after
			asked++
			if _, who := r.(*kmsg.DescribeClusterRequest); who {
				resp := kmsg.NewPtrDescribeClusterResponse()
				if resp.ClusterID = founded; isNew {
					resp.ClusterID = hash
				}
				return resp
			}
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			if p.LeaderID = 1; isNew {
				p.LeaderID = -1
			}
			for _, v := range voters {
				if x := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState(); !isNew || v.Key.ID == 1 {
					x.ReplicaID, x.ReplicaDirectoryID = int32(v.Key.ID), v.Key.Directory
					p.CurrentVoters = append(p.CurrentVoters, x)
				}
			}
			topic := kmsg.NewDescribeQuorumResponseTopic()
			topic.Partitions = append(topic.Partitions, p)
			resp := kmsg.NewPtrDescribeQuorumResponse()
			resp.Topics = append(resp.Topics, topic)
			return resp
		})
		if s == nil || asked != 2 || (after == 2) != (s.isNew && s.cluster == hash) || !s.isNew && s.cluster != founded {
			t.Errorf("founded after %d answers: %+v", after, s)
		}
	}
}

// TestFoundingsAgree: however the steps of several founders fall together, all are of one cluster.
func TestFoundingsAgree(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		c := listCluster(t, 3)
		c.start()
		for id, n := range c.nodes {
			if n.ClusterID() != c.nodes[1].ClusterID() {
				t.Fatalf("node %d is of cluster %s, node 1 of %s", id, n.ClusterID(), c.nodes[1].ClusterID())
			}
		}
		for id := range c.nodes {
			c.kill(id)
		}
	}
}

// TestGrowingLoneNode: a node that was a cluster of its own becomes one of three when it and two others are given a list. The
// two become voters one after the other, once both have caught up; then the cluster goes on without the first.
func TestGrowingLoneNode(t *testing.T) {
	c := listCluster(t, 3)
	list, settings := c.list, c.settings
	c.list = ""
	c.settings = func(kafka.NodeID) map[string]string {
		out := quickQuorum()
		out["listeners"] = "PLAINTEXT://n1:9092"
		return out
	}
	c.start(1)
	c.create(1, "before", 1, 1)
	cluster := c.nodes[1].ClusterID()
	c.stop(1)
	c.list, c.settings = list, settings
	c.start()
	for _, id := range c.ids {
		if n := c.nodes[id]; n.self.ID != id || n.ClusterID() != cluster {
			t.Errorf("node %d is %d of cluster %s, the first was of %s", id, n.self.ID, n.ClusterID(), cluster)
		}
	}
	for _, id := range c.ids {
		c.awaitVoter(id)
	}
	c.create(2, "between", 3, 3)
	c.kill(1)
	c.create(c.active(), "after", 1, 2)
}
