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
// brokers join; other topics, and ones whose factor is set, stay as they are.
func TestCoordinatorsTopicsAreRaised(t *testing.T) {
	w := newWorld(t, founded(), "transaction.state.log.replication.factor=1")
	w.up(1)
	for _, topic := range []string{kafka.OffsetsTopic, kafka.TransactionsTopic, kafka.ShareStateTopic, "orders"} {
		w.create(topic, []int32{1}, []int32{1}, []int32{1})
	}
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
	w.join(kafka.OffsetsTopic)
	w.join(kafka.ShareStateTopic)
	settle()
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

// TestMinISRIsRaised: with the third broker the cluster asks for two replicas in sync where a lone node had asked for one,
// once, and the coordinators' topics follow; who sets 1 afterwards, or set it for a topic or in server properties, keeps it.
func TestMinISRIsRaised(t *testing.T) {
	for name, c := range map[string]struct {
		settings       []string
		cluster, topic string // set by a person while there are two brokers
		wantCluster    string
		wantTopic      string
	}{
		"founded alone":          {wantCluster: "2"},
		"set for the topic":      {topic: "1", wantCluster: "2", wantTopic: "1"},
		"raised by a person":     {cluster: "3", wantCluster: "3"},
		"in server properties":   {settings: []string{"min.insync.replicas=1"}, wantCluster: "1", wantTopic: "2"},
		"the topic's setting is": {settings: []string{"min.insync.replicas=1", "share.coordinator.state.topic.min.isr=1"}, wantCluster: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, founded(), c.settings...)
			w.up(1, 2)
			w.create(kafka.ShareStateTopic, []int32{1})
			if c.cluster != "" {
				w.setMinISR(kmsg.ConfigResourceTypeBroker, "", c.cluster)
			}
			if c.topic != "" {
				w.setMinISR(kmsg.ConfigResourceTypeTopic, kafka.ShareStateTopic, c.topic)
			}
			w.up(3)
			for range 8 {
				w.tick(raiseInterval)
				for id := kafka.NodeID(1); id <= 3; id++ {
					w.beat(id, false, false)
				}
				if w.partition(kafka.ShareStateTopic, 0).Reassigning() {
					w.join(kafka.ShareStateTopic)
				}
			}
			if n := len(w.partition(kafka.ShareStateTopic, 0).ISR); n != 3 {
				t.Fatalf("%d in sync", n)
			}
			cluster, _ := w.image.Config(metadata.BrokerResource, "").Get(minISRKey)
			topic, _ := w.image.Config(metadata.TopicResource, kafka.ShareStateTopic).Get(minISRKey)
			if cluster != c.wantCluster || topic != c.wantTopic {
				t.Errorf("the cluster has %q, the topic %q; want %q, %q", cluster, topic, c.wantCluster, c.wantTopic)
			}
			w.setMinISR(kmsg.ConfigResourceTypeBroker, "", "1")
			w.up(4)
			w.tick(2 * raiseInterval)
			if got, _ := w.image.Config(metadata.BrokerResource, "").Get(minISRKey); got != "1" {
				t.Errorf("1 became %q against somebody's will", got)
			}
		})
	}
}

// setMinISR sets min.insync.replicas as a person does.
func (w *world) setMinISR(kind kmsg.ConfigResourceType, name, value string) {
	w.t.Helper()
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set.SetVersion(set.MaxVersion())
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: minISRKey, Value: &value})
	set.Resources = append(set.Resources, res)
	if got := w.do(set).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; got.ErrorCode != 0 {
		w.t.Fatalf("%+v", got)
	}
}
