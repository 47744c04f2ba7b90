package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// alterPartition answers AlterPartition (KIP-497): a leader wants another ISR, or has recovered from an
// unclean election.
func (t *turn) alterPartition(r *kmsg.AlterPartitionRequest) Result {
	reply := kmsg.NewPtrAlterPartitionResponse()
	b, err := t.checkBroker(kafka.NodeID(r.BrokerID), kafka.BrokerEpoch(r.BrokerEpoch))
	if err != nil {
		reply.ErrorCode = int16(kafka.CodeOf(err))
		return Result{Reply: reply}
	}
	a := &isrAlterer{turn: t, sender: b.ID, version: r.Version}
	for _, topic := range r.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = topic.Topic, topic.TopicID
		found, known := t.Image.TopicByID(topic.TopicID)
		if r.Version < 2 {
			found, known = t.Image.Topic(topic.Topic)
		}
		for _, p := range topic.Partitions {
			x := kmsg.NewAlterPartitionResponseTopicPartition()
			x.Partition = p.Partition
			switch {
			case known:
				a.alter(found, p, &x)
			case r.Version < 2:
				x.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			default:
				x.ErrorCode = int16(kafka.UnknownTopicID)
			}
			out.Partitions = append(out.Partitions, x)
		}
		reply.Topics = append(reply.Topics, out)
	}
	return Result{Records: a.records, Reply: reply}
}

// isrAlterer collects the outcome of one AlterPartition.
type isrAlterer struct {
	*turn
	sender  kafka.NodeID
	version int16
	records []metadata.Record
}

// proposal is the ISR that a leader asks for.
type proposal struct {
	isr         []kafka.NodeID
	epochs      []kafka.BrokerEpoch // of each member; -1 for not known
	recovering  bool
	leaderEpoch kafka.LeaderEpoch
	epoch       kafka.PartitionEpoch
}

// unknownEpoch stands for the broker epoch of a follower that did not tell it.
const unknownEpoch kafka.BrokerEpoch = -1

func (a *isrAlterer) alter(topic *metadata.Topic, r kmsg.AlterPartitionRequestTopicPartition,
	x *kmsg.AlterPartitionResponseTopicPartition) {
	p, ok := topic.Partition(r.Partition)
	if !ok {
		x.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		return
	}
	want, err := a.proposal(r)
	if err == nil {
		err = a.check(p, want)
	}
	if err != nil {
		x.ErrorCode = int16(kafka.CodeOf(err))
		return
	}
	c := a.changeOf(metadata.PartitionRef{Topic: topic, Index: r.Partition, Partition: p}, a.active)
	c.isr, c.recovering = want.isr, want.recovering
	if record := c.record(); record != nil {
		a.records = append(a.records, record)
		after := a.after([]metadata.Record{record})
		topic, _ = after.Image.TopicByID(topic.ID)
		p, _ = topic.Partition(r.Partition)
	}
	if p.Leader != a.sender {
		// The new ISR ended a reassignment that takes the leadership away from the sender.
		x.ErrorCode = int16(kafka.NewLeaderElected)
		return
	}
	x.LeaderID, x.LeaderEpoch, x.ISR = int32(p.Leader), int32(p.LeaderEpoch), rawIDs(p.ISR)
	x.PartitionEpoch, x.LeaderRecoveryState = int32(p.PartitionEpoch), int8(*recoveryState(p.Recovering))
}

func (a *isrAlterer) proposal(r kmsg.AlterPartitionRequestTopicPartition) (proposal, error) {
	want := proposal{leaderEpoch: kafka.LeaderEpoch(r.LeaderEpoch),
		epoch: kafka.PartitionEpoch(r.PartitionEpoch)}
	switch metadata.LeaderRecoveryState(r.LeaderRecoveryState) {
	case metadata.LeaderRecovered:
	case metadata.LeaderRecovering:
		want.recovering = true
	default:
		return want, kafka.InvalidRequest
	}
	if a.version < 3 {
		want.isr = nodeIDs(r.NewISR)
		want.epochs = slices.Repeat([]kafka.BrokerEpoch{unknownEpoch}, len(want.isr))
		return want, nil
	}
	for _, m := range r.NewEpochISR {
		want.isr = append(want.isr, kafka.NodeID(m.BrokerID))
		want.epochs = append(want.epochs, kafka.BrokerEpoch(m.BrokerEpoch))
	}
	return want, nil
}

// check judges a proposal, in Kafka's order: an answer must not depend on what a stale sender could not know.
func (a *isrAlterer) check(p *metadata.Partition, want proposal) error {
	switch {
	case want.leaderEpoch > p.LeaderEpoch || want.epoch > p.PartitionEpoch:
		return kafka.NotController // the sender knows more than this controller
	case want.leaderEpoch < p.LeaderEpoch:
		return kafka.FencedLeaderEpoch
	case p.Leader != a.sender:
		return kafka.InvalidRequest
	case want.epoch < p.PartitionEpoch:
		return kafka.InvalidUpdateVersion
	case len(want.isr) > len(p.Replicas) || repeats(want.isr) || !containsAll(p.Replicas, want.isr) ||
		!slices.Contains(want.isr, p.Leader):
		return kafka.InvalidRequest
	case want.recovering && (len(want.isr) > 1 || !p.Recovering):
		return kafka.InvalidRequest
	}
	for i, id := range want.isr {
		if !a.mayJoin(p, id, want.epochs[i]) {
			if a.version < 2 {
				return kafka.OperationNotAttempted
			}
			return kafka.IneligibleReplica
		}
	}
	return nil
}

// mayJoin says whether a broker may be in an ISR: in service, and the incarnation that the leader has seen.
func (t *turn) mayJoin(p *metadata.Partition, id kafka.NodeID, epoch kafka.BrokerEpoch) bool {
	b, ok := t.Image.Broker(id)
	return ok && b.Active() && (epoch == unknownEpoch || epoch == b.Epoch) &&
		b.DirectoryOnline(p.Directory(id))
}

func repeats(ids []kafka.NodeID) bool {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return true
		}
	}
	return false
}
