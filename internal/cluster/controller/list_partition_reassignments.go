package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
)

// listReassignments answers ListPartitionReassignments (KIP-455): the partitions that are moving, of those asked for
// or, without a list, of all. What does not exist or does not move is left out.
func (t *turn) listReassignments(r *kmsg.ListPartitionReassignmentsRequest) Result {
	reply := kmsg.NewPtrListPartitionReassignmentsResponse()
	add := func(topic *metadata.Topic, moving []kmsg.ListPartitionReassignmentsResponseTopicPartition) {
		if len(moving) > 0 {
			out := kmsg.NewListPartitionReassignmentsResponseTopic()
			out.Topic, out.Partitions = topic.Name, moving
			reply.Topics = append(reply.Topics, out)
		}
	}
	if r.Topics == nil {
		for topic := range t.Image.Topics() {
			var moving []kmsg.ListPartitionReassignmentsResponseTopicPartition
			for index, p := range topic.Partitions() {
				moving = appendMoving(moving, index, p)
			}
			add(topic, moving)
		}
	}
	for _, asked := range r.Topics {
		topic, ok := t.Image.Topic(asked.Topic)
		if !ok {
			continue
		}
		var moving []kmsg.ListPartitionReassignmentsResponseTopicPartition
		for _, index := range asked.Partitions {
			if p, ok := topic.Partition(index); ok {
				moving = appendMoving(moving, index, p)
			}
		}
		add(topic, moving)
	}
	return Result{Reply: reply}
}

func appendMoving(
	to []kmsg.ListPartitionReassignmentsResponseTopicPartition, index int32, p *metadata.Partition,
) []kmsg.ListPartitionReassignmentsResponseTopicPartition {
	if !p.Reassigning() {
		return to
	}
	x := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	x.Partition, x.Replicas = index, rawIDs(p.Replicas)
	x.AddingReplicas, x.RemovingReplicas = rawIDs(p.Adding), rawIDs(p.Removing)
	return append(to, x)
}
