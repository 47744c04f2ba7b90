package node

import (
	"slices"
	"testing"

	"moldau/internal/kafka"
)

// TestDirectoryStaysFull: a leader whose disk is full for longer than ten seconds gives way to another replica, so that
// producers go on, and is in sync again once there is space, with everything written meanwhile.
func TestDirectoryStaysFull(t *testing.T) {
	c := staticCluster(t, 3, "min.insync.replicas=2", "moldau.disk.reserve.bytes=8388608", "auto.leader.rebalance.enable=false")
	c.start()
	c.create(1, "t", 1, 3)
	leader := c.leaderOf("t")
	c.eventually("all in sync", func() bool { return len(c.partition("t").ISR) == 3 })
	written := map[kafka.Offset]string{c.produce("t", "before"): "before"}
	fs := c.fs[leader]
	const large = int64(1) << 30
	fs.SetCapacity(large)
	free, err := fs.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(large - free + 4<<20) // room for metadata, less than the reserve
	c.eventually("another one leads", func() bool { p := c.partition("t"); return p.HasLeader() && p.Leader != leader })
	if p := c.partition("t"); slices.Contains(p.ISR, leader) || p.Directory(leader) != kafka.DirectoryLost {
		t.Fatalf("%+v", p)
	}
	for _, v := range []string{"meanwhile", "meanwhile too"} {
		written[c.produce("t", v)] = v
	}
	fs.SetCapacity(0)
	c.eventually("in sync again", func() bool { return len(c.partition("t").ISR) == 3 })
	for at, v := range written {
		if !c.has(leader, "t", at, v) {
			t.Errorf("%q is not there", v)
		}
	}
	c.produce("t", "after")
}
