package controller

import (
	"slices"
	"testing"
	"time"

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

// TestUncleanElectionOfWhatIsLost: a partition whose only replica lost its log directory gets a leader when an operator asks
// for it and not before, and the replica begins anew; where another replica is in service, that one is taken.
func TestUncleanElectionOfWhatIsLost(t *testing.T) {
	for name, replicas := range map[string][]int32{"alone": {1}, "another": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, founded())
			w.up(1, 2) // a third would raise min.insync.replicas, and 2 would be eligible
			w.create("orders", replicas)
			if len(replicas) > 1 {
				w.beat(2, true, false) // fenced, and so out of the ISR
			}
			r := w.registration(1, 9, -1)
			r.LogDirs[0][0]++ // another disk
			w.tick(time.Minute)
			if got := w.do(r).(*kmsg.BrokerRegistrationResponse); got.ErrorCode != 0 {
				t.Fatalf("%+v", got)
			}
			w.beat(1, false, false)
			w.beat(2, false, false)
			if p := w.partition("orders", 0); p.HasLeader() {
				t.Fatalf("elected at once: %+v", p)
			}
			elect := kmsg.NewPtrElectLeadersRequest()
			elect.ElectionType = uncleanElection
			elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
			w.do(elect)
			p := w.partition("orders", 0)
			if want := kafka.NodeID(replicas[len(replicas)-1]); p.Leader != want || !p.Recovering || !slices.Equal(p.ISR, []kafka.NodeID{want}) {
				t.Fatalf("%+v", p)
			}
			if len(replicas) == 1 && p.Directory(1) != kafka.DirectoryUnassigned {
				t.Fatalf("%+v", p)
			}
		})
	}
}
