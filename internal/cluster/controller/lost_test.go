package controller

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// lose has a broker say that its replica of a partition is lost.
func (w *world) lose(id kafka.NodeID, topic string, index int32) kafka.Code {
	w.t.Helper()
	b, _ := w.image.Broker(id)
	found, _ := w.image.Topic(topic)
	r := kmsg.NewPtrAssignReplicasToDirsRequest()
	r.BrokerID, r.BrokerEpoch = int32(id), int64(b.Epoch)
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = kafka.DirectoryLost
	x := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	x.TopicID = found.ID
	p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	p.Partition = index
	x.Partitions = append(x.Partitions, p)
	d.Topics = append(d.Topics, x)
	r.Directories = append(r.Directories, d)
	resp := w.do(r).(*kmsg.AssignReplicasToDirsResponse)
	if resp.ErrorCode != 0 {
		w.t.Fatalf("%+v", resp)
	}
	return kafka.Code(resp.Directories[0].Topics[0].Partitions[0].ErrorCode)
}

// TestLostReplica: leadership leaves a replica that is given up, and it is neither in sync nor eligible, however few are
// left; the last one that has everything cannot be given up.
func TestLostReplica(t *testing.T) {
	w := newWorld(t, founded(), "min.insync.replicas=2")
	w.up(1, 2, 3)
	w.create("orders", []int32{1, 2})
	if code := w.lose(1, "orders", 0); code != kafka.None {
		t.Fatal(code.Name())
	}
	p := w.partition("orders", 0)
	if p.Leader != 2 || !slices.Equal(p.ISR, []kafka.NodeID{2}) || slices.Contains(p.ELR, 1) || p.Directory(1) != kafka.DirectoryLost {
		t.Errorf("%+v", p)
	}
	if code := w.lose(2, "orders", 0); code != kafka.IneligibleReplica {
		t.Errorf("the last one: %s", code.Name())
	}
	if p := w.partition("orders", 0); p.Leader != 2 {
		t.Errorf("%+v", p)
	}
}
