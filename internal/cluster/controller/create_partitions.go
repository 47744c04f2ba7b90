package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// createPartitions answers CreatePartitions (KIP-195): topics get more partitions, with as many replicas as
// they have.
func (t *turn) createPartitions(r *kmsg.CreatePartitionsRequest) Result {
	reply := kmsg.NewPtrCreatePartitionsResponse()
	count := map[string]int{}
	for _, topic := range r.Topics {
		count[topic.Topic]++
	}
	tooMany := checkSize(len(r.Topics))
	var records []metadata.Record
	for _, topic := range r.Topics {
		var err error
		switch {
		case tooMany != nil:
			err = tooMany
		case count[topic.Topic] < 0:
			continue // answered
		case count[topic.Topic] > 1:
			count[topic.Topic] = -1
			err = kafka.Errorf(kafka.InvalidRequest, "topic %q stands there twice", topic.Topic)
		default:
			var more []metadata.Record
			more, err = t.grow(topic, maxRecordsPerRequest-len(records))
			records = append(records, more...)
		}
		x := kmsg.NewCreatePartitionsResponseTopic()
		x.Topic, x.ErrorCode, x.ErrorMessage = topic.Topic, int16(kafka.CodeOf(err)), messageOf(err)
		reply.Topics = append(reply.Topics, x)
	}
	if r.ValidateOnly {
		records = nil
	}
	return Result{Records: records, Atomic: true, Reply: reply}
}

// grow gives the records of a topic's new partitions, at most limit.
func (t *turn) grow(r kmsg.CreatePartitionsRequestTopic, limit int) ([]metadata.Record, error) {
	topic, ok := t.Image.Topic(r.Topic)
	if !ok {
		return nil, kafka.UnknownTopicOrPartition
	}
	have := topic.NumPartitions()
	more := int(r.Count) - have
	switch {
	case more == 0:
		return nil, kafka.Errorf(kafka.InvalidPartitions, "topic %q has %d partitions already", r.Topic, have)
	case more < 0:
		return nil, kafka.Errorf(kafka.InvalidPartitions,
			"topic %q has %d partitions, they cannot become %d", r.Topic, have,
			r.Count)
	case r.Assignment != nil && len(r.Assignment) != more:
		return nil, kafka.Errorf(kafka.InvalidReplicaAssignment,
			"%d partitions are to be added and %d are assigned", more,
			len(r.Assignment))
	case more > limit:
		return nil, checkSize(maxRecordsPerRequest + 1)
	}
	first, ok := topic.Partition(0)
	if !ok {
		return nil, kafka.UnknownServerError
	}
	next, err := t.newReplicas(r, len(first.Replicas))
	if err != nil {
		return nil, err
	}
	var out []metadata.Record
	for i := range more {
		p := t.newPartition(next(i))
		if len(p.ISR) == 0 {
			return nil, kafka.Errorf(kafka.InvalidReplicaAssignment,
				"no broker of partition %d is in service", have+i)
		}
		p.TopicID, p.PartitionID = topic.ID, int32(have+i)
		out = append(out, p)
	}
	return out, nil
}

// newReplicas gives the source of the replicas of the i-th new partition: as assigned, or placed.
func (t *turn) newReplicas(r kmsg.CreatePartitionsRequestTopic, rf int) (func(i int) []kafka.NodeID, error) {
	if r.Assignment == nil {
		p := t.newPlacer()
		return func(int) []kafka.NodeID { return p.place(rf) }, p.check(rf)
	}
	for _, a := range r.Assignment {
		if err := t.checkAssignment(nodeIDs(a.Replicas), rf); err != nil {
			return nil, err
		}
	}
	return func(i int) []kafka.NodeID { return nodeIDs(r.Assignment[i].Replicas) }, nil
}
