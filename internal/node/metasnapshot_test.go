package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// TestSnapshotWhileRunning: a node that was cut off for so long that the leader has only a snapshot for it goes on with
// what the snapshot says: what was removed meanwhile is removed there too, and what was made is made.
func TestSnapshotWhileRunning(t *testing.T) {
	c := staticCluster(t, 3, "metadata.log.max.record.bytes.between.snapshots=1", "metadata.max.retention.bytes=1",
		"metadata.max.idle.interval.ms=20")
	var ahead atomic.Int64
	c.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c.start()
	c.create(1, "stays", 1, 3)
	c.create(1, "goes", 2, 3)
	away := c.other(c.active())
	n := c.nodes[away]
	has := func(topic string) bool {
		_, err := n.manager.Get(kafka.TopicPartition{Topic: topic})
		_, shown := n.publisher.Image().Topic(topic)
		return err == nil && shown
	}
	c.eventually("the node has its replicas", func() bool { return has("stays") && has("goes") })
	end := n.metaLog.View().End
	c.isolate(away)
	via := c.other(away)
	c.deleteTopic(via, "goes")
	c.create(via, "comes", 1, 2)
	for i := range 3 {
		c.create(via, fmt.Sprintf("more-%d", i), 1, 1)
	}
	c.eventually("the others have only snapshots of what the node lacks", func() bool {
		ahead.Add(int64(time.Minute)) // the log is trimmed once a minute
		time.Sleep(50 * time.Millisecond)
		for id, x := range c.nodes {
			if id != away && x.metaLog.View().Start <= end {
				return false
			}
		}
		return true
	})
	c.net.Heal()
	c.eventually("the node shows what the others do", func() bool {
		_, comes := n.publisher.Image().Topic("comes")
		return comes && has("stays") && !has("goes")
	})
	for index := range int32(2) {
		if _, err := n.manager.Get(kafka.TopicPartition{Topic: "goes", Partition: index}); err == nil {
			t.Errorf("partition %d of a removed topic is still served", index)
		}
	}
	if start := n.metaLog.View().Start; start <= end {
		t.Errorf("the node's metadata log begins at %d and ended at %d: it never needed a snapshot", start, end)
	}
}
