package moldautest_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/moldautest"
)

// A test of what a program does when the node that it writes to is lost: the next record is taken by another one.
func ExampleCluster() {
	var t *testing.T // the test's

	c := moldautest.Cluster(t, 3)
	c.CreateTopic("orders", 1, 3)
	client := c.Client(kgo.DefaultProduceTopic("orders"))
	for _, order := range []string{"first", "second"} {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(order)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c.Kill(c.WaitLeader("orders", 0))
		c.Start() // those that do not run
	}
	c.WaitISR("orders", 0)
}

// TestClusterUnderProducers: what is acknowledged survives each way a node may end, one after the other and all at once.
func TestClusterUnderProducers(t *testing.T) {
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	h.progress(100)
	for _, end := range []func(int32){
		func(id int32) { c.Kill(id) },
		func(id int32) { c.Stop(id) },
		func(id int32) { c.PowerCut(id) },
	} {
		id := c.WaitLeader("t", 0)
		end(id)
		h.progress(50)
		c.Start(id)
		c.WaitISR("t", 0)
		h.progress(50)
	}
	c.PowerCut()
	c.Start()
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 2)
}

// TestCheckerBites: producers that do not wait for the followers lose what these had not fetched when the leader was
// killed, and the checker says so.
func TestCheckerBites(t *testing.T) {
	// Nobody is taken out of the in-sync set for not fetching.
	c := moldautest.Cluster(t, 3, moldautest.Config("replica.lag.time.max.ms", "600000"))
	c.CreateTopic("t", 3, 3)
	controller := c.WaitController()
	partition := int32(slices.IndexFunc([]int32{0, 1, 2}, func(p int32) bool { return c.WaitLeader("t", p) != controller }))
	leader := c.WaitLeader("t", partition)
	h := begin(t, c, "t", 3, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	h.progress(100)
	c.PartitionOneWay(c.IDs(), []int32{leader})
	h.progress(100)
	c.Kill(leader)
	c.WaitFor("another leader", func() bool {
		s, _ := c.State("t", partition)
		return s.Leader >= 0 && s.Leader != leader
	})
	c.Heal()
	h.progress(50)
	c.Start(leader)
	lost := 0
	for _, p := range h.problems() {
		if strings.HasPrefix(p, "lost: ") || strings.HasPrefix(p, "moved: ") {
			lost++
		}
	}
	if lost == 0 {
		t.Error("the checker found no loss where there must be one")
	}
	t.Logf("%d acknowledged records lost", lost)
}

// TestClusterNetwork: the state helpers tell what a partition of the network does, and what mending it does.
func TestClusterNetwork(t *testing.T) {
	c := moldautest.Cluster(t, 3, moldautest.Config("replica.lag.time.max.ms", "1000"))
	c.CreateTopic("t", 1, 3)
	old := c.WaitController()
	c.Isolate(old)
	c.WaitFor("another controller", func() bool { return c.WaitController() != old })
	rest := slices.DeleteFunc(c.IDs(), func(id int32) bool { return id == old })
	c.WaitISR("t", 0, rest...)
	c.Heal()
	c.WaitISR("t", 0)
}

// TestClusterLoopback: a client that knows nothing of the virtual network reaches the nodes, also after a restart.
func TestClusterLoopback(t *testing.T) {
	c := moldautest.Cluster(t, 3, moldautest.Loopback())
	c.CreateTopic("t", 1, 3)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if err := cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c.Restart(c.WaitLeader("t", 0))
	}
	c.Stop(1)
	conn, err := net.Dial("tcp", c.Brokers()[0])
	if err != nil {
		return // refused: as good
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a node that does not run answers")
	}
}

// TestClusterDisks: a node whose only disk fails ends and says why; on a mended disk it comes back.
func TestClusterDisks(t *testing.T) {
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 1, 3)
	h := begin(t, c, "t", 1)
	id := c.WaitLeader("t", 0)
	c.FailDisk(id)
	c.WaitFor("the node ends", func() bool { return !c.Running(id) })
	if c.Failure(id) == nil {
		t.Error("a node ended and nobody knows why")
	}
	h.progress(50)
	c.MendDisk(id)
	c.Start(id)
	c.WaitISR("t", 0)
	h.verify()
}
