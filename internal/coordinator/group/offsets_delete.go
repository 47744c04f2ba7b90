package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// offsetDelete removes offsets of topics that no member reads (KIP-496). Whether there was an offset is not told.
func (m *Machine) offsetDelete(p *coordinator.Pending, r *kmsg.OffsetDeleteRequest) coordinator.Result {
	g := m.groups[r.Group]
	switch {
	case r.Group == "":
		return failed(p, r.Group, kafka.InvalidGroupID)
	case g == nil:
		return failed(p, r.Group, kafka.GroupIDNotFound)
	case g.kind.groupType() == typeClassic && g.kind.protocolType() != consumerProtocol && g.kind.checkDelete() != nil:
		// what the members of another protocol are subscribed to is not known
		return failed(p, r.Group, kafka.NonEmptyGroup)
	}
	resp := r.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var records []coordinator.Record
	for _, t := range r.Topics {
		known := m.resolve(p, false, t.Topic, kafka.ZeroUUID)
		out := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, x := range t.Partitions {
			err := known.err
			if err == nil {
				if _, ok := known.topic.Partition(x.Partition); !ok {
					err = kafka.UnknownTopicOrPartition
				} else if g.kind.subscribed(t.Topic) {
					err = kafka.GroupSubscribedToTopic
				} else if g.has(t.Topic, x.Partition) {
					records = append(records, offsetTombstone(g.id, t.Topic, x.Partition))
				}
			}
			out.Partitions = append(out.Partitions,
				kmsg.OffsetDeleteResponseTopicPartition{Partition: x.Partition, ErrorCode: int16(kafka.CodeOf(err))})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return coordinator.Result{Scope: r.Group, Records: records, Replies: answer(p, resp)}
}
