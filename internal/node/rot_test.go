package node

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// rot damages the stored batch with an offset on a node's disk: one byte of its records, or one of its header's length.
func (c *testCluster) rot(id kafka.NodeID, topic string, at kafka.Offset, inHeader bool) {
	c.t.Helper()
	p, err := c.nodes[id].manager.Get(kafka.TopicPartition{Topic: topic})
	if err != nil {
		c.t.Fatal(err)
	}
	entries, err := c.fs[id].ReadDir(p.Log().Path())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		var base int64
		if _, err := fmt.Sscanf(e.Name, "%d.log", &base); err != nil || path.Ext(e.Name) != ".log" || kafka.Offset(base) > at {
			continue
		}
		f, err := c.fs[id].Open(path.Join(p.Log().Path(), e.Name), os.O_RDWR)
		if err != nil {
			c.t.Fatal(err)
		}
		defer f.Close()
		all := make([]byte, 1<<20)
		n, _ := f.ReadAt(all, 0)
		for pos, b := 0, all[:n]; len(b) > 0; {
			batch, rest, err := record.Split(b)
			if err != nil {
				c.t.Fatal(err)
			}
			if batch.LastOffset() >= at {
				where := pos + len(batch) - 1
				if inHeader {
					where = pos + 8 // the length
				}
				if _, err := f.(io.WriterAt).WriteAt([]byte{all[where] ^ 0x40}, int64(where)); err != nil {
					c.t.Fatal(err)
				}
				return
			}
			pos, b = pos+len(batch), rest
		}
	}
	c.t.Fatalf("offset %d of %s is not on node %d", at, topic, id)
}

// bytesOf gives a replica's bytes from its start to an end, nil when it does not have them all.
func (c *testCluster) bytesOf(id kafka.NodeID, tp kafka.TopicPartition) ([]byte, *log.View) {
	p, err := c.nodes[id].manager.Get(tp)
	if err != nil || p.Log() == nil {
		return nil, nil
	}
	v := p.Log().View()
	x, err := v.Read(v.Start, v.End, 1<<30, true)
	if err != nil {
		return nil, v
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		return nil, v
	}
	return bytes.Clone(b), v
}

// whole waits until all nodes are in sync and have the same bytes in directories that the metadata knows.
func (c *testCluster) whole(topic string) {
	c.t.Helper()
	tp := kafka.TopicPartition{Topic: topic}
	c.eventually("all replicas in sync, and the same", func() bool {
		p := c.partition(topic)
		if len(p.ISR) != len(c.ids) || slices.Contains(p.Directories, kafka.DirectoryLost) {
			return false
		}
		first, _ := c.bytesOf(1, tp)
		for _, id := range c.ids[1:] {
			if b, _ := c.bytesOf(id, tp); !bytes.Equal(first, b) {
				return false
			}
		}
		return len(first) > 0
	})
}

// TestRottenLeader: a leader whose stored batch is damaged is found out by a follower that needs it, gives its replica up to
// one that is whole, copies it anew, and is in sync again. Whoever reads meanwhile, nothing acknowledged is gone.
func TestRottenLeader(t *testing.T) {
	for name, inHeader := range map[string]bool{"records": false, "header": true} {
		t.Run(name, func(t *testing.T) {
			c := staticCluster(t, 3, "min.insync.replicas=2", "replica.fetch.wait.max.ms=50")
			c.start()
			c.create(1, "t", 1, 3)
			c.eventually("all in sync", func() bool { return len(c.partition("t").ISR) == 3 })
			written := map[kafka.Offset]string{}
			write := func(n int, what string) {
				for i := range n {
					v := fmt.Sprint(what, i)
					written[c.produce("t", v)] = v
				}
			}
			write(5, "all ")
			leader := c.partition("t").Leader
			away := c.other(leader)
			c.kill(away)
			write(10, "two ")
			c.rot(leader, "t", 9, inHeader)
			c.start(away)
			c.eventually("another leads", func() bool { return c.partition("t").Leader != leader })
			write(5, "after ")
			c.whole("t")
			for _, id := range c.ids {
				for at, v := range written {
					if !c.has(id, "t", at, v) {
						t.Errorf("node %d does not have %q at %d", id, v, at)
					}
				}
			}
			c.produceAfterLoss(written)
		})
	}
}

