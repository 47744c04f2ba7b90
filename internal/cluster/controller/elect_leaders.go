package controller

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// The election types of ElectLeaders.
const (
	preferredElection = 0
	uncleanElection   = 1
)

// electLeaders answers ElectLeaders (KIP-460): preferred replicas lead again, or partitions without a leader
// get one at the price of data. Without a list every partition is looked at, and those that need nothing are
// not told.
func (t *turn) electLeaders(r *kmsg.ElectLeadersRequest) Result {
	if r.ElectionType != preferredElection && r.ElectionType != uncleanElection {
		return Result{Reply: refuseElection(r)}
	}
	reply := kmsg.NewPtrElectLeadersResponse()
	e := &elector{turn: t, kind: r.ElectionType, done: map[kafka.TopicPartition]bool{}}
	if r.Topics == nil {
		for topic := range t.Image.Topics() {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = topic.Name
			for index := range topic.Partitions() {
				if err := e.elect(topic.Name, index); !errors.Is(err, kafka.ElectionNotNeeded) {
					out.Partitions = append(out.Partitions, electionResult(index, err))
				}
			}
			reply.Topics = append(reply.Topics, out)
		}
	}
	for _, topic := range r.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = topic.Topic
		for _, index := range topic.Partitions {
			out.Partitions = append(out.Partitions, electionResult(index, e.elect(topic.Topic, index)))
		}
		reply.Topics = append(reply.Topics, out)
	}
	return Result{Records: e.records, Reply: reply}
}

// refuseElection answers an unknown election type: for the whole request, and beside each partition asked about.
func refuseElection(r *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	err := kafka.Errorf(kafka.InvalidRequest, "there is no election type %d", r.ElectionType)
	reply := kmsg.NewPtrElectLeadersResponse()
	reply.ErrorCode = int16(kafka.InvalidRequest)
	for _, topic := range r.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = topic.Topic
		for _, index := range topic.Partitions {
			out.Partitions = append(out.Partitions, electionResult(index, err))
		}
		reply.Topics = append(reply.Topics, out)
	}
	return reply
}

func electionResult(index int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	x := kmsg.NewElectLeadersResponseTopicPartition()
	x.Partition, x.ErrorCode, x.ErrorMessage = index, int16(kafka.CodeOf(err)), messageOf(err)
	return x
}

// beginAnew gives a partition a leader that has lost its log directory, and with it everything: nothing else is left, and
// somebody has asked for it. The replica lies nowhere from then on, so that its broker makes it anew, empty. nil: no such
// broker is in service.
func (t *turn) beginAnew(ref metadata.PartitionRef) *metadata.PartitionChangeRecord {
	if t.mv < metadata.MVDirectories {
		return nil
	}
	for _, id := range ref.Partition.Replicas {
		b, ok := t.Image.Broker(id)
		if !ok || !t.active(id) || b.DirectoryOnline(ref.Partition.Directory(id)) {
			continue
		}
		c := t.changeOf(ref, t.active)
		c.election, c.eligible = electUnclean, func(other kafka.NodeID) bool { return other == id }
		c.dirs = map[kafka.NodeID]kafka.UUID{id: kafka.DirectoryUnassigned}
		c.isr, c.elr = nil, nil
		if r := c.record(); r != nil {
			return r
		}
	}
	return nil
}

// elector collects the outcome of one ElectLeaders.
type elector struct {
	*turn
	kind    int8
	records []metadata.Record
	done    map[kafka.TopicPartition]bool
}

func (e *elector) elect(name string, index int32) error {
	tp := kafka.TopicPartition{Topic: name, Partition: index}
	topic, ok := e.Image.Topic(name)
	if !ok {
		return kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no topic %q", name)
	}
	p, ok := topic.Partition(index)
	if !ok {
		return kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no partition %s", tp)
	}
	if e.done[tp] || e.kind == preferredElection && p.Leader == p.Preferred() ||
		e.kind == uncleanElection && p.HasLeader() {
		return kafka.Errorf(kafka.ElectionNotNeeded, "the leader is the wanted one")
	}
	c := e.changeOf(metadata.PartitionRef{Topic: topic, Index: index, Partition: p}, e.active)
	c.election = electPreferred
	if e.kind == uncleanElection {
		c.election = electUnclean
	}
	r := c.record()
	if r == nil && e.kind == uncleanElection {
		r = e.beginAnew(metadata.PartitionRef{Topic: topic, Index: index, Partition: p})
	}
	switch {
	case r == nil && e.kind == preferredElection:
		return kafka.Errorf(kafka.PreferredLeaderNotAvailable,
			"the preferred leader is not in sync or not in service")
	case r == nil:
		return kafka.Errorf(kafka.EligibleLeadersNotAvailable, "no replica is in service")
	}
	e.done[tp] = true
	e.records = append(e.records, r)
	return nil
}
