package controller

import (
	"cmp"
	"slices"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// raiseInterval is the time between two looks whether the topics of coordinators should have more replicas.
const raiseInterval = time.Second

// raised are the topics that get more replicas as brokers join, with the settings that forbid it when they are set, and
// the minimal ISR that goes with three replicas where the topic has one of its own.
var raised = [...]struct{ topic, factor, minISR string }{
	{kafka.OffsetsTopic, "offsets.topic.replication.factor", ""},
	{kafka.TransactionsTopic, "transaction.state.log.replication.factor", "transaction.state.log.min.isr"},
	{kafka.ShareStateTopic, "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"},
}

// raiseEvery is raiseInterval where there is more than one broker, else never.
func raiseEvery(s State) time.Duration {
	if s.Settings.Static == nil || s.Image.BrokerCount() < 2 {
		return 0
	}
	return raiseInterval
}

// raiseInternal gives the topics of coordinators more replicas, up to three, when brokers have joined since they were made:
// a cluster that began as one node must not lose its groups with that node. It goes the way of a reassignment.
func (t *turn) raiseInternal() []metadata.Record {
	brokers := t.takingReplicas()
	want := min(3, len(brokers))
	var out []metadata.Record
	for _, x := range raised {
		topic, ok := t.Image.Topic(x.topic)
		if !ok || t.Settings.Static.IsSet(x.factor) {
			continue
		}
		settled, load := true, loadOf(topic)
		for index, p := range topic.Partitions() {
			settled = settled && len(p.ISR) >= 3 && !p.Reassigning()
			if len(p.Replicas) >= want || p.Reassigning() || len(out) >= maxElections {
				continue
			}
			c := t.changeOf(metadata.PartitionRef{Topic: topic, Index: index, Partition: p}, t.active)
			c.moveTo(addReplicas(p.Replicas, brokers, want, load))
			if r := c.record(); r != nil {
				out = append(out, r)
			}
		}
		if settled {
			out = append(out, t.raiseMinISR(topic, x.minISR)...)
		}
	}
	return out
}

// takingReplicas lists the brokers in service that take new replicas, by id.
func (t *turn) takingReplicas() []*metadata.Broker {
	var out []*metadata.Broker
	for b := range t.Image.Brokers() {
		if b.Active() && !cordonedWhole(b) {
			out = append(out, b)
		}
	}
	return out
}

// loadOf counts the replicas of a topic by broker.
func loadOf(topic *metadata.Topic) map[kafka.NodeID]int {
	load := map[kafka.NodeID]int{}
	for _, p := range topic.Partitions() {
		for _, id := range p.Replicas {
			load[id]++
		}
	}
	return load
}

// addReplicas adds brokers to a partition's replicas: those of racks it has none in first, and of these the one with the
// least load, which is counted on.
func addReplicas(replicas []kafka.NodeID, brokers []*metadata.Broker, want int, load map[kafka.NodeID]int) []kafka.NodeID {
	out := slices.Clone(replicas)
	for len(out) < want {
		var best *metadata.Broker
		for _, b := range brokers {
			if !slices.Contains(out, b.ID) && (best == nil || better(b, best, out, brokers, load)) {
				best = b
			}
		}
		if best == nil {
			break
		}
		load[best.ID]++
		out = append(out, best.ID)
	}
	return out
}

// better says whether a is the better next replica than b; of equals the one with the lower id.
func better(a, b *metadata.Broker, replicas []kafka.NodeID, brokers []*metadata.Broker, load map[kafka.NodeID]int) bool {
	crowded := func(x *metadata.Broker) int {
		if x.Rack == nil {
			return 0
		}
		for _, other := range brokers {
			if other.Rack != nil && *other.Rack == *x.Rack && slices.Contains(replicas, other.ID) {
				return 1
			}
		}
		return 0
	}
	return cmp.Or(cmp.Compare(crowded(a), crowded(b)), cmp.Compare(load[a.ID], load[b.ID]), cmp.Compare(a.ID, b.ID)) < 0
}

// raiseMinISR lets a topic that was made by a lone node ask for two in-sync replicas, unless the cluster's value does, or
// somebody gave it or the setting a value. Moldau gives such a topic no value of its own, so one is a person's.
func (t *turn) raiseMinISR(topic *metadata.Topic, setting string) []metadata.Record {
	if setting == "" || t.Settings.Static.IsSet(setting) || t.factsOf(topic).minISR >= 2 {
		return nil
	}
	if _, own := t.Image.Config(metadata.TopicResource, topic.Name).Get(minISRKey); own {
		return nil
	}
	return t.setMinISR(metadata.TopicResource, topic.Name, "2")
}

// raiseClusterMinISR raises the cluster's min.insync.replicas, which a lone node has founded with 1, when the third broker
// registers for the first time. Only that moment does it, so that whoever wants 1 afterwards can have it; a value of server
// properties is not touched, nor any other value.
func (t *turn) raiseClusterMinISR() []metadata.Record {
	value, ok := t.Image.Config(metadata.BrokerResource, "").Get(minISRKey)
	if !ok || value != "1" || t.Image.BrokerCount() != 2 || t.Settings.Static == nil || t.Settings.Static.IsSet(minISRKey) {
		return nil
	}
	return t.setMinISR(metadata.BrokerResource, "", "2")
}

// setMinISR sets min.insync.replicas, with the ClearElr that every change of it brings along (KIP-966).
func (t *turn) setMinISR(kind metadata.ResourceType, name, value string) []metadata.Record {
	out := []metadata.Record{&metadata.ConfigRecord{ResourceType: kind, ResourceName: name, Name: minISRKey, Value: &value}}
	if t.elr {
		out = append(out, &metadata.ClearElrRecord{TopicName: name})
	}
	return out
}
