package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// join lets every adding replica of a topic catch up.
func (w *world) join(topic string) {
	w.t.Helper()
	found, _ := w.image.Topic(topic)
	for index := range int32(found.NumPartitions()) {
		p := w.partition(topic, index)
		b, _ := w.image.Broker(p.Leader)
		r := kmsg.NewPtrAlterPartitionRequest()
		r.SetVersion(r.MaxVersion())
		r.BrokerID, r.BrokerEpoch = int32(b.ID), int64(b.Epoch)
		t := kmsg.NewAlterPartitionRequestTopic()
		t.TopicID = found.ID
		x := kmsg.NewAlterPartitionRequestTopicPartition()
		x.Partition, x.LeaderEpoch, x.PartitionEpoch = index, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
		for _, id := range p.Replicas {
			m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			m.BrokerID = int32(id)
			x.NewEpochISR = append(x.NewEpochISR, m)
		}
		t.Partitions = append(t.Partitions, x)
		r.Topics = append(r.Topics, t)
		if resp := w.do(r).(*kmsg.AlterPartitionResponse); resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			w.t.Fatalf("%+v", resp)
		}
	}
}

// TestCoordinatorsTopicsAreRaised: a cluster that began as one node gets three replicas of its coordinators' state as
// brokers join, and then two that must be in sync; other topics, and ones whose factor is set, stay as they are.
func TestCoordinatorsTopicsAreRaised(t *testing.T) {
	w := newWorld(t, founded(), "transaction.state.log.replication.factor=1")
	w.up(1)
	for _, topic := range []string{kafka.OffsetsTopic, kafka.TransactionsTopic, kafka.ShareStateTopic, "orders"} {
		w.create(topic, []int32{1}, []int32{1}, []int32{1})
	}
	one := "1"
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set.SetVersion(set.MaxVersion())
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, kafka.ShareStateTopic
	res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "min.insync.replicas", Value: &one})
	set.Resources = append(set.Resources, res)
	w.do(set)

	w.tick(2 * raiseInterval)
	if got := len(w.partition(kafka.OffsetsTopic, 0).Replicas); got != 1 {
		t.Fatalf("%d replicas on one broker", got)
	}
	factor := func(topic string, want int) {
		t.Helper()
		for index := range int32(3) {
			p := w.partition(topic, index)
			if len(p.Replicas) != want || p.Replicas[0] != 1 || p.Leader != 1 {
				t.Errorf("%s-%d: %+v, want %d replicas", topic, index, p, want)
			}
		}
	}
	settle := func() {
		for range 4 {
			w.tick(raiseInterval)
			for _, id := range []kafka.NodeID{1, 2, 3, 4} {
				if _, ok := w.image.Broker(id); ok {
					w.beat(id, false, false)
				}
			}
		}
	}
	w.up(2)
	settle()
	factor(kafka.OffsetsTopic, 2)
	w.join(kafka.OffsetsTopic)
	w.join(kafka.ShareStateTopic)
	w.up(3, 4)
	settle()
	factor(kafka.OffsetsTopic, 3)
	factor(kafka.ShareStateTopic, 3)
	factor(kafka.TransactionsTopic, 1)
	factor("orders", 1)
	third := map[kafka.NodeID]bool{}
	for index := range int32(3) {
		third[w.partition(kafka.OffsetsTopic, index).Replicas[2]] = true
	}
	if len(third) < 2 {
		t.Errorf("the new replicas are all on %v", third)
	}
	minISR := func() string { v, _ := w.image.Config(2, kafka.ShareStateTopic).Get("min.insync.replicas"); return v }
	if minISR() != "1" {
		t.Error("two must be in sync before they are")
	}
	w.join(kafka.OffsetsTopic)
	w.join(kafka.ShareStateTopic)
	settle()
	if minISR() != "2" {
		t.Errorf("min.insync.replicas is %s on three replicas", minISR())
	}
	if p := w.partition(kafka.OffsetsTopic, 1); p.Reassigning() || len(p.ISR) != 3 {
		t.Errorf("%+v", p)
	}
	w.tick(raiseInterval)
	for _, r := range w.written {
		if _, idle := r.(*metadata.NoOpRecord); !idle {
			t.Errorf("a settled cluster writes %T", r)
		}
	}
}
