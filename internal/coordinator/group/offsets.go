package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// offsets are the committed offsets of one group.
type offsets struct{}

func (m *Machine) applyOffset(coordinator.Record, coordinator.Origin) error { return nil }

// Ended takes over, or drops, what a producer's transaction committed.
func (m *Machine) Ended(coordinator.Stamp, bool, coordinator.Origin) {}

func (m *Machine) loaded(time.Time) coordinator.Result { return coordinator.Result{} }

func (m *Machine) imageChanged(time.Time, coordinator.ImageChanged) coordinator.Result {
	return coordinator.Result{}
}

func (m *Machine) offsetCommit(_ time.Time, p *coordinator.Pending, r *kmsg.OffsetCommitRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) txnOffsetCommit(_ time.Time, p *coordinator.Pending, r *kmsg.TxnOffsetCommitRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) offsetFetch(p *coordinator.Pending, _ *kmsg.OffsetFetchRequest) coordinator.Result {
	return failed(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) offsetDelete(p *coordinator.Pending, r *kmsg.OffsetDeleteRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) listGroups(p *coordinator.Pending, _ *kmsg.ListGroupsRequest) coordinator.Result {
	return failed(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) deleteGroup(p *coordinator.Pending, _ *kmsg.DeleteGroupsRequest) coordinator.Result {
	return failed(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) expire(time.Time) coordinator.Result { return coordinator.Result{} }
