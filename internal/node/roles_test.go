package node

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// How the nodes of a test are told where the controllers are.
const (
	byVoters    = "controller.quorum.voters"
	byBootstrap = "controller.quorum.bootstrap.servers"
)

// rolesCluster describes a cluster of three controllers, 1 to 3, and of brokers from 4 on; with combined the controllers are
// brokers as well. Nobody formats anything.
func rolesCluster(t *testing.T, by string, combined bool, brokers int) *testCluster {
	c := staticCluster(t, 3)
	var list []string
	for _, id := range c.ids {
		entry := fmt.Sprintf("n%d:9093", id)
		if by == byVoters {
			entry = fmt.Sprintf("%d@%s", id, entry)
		}
		list = append(list, entry)
	}
	for i := range brokers {
		id := kafka.NodeID(4 + i)
		c.ids = append(c.ids, id)
		c.fs[id] = vfs.NewMem(vfs.MemOptions{})
	}
	c.settings = func(id kafka.NodeID) map[string]string {
		out := quickQuorum()
		out["node.id"], out[by] = fmt.Sprint(id), strings.Join(list, ",")
		out["controller.quorum.auto.join.enable"] = fmt.Sprint(by == byBootstrap)
		client, control := fmt.Sprintf("PLAINTEXT://n%d:9092", id), fmt.Sprintf("CONTROLLER://n%d:9093", id)
		switch {
		case id > 3:
			out["process.roles"], out["listeners"] = "broker", client
		case combined:
			out["process.roles"], out["listeners"] = "broker,controller", client+","+control
		default:
			out["process.roles"], out["listeners"] = "controller", control
		}
		return out
	}
	return c
}

// TestSeparateRoles: controllers and brokers in processes of their own find each other, whichever way they are told of the
// controllers, become one cluster, and go on without the controller in office and without any broker.
func TestSeparateRoles(t *testing.T) {
	for _, by := range []string{byVoters, byBootstrap} {
		t.Run(by, func(t *testing.T) {
			c := rolesCluster(t, by, false, 3)
			c.start()
			for _, id := range c.ids {
				if n := c.nodes[id]; n.ClusterID() != c.nodes[1].ClusterID() || n.self.ID != id {
					t.Errorf("node %d is %d of cluster %s, node 1 is of %s", id, n.self.ID, n.ClusterID(), c.nodes[1].ClusterID())
				}
			}
			c.create(4, "before", 3, 3)
			leader := c.active()
			if leader > 3 {
				t.Fatalf("node %d leads and is no controller", leader)
			}
			c.kill(leader)
			c.kill(6)
			c.create(5, "between", 3, 2)
			c.start(leader, 6)
			c.create(6, "after", 1, 3)
			for _, id := range c.ids {
				c.eventually("every node shows everything", func() bool {
					return c.nodes[id].publisher.Image().TopicCount() == 3
				})
			}
		})
	}
}

// TestBootstrapFounding: nodes of both roles that know only controller.quorum.bootstrap.servers found together; a broker that
// comes later joins them, and so does one of them that lost its disk.
func TestBootstrapFounding(t *testing.T) {
	c := rolesCluster(t, byBootstrap, true, 1)
	c.start(1, 2, 3)
	c.create(1, "topic", 3, 3)
	c.start(4)
	c.create(4, "other", 1, 4)
	lost := c.other(c.active())
	for lost == 4 {
		lost = c.other(c.active())
	}
	c.wipe(lost)
	c.start(lost)
	c.awaitVoter(lost)
	c.create(lost, "third", 1, 4)
}

// wipe kills a node and gives it a new disk.
func (c *testCluster) wipe(id kafka.NodeID) {
	c.kill(id)
	c.fs[id] = vfs.NewMem(vfs.MemOptions{})
}

// awaitVoter waits until a node is a voter by the directory that it has now.
func (c *testCluster) awaitVoter(id kafka.NodeID) {
	c.t.Helper()
	directory := c.nodes[id].dirs.metadata.Meta().DirectoryID
	c.eventually("the node is a voter, with its new directory", func() bool {
		d, err := c.nodes[c.active()].control.Describe().Wait(c.t.Context())
		if err != nil || d.Err != nil {
			return false
		}
		for _, v := range d.Description.Voters {
			if v.Key.ID == id {
				return v.Key.Directory == directory
			}
		}
		return false
	})
}

func (c *testCluster) isMarkedLate(id kafka.NodeID) bool {
	_, err := c.fs[id].Stat(path.Join("/data", lateFile))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return err == nil
}

// TestWipedStaticVoter: a voter of controller.quorum.voters that lost its disk joins the quorum that is there instead of
// founding one, and helps to elect when it has caught up.
func TestWipedStaticVoter(t *testing.T) {
	c := rolesCluster(t, byVoters, true, 0)
	c.start()
	for _, id := range c.ids {
		if c.isMarkedLate(id) {
			t.Errorf("node %d of a new cluster is taken for one that came late", id)
		}
	}
	c.create(1, "topic", 3, 3)
	cluster, lost := c.nodes[1].ClusterID(), c.other(c.active())
	c.wipe(lost)
	c.start(lost)
	if got := c.nodes[lost].ClusterID(); got != cluster {
		t.Fatalf("the node is of cluster %s, the others are of %s", got, cluster)
	}
	c.eventually("the node votes again", func() bool { return !c.isMarkedLate(lost) })
	leader := c.active()
	c.kill(leader)
	c.create(c.other(leader), "after", 1, 2)
}

// TestEmptyVoterElectsNobody: what was acknowledged by a voter that lost its disk since, and by one that is away, is not
// lost: the empty voter does not make up a majority with the one that lacks it.
func TestEmptyVoterElectsNobody(t *testing.T) {
	c := rolesCluster(t, byVoters, true, 0)
	c.start()
	ignorant := c.other(c.active())
	c.kill(ignorant)
	c.create(c.active(), "acknowledged", 1, 2)
	leader := c.active()
	lost := c.other(leader)
	c.kill(leader)
	c.wipe(lost)
	var all sync.WaitGroup
	for _, id := range []kafka.NodeID{ignorant, lost} {
		all.Go(func() { c.start(id) })
	}
	time.Sleep(1500 * time.Millisecond) // long enough for them to elect one of themselves, if they would
	c.start(leader)
	all.Wait()
	for _, id := range c.ids {
		c.eventually("every node shows what was acknowledged", func() bool {
			_, ok := c.nodes[id].publisher.Image().Topic("acknowledged")
			return ok
		})
	}
}
