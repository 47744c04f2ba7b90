package moldautest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/moldautest"
)

// TestFault01FollowerTruncates: a follower that was killed and came back leads as soon as it is in sync, because the
// leader is killed. It does not know yet how far everybody was, and must not cut what everybody has (KIP-101).
func TestFault01FollowerTruncates(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 1, 3)
	h := begin(t, c, "t", 1)
	for range 3 {
		h.progress(30)
		leader := c.WaitLeader("t", 0)
		rest := without(c.IDs(), leader)
		c.Kill(rest[0])
		h.progress(10)
		c.Start(rest[0])
		c.WaitISR("t", 0)
		c.Kill(leader)
		h.progress(10)
		c.Start(leader)
		c.WaitISR("t", 0)
	}
	h.verify()
	sameLogs(t, c, "t", 1)
}

// TestFault02FastLeaderChanges: a leader has what nobody else has and is lost, and so is the next one before it wrote
// anything. Who comes back finds where its log left that of the third (KIP-279).
func TestFault02FastLeaderChanges(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 5, moldautest.Config("replica.lag.time.max.ms", "600000"))
	c.CreateTopic("t", 1, 3)
	h := begin(t, c, "t", 1)
	h.progress(30)
	// The records that only the first leader has come by a producer that does not wait for the others.
	first := c.WaitLeader("t", 0)
	s, _ := c.State("t", 0)
	c.PartitionOneWay(without(s.Replicas, first), []int32{first})
	hasty := c.Client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.DefaultProduceTopic("t"))
	for i := range 10 {
		value := fmt.Sprintf("hasty/%d", i)
		h.mu.Lock()
		h.sent[value] = true // the first may be there: the followers' fetches had come before the cut
		h.mu.Unlock()
		if err := hasty.ProduceSync(short(t, time.Minute), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill(first)
	next := func(not ...int32) int32 {
		var leader int32
		c.WaitFor("another leader", func() bool {
			s, _ := c.State("t", 0)
			leader = s.Leader
			return leader >= 0 && !slices.Contains(not, leader)
		})
		return leader
	}
	c.Heal()
	second := next(first)
	c.Kill(second)
	next(first, second)
	c.Start(first, second)
	h.progress(30)
	h.verify()
	if now, _ := c.State("t", 0); now.LeaderEpoch < s.LeaderEpoch+2 {
		t.Errorf("leader epoch %d after %d: the leader did not change twice", now.LeaderEpoch, s.LeaderEpoch)
	}
	sameLogs(t, c, "t", 1)
}

// TestFault03Zombie: a leader that is cut off goes on for clients that reach it. It acknowledges nothing that will not
// stay, and after the cut its epoch is refused (KIP-320).
func TestFault03Zombie(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 3, 3)
	h := begin(t, c, "t", 3)
	h.progress(60)
	zombie := c.WaitLeader("t", 0)
	s, _ := c.State("t", 0)
	c.Isolate(zombie)
	c.WaitFor("another leader", func() bool {
		s, _ := c.State("t", 0)
		return s.Leader != zombie && s.Leader >= 0
	})
	h.progress(100)
	epochIsRefused(t, c, "t", s.LeaderEpoch)
	c.Heal()
	h.progress(60)
	h.verify()
	sameLogs(t, c, "t", 3)
}

// epochIsRefused asks the leader of partition 0 something in the name of an older epoch.
func epochIsRefused(t *testing.T, c *moldautest.Machines, topic string, epoch int32) {
	t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Timestamp = epoch, -1
	r.ReplicaID = -1
	r.Topics = append(r.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	cl := c.Client()
	c.WaitFor("the old epoch is refused", func() bool {
		s, _ := c.State(topic, 0)
		resp, err := cl.Broker(int(s.Leader)).Request(short(t, time.Minute), r)
		if err != nil {
			return false // the leader may have changed again
		}
		code := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode
		if code == 0 {
			t.Fatalf("epoch %d is taken by node %d, which leads with epoch %d", epoch, s.Leader, s.LeaderEpoch)
		}
		return code == kerr.FencedLeaderEpoch.Code
	})
}

// lastInSync makes node L the only replica of t-0 that is in sync, with records that only it has, and gives it and the
// others. min.insync.replicas of the topic is 1.
func lastInSync(t *testing.T, c *moldautest.Machines) (h *history, last int32, others []int32) {
	t.Helper()
	c.CreateTopic("t", 1, 3, "min.insync.replicas", "1")
	h = begin(t, c, "t", 1)
	h.progress(30)
	last = c.WaitLeader("t", 0)
	s, _ := c.State("t", 0)
	others = without(s.Replicas, last)
	c.Kill(others...)
	c.WaitISR("t", 0, last)
	h.progress(30)
	return h, last, others
}

// nobodyLeads checks that a partition stays without leader although the controller works and knows that replicas are back.
func nobodyLeads(t *testing.T, c *moldautest.Machines, marker string) {
	t.Helper()
	c.WaitFor("the partition has no leader", func() bool { s, _ := c.State("t", 0); return s.Leader < 0 })
	c.CreateTopic(marker, 1, int16(len(c.IDs())-1)) // what the controller had to do before this is done
	if s, _ := c.State("t", 0); s.Leader >= 0 {
		t.Fatalf("node %d leads, and does not have what was acknowledged", s.Leader)
	}
}

// TestFault04LastInSync: the last replica that is in sync loses power. The others, which lack its records, do not lead
// before it is back (KIP-966).
func TestFault04LastInSync(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 5)
	h, last, others := lastInSync(t, c)
	c.PowerCut(last)
	c.Start(others...) // with them there is a majority that finds the last one gone
	nobodyLeads(t, c, "marker")
	c.Start(last)
	h.progress(30)
	h.verify()
	sameLogs(t, c, "t", 1)
}

