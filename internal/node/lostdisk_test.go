package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// elect asks for an election of partition 0: 0 is a preferred one, 1 an unclean one.
func (c *testCluster) elect(topic string, kind int8) kafka.Code {
	c.t.Helper()
	r := kmsg.NewPtrElectLeadersRequest()
	r.SetVersion(2)
	r.ElectionType, r.TimeoutMillis = kind, 10_000
	r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	return kafka.Code(ask[*kmsg.ElectLeadersResponse](c, c.active(), r).Topics[0].Partitions[0].ErrorCode)
}

// TestDiskIsReplaced: a node that loses one of two disks and gets an empty one in its place refills what was there from the
// leaders, by itself; no replica on it leads or is in sync before that; what had no other copy stays without a leader,
// which explain tells, until an operator lets it begin anew.
func TestDiskIsReplaced(t *testing.T) {
	c := staticCluster(t, 3, "log.dirs=/a,/b", "metadata.log.dir=/a", "min.insync.replicas=2")
	c.start()
	c.create(1, "shared", 1, 3)
	victim := c.leaderOf("shared")
	c.eventually("all in sync", func() bool { return len(c.partition("shared").ISR) == 3 })
	alone := ""
	for i := range 20 {
		name := fmt.Sprint("alone", i)
		c.create(1, name, 1, 1)
		if c.leaderOf(name) == victim {
			alone = name
			break
		}
	}
	for _, topic := range []string{"shared", alone} {
		if code := c.alterDir(victim, topic, "/b"); code != kafka.None {
			t.Fatalf("%s: %s", topic, code.Name())
		}
		c.placed(victim, topic, "/b")
	}
	written := map[kafka.Offset]string{}
	for i := range 50 {
		v := fmt.Sprint("record ", i)
		written[c.produce("shared", v)] = v
	}
	c.produce(alone, "the only one")
	c.kill(victim)
	if err := c.fs[victim].RemoveAll("/b"); err != nil {
		t.Fatal(err)
	}
	c.produce("shared", "meanwhile")
	old := c.partition("shared").Directory(victim)
	c.start(victim)
	c.eventually("the replica is in sync again, in another directory", func() bool {
		p := c.partition("shared")
		in := false
		for _, id := range p.ISR {
			in = in || id == victim
		}
		if p.Leader == victim && !in {
			t.Fatalf("it leads and is not in sync: %+v", p)
		}
		dir := p.Directory(victim)
		if in && (dir == old || dir == kafka.DirectoryLost) {
			t.Fatalf("in sync without a log: %+v", p)
		}
		return in
	})
	for at, v := range written {
		if !c.has(victim, "shared", at, v) {
			t.Errorf("%q at %d is not there", v, at)
		}
	}
	if p := c.partition(alone); p.HasLeader() {
		t.Fatalf("an empty replica leads: %+v", p)
	}
	e, err := c.nodes[c.other(victim)].explainPartition(t.Context(), kafka.TopicPartition{Topic: alone})
	if err != nil || e.Leader != -1 || len(e.Followers) != 1 || e.Followers[0].Why == "" || e.Waits == "" {
		t.Fatalf("%+v, %v", e, err)
	}
	if !strings.Contains(e.Waits, "moldau topic elect "+alone+"-0 --unclean") {
		t.Errorf("%s", e.Waits)
	}
	if code := c.elect(alone, 1); code != kafka.None {
		t.Fatal(code.Name())
	}
	if at := c.produce(alone, "after the loss"); at != 0 {
		t.Errorf("written at %d", at)
	}
}

// TestDiskIsReplacedWhileTwoAreDown: the same when the quorum was lost meanwhile. Whoever leads it then hears of the node's
// new directories before the old registration has ended.
func TestDiskIsReplacedWhileTwoAreDown(t *testing.T) {
	c := staticCluster(t, 3, "log.dirs=/a,/b", "metadata.log.dir=/a", "min.insync.replicas=2")
	c.start()
	c.create(1, "t", 6, 3)
	c.eventually("all in sync", func() bool { return len(c.partition("t").ISR) == 3 })
	victim := c.active()
	beside := c.other(victim)
	c.kill(victim)
	c.kill(beside)
	if err := c.fs[victim].RemoveAll("/b"); err != nil {
		t.Fatal(err)
	}
	c.start(victim, beside)
	c.eventually("all in sync again", func() bool { return len(c.partition("t").ISR) == 3 })
}
