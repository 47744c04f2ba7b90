package moldautest_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"moldau/moldautest"
)

// TestFault09DamagedMetadataSnapshot: a node finds its snapshots of the metadata damaged. It fetches what it lacks, and takes
// none of its topics for an orphan.
func TestFault09DamagedMetadataSnapshot(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3, moldautest.Config("metadata.log.max.record.bytes.between.snapshots", "1"))
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	h.progress(50)
	id := without(c.IDs(), c.WaitController())[0]
	c.Restart(id)
	snapshots := func() []string {
		var out []string
		names, err := c.Disk(id).ReadDir("/data/__cluster_metadata-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			if path.Ext(e.Name) == ".checkpoint" {
				out = append(out, path.Join("/data/__cluster_metadata-0", e.Name))
			}
		}
		return out
	}
	c.WaitFor("a snapshot", func() bool { return len(snapshots()) > 1 })
	c.Kill(id)
	for _, name := range snapshots() {
		rewrite(t, c, id, name, func(b []byte) []byte {
			if len(b) > 40 {
				b[len(b)/2] ^= 0x40
			}
			return b
		})
	}
	if err := c.TryStart(short(t, 20*time.Second), id); err != nil {
		t.Logf("the node refuses to start: %v", err) // as good: what it has is kept
		c.Kill(id)
		if replicaDir(t, c, id, "t-0") == "" || replicaDir(t, c, id, "t-1") == "" {
			t.Error("replicas were deleted")
		}
		h.verify()
		return
	}
	c.WaitISR("t", 0)
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 2)
}

// TestFault10SyncFails: one sync of a leader's log fails. Nothing that it was for is acknowledged, its directory is offline,
// another node leads, and the node goes on with its other directory.
func TestFault10SyncFails(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3, moldautest.Config("log.dirs", "/more,/data"), moldautest.Config("metadata.log.dir", "/data"))
	c.CreateTopic("t", 4, 3)
	h := begin(t, c, "t", 4)
	h.progress(50)
	id, partition := inDirectory(t, c, "t", 4, "/more")
	hits := c.Break(id, "sync /more/*/*.log 1 error EIO\nsyncall /more 1- error EIO")
	c.WaitFor("another leader", func() bool {
		s, _ := c.State("t", partition)
		return hits() > 0 && s.Leader >= 0 && s.Leader != id
	})
	h.progress(100)
	if !c.Running(id) {
		t.Errorf("the node ended, which had another directory: %v", c.Failure(id))
	}
	c.MendDisk(id)
	h.progress(20)
	if s, _ := c.State("t", partition); len(s.ISR) == 3 {
		t.Error("a directory whose sync failed is in use again without a restart")
	}
	if c.Running(id) {
		c.Stop(id)
	}
	c.Start(id)
	c.WaitISR("t", partition)
	h.verify()
	sameLogs(t, c, "t", 4)
}

// inDirectory finds a node that leads a partition whose replica there is in a log directory.
func inDirectory(t *testing.T, c *moldautest.Machines, topic string, partitions int32, dir string) (id, partition int32) {
	t.Helper()
	for p := range partitions {
		leader := c.WaitLeader(topic, p)
		name := topic + "-" + string(rune('0'+p))
		if strings.HasPrefix(replicaDir(t, c, leader, name), dir+"/") {
			return leader, p
		}
	}
	t.Fatalf("no leader has its replica in %s", dir)
	return 0, 0
}

// TestFault13CrashInRecovery: a node crashes in the middle of what it does after a crash, again and again, each time
// somewhere else. It still treats what it finds as the leavings of a crash (KAFKA-10471).
func TestFault13CrashInRecovery(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	h.progress(50)
	id := c.WaitLeader("t", 0)
	c.PowerCut(id)
	for _, call := range []int64{1, 3, 8, 20, 45} {
		disk := c.Disk(id)
		disk.CrashAt(disk.Calls() + call)
		if err := c.TryStart(short(t, 20*time.Second), id); err == nil {
			c.WaitFor("the node meets the crash", func() bool { return disk.Crashed() })
		}
		c.PowerCut(id)
		h.progress(10)
	}
	c.Start(id)
	c.WaitISR("t", 0)
	c.WaitISR("t", 1)
	h.progress(30)
	h.verify()
	sameLogs(t, c, "t", 2)
}

// TestFault14TornCheckpoints: the checkpoints of a node are cut in the middle, emptied, or stale. What they said is found in
// the log (KAFKA-16541).
func TestFault14TornCheckpoints(t *testing.T) {
	beside(t)
	half := func(b []byte) []byte { return b[:len(b)/2] }
	none := func([]byte) []byte { return nil }
	for name, change := range map[string]func([]byte) []byte{"half": half, "empty": none} {
		t.Run(name, func(t *testing.T) {
			c := moldautest.Cluster(t, 3)
			c.CreateTopic("t", 1, 3)
			h := begin(t, c, "t", 1)
			for range 2 {
				h.progress(40)
				id := c.WaitLeader("t", 0)
				c.Kill(id)
				h.progress(20)
				torn := 0
				for _, file := range []string{"t-0/leader-epoch-checkpoint", "replication-offset-checkpoint",
					"recovery-point-offset-checkpoint", "log-start-offset-checkpoint"} {
					if _, err := c.Disk(id).Stat("/data/" + file); err == nil {
						rewrite(t, c, id, "/data/"+file, change)
						torn++
					}
				}
				if torn == 0 {
					t.Error("no checkpoint was there")
				}
				c.Start(id)
				c.WaitISR("t", 0)
			}
			h.verify()
			sameLogs(t, c, "t", 1)
		})
	}
}