// produceAfterLoss takes the leader away: with the replica that was mended, what is written goes on where it ended.
func (c *testCluster) produceAfterLoss(written map[kafka.Offset]string) {
	c.t.Helper()
	c.kill(c.partition("t").Leader)
	c.eventually("somebody leads", func() bool { p := c.partition("t"); return p.Leader >= 0 && c.nodes[p.Leader] != nil })
	if at := c.produce("t", "last"); int(at) != len(written) {
		c.t.Errorf("the next record is at %d after %d", at, len(written))
	}
}

// TestRottenFollower: a follower whose scrubber finds damage leaves the in-sync set, copies anew and is let in again; the
// leader stays.
func TestRottenFollower(t *testing.T) {
	c := staticCluster(t, 3, "min.insync.replicas=2", "log.segment.bytes=1048576", "moldau.scrub.bytes.per.second=0")
	c.start()
	c.create(1, "t", 1, 3)
	c.eventually("all in sync", func() bool { return len(c.partition("t").ISR) == 3 })
	for i := range 4 { // two segments at least
		c.produce("t", string(bytes.Repeat([]byte{byte('a' + i)}, 400_000)))
	}
	was := c.partition("t")
	follower := c.other(was.Leader)
	c.eventually("the follower has it all", func() bool { return c.has(follower, "t", 3, string(bytes.Repeat([]byte("d"), 400_000))) })
	c.rot(follower, "t", 1, false)
	n := c.nodes[follower]
	n.upkeep.scrubPass(n.dirs.metadata, 1<<40)
	c.eventually("it was given up", func() bool { return c.partition("t").PartitionEpoch > was.PartitionEpoch })
	c.whole("t")
	if got := c.partition("t"); got.Leader != was.Leader || got.LeaderEpoch != was.LeaderEpoch {
		t.Errorf("the leader was %d in term %d, and is %d in %d", was.Leader, was.LeaderEpoch, got.Leader, got.LeaderEpoch)
	}
}

// TestRottenAlone: without another replica in sync a damaged one serves what it has, until there is one.
func TestRottenAlone(t *testing.T) {
	c := staticCluster(t, 3, "min.insync.replicas=1", "replica.fetch.wait.max.ms=50", "log.segment.bytes=1048576",
		"moldau.scrub.bytes.per.second=0", "unclean.leader.election.enable=false")
	c.start()
	c.create(1, "t", 1, 2)
	c.eventually("both in sync", func() bool { return len(c.partition("t").ISR) == 2 })
	for i := range 4 {
		c.produce("t", string(bytes.Repeat([]byte{byte('a' + i)}, 400_000)))
	}
	leader := c.partition("t").Leader
	at := slices.Index(c.partition("t").Replicas, leader)
	other := c.partition("t").Replicas[1-at]
	c.kill(other)
	c.eventually("alone in sync", func() bool { p := c.partition("t"); return len(p.ISR) == 1 && p.Leader == leader })
	c.rot(leader, "t", 1, false)
	n := c.nodes[leader]
	n.upkeep.scrubPass(n.dirs.metadata, 1<<40)
	p, _ := n.manager.Get(kafka.TopicPartition{Topic: "t"})
	if _, ok := n.manager.RotReport(n.publisher.Image(), p); ok {
		t.Fatal("the last replica in sync is given up")
	}
	c.produce("t", "alone")
	if got := c.partition("t"); got.Leader != leader {
		t.Fatalf("%d leads", got.Leader)
	}
	// The other has the damaged batch whole, and needs only what came later.
	c.start(other)
	c.eventually("the whole one leads and the damaged one was copied anew", func() bool {
		p := c.partition("t")
		return p.Leader == other && len(p.ISR) == 2 && !slices.Contains(p.Directories, kafka.DirectoryLost)
	})
	a, _ := c.bytesOf(leader, kafka.TopicPartition{Topic: "t"})
	b, _ := c.bytesOf(other, kafka.TopicPartition{Topic: "t"})
	if !bytes.Equal(a, b) {
		t.Error("the replicas differ")
	}
}
