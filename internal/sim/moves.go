package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
)

// move asks for the replicas of a partition to be moved to brokers that are drawn, or for such a move to be given up.
func (w *World) move(m *machine) {
	var all []metadata.PartitionRef
	for topic := range w.partitions.newest.TopicsByID() {
		for i, p := range topic.Partitions() {
			all = append(all, metadata.PartitionRef{Topic: topic, Index: i, Partition: p})
		}
	}
	if !m.up() || len(all) == 0 {
		return
	}
	ref := all[w.rnd.IntN(len(all))]
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.SetVersion(r.MaxVersion())
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = ref.Topic.Name
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition = ref.Index
	if !w.chance(0.1) {
		for _, i := range w.rnd.Perm(len(w.machines))[:3] {
			p.Replicas = append(p.Replicas, int32(w.machines[i].id))
		}
	}
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	w.stats.Moves++
	w.logf("%s-%d is to be moved to %v", ref.Topic.Name, ref.Index, p.Replicas)
	w.ask(m, m.voter().pump.State().Leader, r, func(kmsg.Response, error) {})
}

// stop ends the process of a broker that the controller has let go.
func (b *broker) stop() {
	b.world.stats.Stops++
	b.world.logf("%d stops", b.m.id)
	m := b.m
	m.end()
	left := m.disk.KillClone()
	m.disk.Crash()
	m.disk = left
	m.restartLater()
}