// TestFault16DefaultsAndOverrides: the defaults of brokers change, for all and for one. What a topic says for itself stays,
// over restarts too (KAFKA-9254).
func TestFault16DefaultsAndOverrides(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	own := map[string]string{"retention.ms": "123456789", "min.insync.replicas": "1", "segment.bytes": "2097152"}
	c.CreateTopic("t", 1, 3, "retention.ms", own["retention.ms"], "min.insync.replicas", own["min.insync.replicas"],
		"segment.bytes", own["segment.bytes"])
	stays := func(when string) {
		t.Helper()
		var got kadm.ResourceConfig
		c.WaitFor("the topic's configuration", func() bool {
			all, err := c.Admin().DescribeTopicConfigs(short(t, time.Minute), "t")
			if err != nil || len(all) != 1 || all[0].Err != nil {
				return false
			}
			got = all[0]
			return true
		})
		for _, x := range got.Configs {
			if want, ok := own[x.Key]; ok && x.MaybeValue() != want {
				t.Errorf("%s: %s is %s, want %s", when, x.Key, x.MaybeValue(), want)
			}
		}
	}
	set := func(key, value string, brokers ...int32) {
		t.Helper()
		got, err := c.Admin().AlterBrokerConfigs(short(t, time.Minute), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key,
			Value: &value}}, brokers...)
		if err != nil || len(got) == 0 || got[0].Err != nil {
			t.Fatalf("%s=%s for %v: %v, %v", key, value, brokers, err, got)
		}
	}
	set("log.retention.ms", "1000")
	set("min.insync.replicas", "3")
	stays("after defaults of the cluster")
	set("log.segment.bytes", "1048576")
	set("log.retention.ms", "2000", 1)
	stays("after a default of a broker")
	c.Kill(2)
	c.Start(2)
	c.Restart(1)
	stays("after restarts")
	c.PowerCut()
	c.Start()
	stays("after a power cut")
}

// TestFault17DamagedTimeIndex: the time index of a segment ends in zeros, or lacks entries. It is checked before retention
// judges by it, which deletes nothing that is young (KAFKA-10207).
func TestFault17DamagedTimeIndex(t *testing.T) {
	beside(t)
	padded := func(b []byte) []byte { return append(b, make([]byte, 12*20)...) }
	stale := func(b []byte) []byte {
		for i := range b {
			b[i] = 0
		}
		return append(b, make([]byte, 12)...)
	}
	for name, change := range map[string]func([]byte) []byte{"padded": padded, "zero": stale} {
		t.Run(name, func(t *testing.T) {
			c := moldautest.Cluster(t, 3, moldautest.Config("log.retention.check.interval.ms", "50"))
			c.CreateTopic("t", 1, 3, "retention.ms", "3600000", "segment.ms", "300")
			h := begin(t, c, "t", 1)
			h.progress(200)
			id := c.WaitLeader("t", 0)
			c.Kill(id)
			h.progress(20)
			dir := replicaDir(t, c, id, "t-0")
			names, err := c.Disk(id).ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range names {
				if path.Ext(e.Name) == ".timeindex" {
					rewrite(t, c, id, path.Join(dir, e.Name), change)
				}
			}
			c.Start(id)
			c.WaitISR("t", 0)
			h.progress(100)
			h.verify()
			sameLogs(t, c, "t", 1)
		})
	}
}

// TestFault34FullDisk: one of two log directories of a leader is full. Its partitions are led by others after a while, the
// other directory goes on, and everything is as before when there is space again.
func TestFault34FullDisk(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3, moldautest.Config("log.dirs", "/more,/data"), moldautest.Config("metadata.log.dir", "/data"))
	c.CreateTopic("t", 4, 3)
	h := begin(t, c, "t", 4)
	h.progress(50)
	id, partition := inDirectory(t, c, "t", 4, "/more")
	c.FullDisk(id, "/more")
	c.WaitFor("another leader", func() bool {
		s, _ := c.State("t", partition)
		return s.Leader >= 0 && s.Leader != id
	})
	h.progress(200)
	if !c.Running(id) {
		t.Errorf("the node ended: %v", c.Failure(id))
	}
	c.MendDisk(id)
	for p := range int32(4) {
		c.WaitISR("t", p)
	}
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 4)
}

// TestFault35SlowDisk: the syncs of a leader take long. Records are acknowledged later; its followers stay in sync
// (KAFKA-8733).
func TestFault35SlowDisk(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3, moldautest.Config("replica.lag.time.max.ms", "4000"),
		// Heartbeats and votes are synced on the same disk.
		moldautest.Config("broker.session.timeout.ms", "30000"), moldautest.Config("controller.quorum.fetch.timeout.ms", "10000"),
		moldautest.Config("controller.quorum.request.timeout.ms", "10000"))
	c.CreateTopic("t", 1, 3)
	h := begin(t, c, "t", 1)
	h.progress(50)
	c.SlowDisk(c.WaitLeader("t", 0), 500*time.Millisecond)
	least := 3
	for end := h.count() + 200; h.count() < end; time.Sleep(between) {
		s, _ := c.State("t", 0)
		least = min(least, len(s.ISR))
	}
	if least < 2 {
		t.Errorf("only %d replica in sync because the leader is slow", least)
	}
	for _, id := range c.IDs() {
		c.MendDisk(id)
	}
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 1)
}
