package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// alterReassignments answers AlterPartitionReassignments (KIP-455): partitions move to other brokers, or a move
// that is under way is taken back. Each partition has an outcome of its own; what is good is done all at once.
func (t *turn) alterReassignments(r *kmsg.AlterPartitionAssignmentsRequest) Result {
	reply := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	if len(r.Topics) == 0 {
		reply.ErrorMessage = new("")
		return Result{Reply: reply}
	}
	reply.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	partitions := 0
	for _, topic := range r.Topics {
		partitions += len(topic.Partitions)
	}
	if err := checkSize(partitions); err != nil {
		reply.ErrorCode, reply.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		return Result{Reply: reply}
	}
	m := &mover{turn: t, keepFactor: !r.AllowReplicationFactorChange, moved: map[kafka.TopicPartition]bool{}}
	for _, topic := range r.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			err := m.move(kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}, p.Replicas)
			x := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			x.Partition, x.ErrorCode, x.ErrorMessage = p.Partition, int16(kafka.CodeOf(err)), messageOf(err)
			out.Partitions = append(out.Partitions, x)
		}
		reply.Topics = append(reply.Topics, out)
	}
	return Result{Records: m.records, Atomic: true, Reply: reply}
}

// mover collects the outcome of one AlterPartitionReassignments.
type mover struct {
	*turn
	keepFactor bool // a change of the replication factor is refused (KIP-860)
	records    []metadata.Record
	moved      map[kafka.TopicPartition]bool
}

// move starts a reassignment to the given replicas, or with none at all (nil) takes the present one back.
func (m *mover) move(tp kafka.TopicPartition, target []int32) error {
	topic, p, err := m.find(tp)
	if err != nil {
		return err
	}
	now := m.turn
	if m.moved[tp] { // named twice: the later word counts, on top of the earlier one
		now = m.after(m.records)
		topic, _ = now.Image.TopicByID(topic.ID)
		p, _ = topic.Partition(tp.Partition)
	}
	c := now.changeOf(metadata.PartitionRef{Topic: topic, Index: tp.Partition, Partition: p}, now.active)
	if target == nil {
		err = c.takeBack()
	} else {
		err = m.start(c, nodeIDs(target))
	}
	if err != nil {
		return err
	}
	if r := c.record(); r != nil {
		m.records = append(m.records, r)
		m.moved[tp] = true
	}
	return nil
}

func (m *mover) find(tp kafka.TopicPartition) (*metadata.Topic, *metadata.Partition, error) {
	topic, ok := m.Image.Topic(tp.Topic)
	if !ok {
		return nil, nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no topic %q", tp.Topic)
	}
	p, ok := topic.Partition(tp.Partition)
	if !ok {
		return nil, nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no partition %s", tp)
	}
	return topic, p, nil
}

// start judges the target and puts it into the change. Brokers that are fenced may be among it: the move waits for
// them.
func (m *mover) start(c *change, target []kafka.NodeID) error {
	if err := m.checkAssignment(target, -1); err != nil {
		return err
	}
	p := c.ref.Partition
	if have := len(without(p.Replicas, p.Removing...)); m.keepFactor && have != len(target) {
		return kafka.Errorf(kafka.InvalidReplicationFactor,
			"the replication factor would change from %d to %d, which the request does not allow", have, len(target))
	}
	c.moveTo(target)
	return nil
}

// moveTo makes target where the partition is going. Replicas are the target first, then what goes away once the
// target is in sync. A replica that an earlier move added and this one does not want stands in both lists: it goes
// either way.
func (c *change) moveTo(target []kafka.NodeID) {
	p := c.ref.Partition
	c.election = electOnline
	c.removing = sorted(without(p.Replicas, target...))
	c.adding = sorted(append(without(target, p.Replicas...), p.Adding...))
	c.replicas = slices.Concat(target, c.removing)
}

// takeBack returns to the replicas there were before. When none of those is in sync any more, one that is eligible
// leads; without any that is an unclean election, which the topic must allow. (Kafka does not look at the eligible
// ones, and does not mark the partition as recovering.)
func (c *change) takeBack() error {
	p := c.ref.Partition
	if !p.Reassigning() {
		return kafka.NoReassignmentInProgress
	}
	before := without(p.Replicas, p.Adding...)
	if len(before) == 0 {
		return kafka.Errorf(kafka.InvalidReplicaAssignment, "every replica is one that the reassignment adds")
	}
	unclean := c.election == electUnclean
	c.election, c.isr = electOnline, without(p.ISR, p.Adding...)
	c.replicas, c.adding, c.removing = before, nil, nil
	if len(c.isr) > 0 {
		return nil
	}
	eligible := func(id kafka.NodeID) bool { return slices.Contains(p.ELR, id) && c.eligible(id) }
	if !unclean && !slices.ContainsFunc(before, eligible) {
		return kafka.Errorf(kafka.InvalidReplicaAssignment,
			"none of the replicas before is in sync, and the topic allows no unclean election")
	}
	if c.election = electUnclean; !c.elrOn {
		c.isr = before[:1] // only with ELR may an ISR be empty
	}
	return nil
}

// sorted orders a list of ids, which it may change.
func sorted(ids []kafka.NodeID) []kafka.NodeID {
	slices.Sort(ids)
	return ids
}