// TestFault05AllLosePower: all machines lose power at once, several times. What was acknowledged is there; a topic that
// is not synced may lose records, but its replicas still agree.
func TestFault05AllLosePower(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	c.CreateTopic("loose", 1, 3, "moldau.flush", "async")
	h := begin(t, c, "t", 2)
	loose := begin(t, c, "loose", 1)
	for range 3 {
		h.progress(50)
		loose.progress(20)
		c.PowerCut()
		c.Start()
	}
	h.progress(50)
	h.verify()
	loose.quit()
	loose.unread()
	loose.work.Wait()
	loose.readers.Wait()
	c.WaitISR("loose", 0)
	sameLogs(t, c, "t", 2)
	sameStopped(t, c, "loose", 1)
}

// TestFault06StaleMajority: a node is cut off, one of the other two loses power, and the cut off one and that one, who are
// a majority, go on without the one that saw everything.
func TestFault06StaleMajority(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	h.progress(50)
	stale := without(c.IDs(), c.WaitController())[0]
	rest := without(c.IDs(), stale)
	c.Partition([]int32{stale}, append(rest, moldautest.Clients))
	c.WaitISR("t", 0, rest...)
	c.WaitISR("t", 1, rest...)
	h.progress(50)
	c.PowerCut(rest[0])
	c.Kill(rest[1])
	c.Heal()
	c.Start(rest[0])
	h.progress(50)
	c.Start(rest[1])
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 2)
}

// TestFault07WipedDisk: a node comes back under its id with an empty disk. It copies what it had and counts only then;
// a partition that was on this disk only is not made anew.
func TestFault07WipedDisk(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 1, 3)
	c.CreateTopic("single", 3, 1, "min.insync.replicas", "1")
	h := begin(t, c, "t", 1)
	h.progress(50)
	wiped := c.WaitLeader("t", 0)
	var alone int32
	for alone = range int32(3) {
		if c.WaitLeader("single", alone) == wiped {
			break
		}
	}
	c.Kill(wiped)
	c.WipeDisk(wiped)
	h.progress(20)
	c.Start(wiped)
	c.WaitISR("t", 0)
	h.progress(20)
	if s, _ := c.State("single", alone); s.Leader >= 0 {
		t.Errorf("node %d leads a partition whose records were on the disk that was lost", s.Leader)
	}
	for _, id := range without(c.IDs(), wiped) {
		c.Restart(id)
		c.WaitISR("t", 0)
	}
	h.verify()
	sameLogs(t, c, "t", 1)
}

// TestFault12LastInSyncIsGone: the last replica that was in sync never comes back. The partition stays offline until
// somebody asks for the loss.
func TestFault12LastInSyncIsGone(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 5)
	h, last, others := lastInSync(t, c)
	h.quit()
	h.unread()
	c.Kill(last)
	c.WipeDisk(last)
	c.Start(others...)
	nobodyLeads(t, c, "marker")
	set := kadm.TopicsSet{}
	set.Add("t", 0)
	clean, err := c.Admin().ElectLeaders(short(t, time.Minute), kadm.ElectPreferredReplica, set)
	if err != nil || clean["t"][0].Err == nil {
		t.Errorf("an election that loses nothing: %v, %v: want it refused", clean, err)
	}
	nobodyLeads(t, c, "marker-2")
	c.WaitFor("the election that was asked for", func() bool {
		got, err := c.Admin().ElectLeaders(short(t, time.Minute), kadm.ElectLiveReplica, set)
		return err == nil && (got["t"][0].Err == nil || got["t"][0].Err == kerr.ElectionNotNeeded)
	})
	if leader := c.WaitLeader("t", 0); !slices.Contains(others, leader) {
		t.Errorf("node %d leads: want one of %v", leader, others)
	}
	cl := c.Client(kgo.DefaultProduceTopic("t"))
	if err := cl.ProduceSync(short(t, time.Minute), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Error(err)
	}
}
