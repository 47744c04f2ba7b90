package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerGroup gives the group when it is one of the consumer protocol.
func (m *Machine) consumerGroup(string) *group { return nil }

func (m *Machine) applyConsumer(int, coordinator.Record, coordinator.Origin) error { return nil }

func (m *Machine) consumerHeartbeat(_ time.Time, p *coordinator.Pending, r *kmsg.ConsumerGroupHeartbeatRequest,
	_ *rand.Rand) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) consumerDescribe(p *coordinator.Pending, _ *kmsg.ConsumerGroupDescribeRequest) coordinator.Result {
	return failed(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) consumerClassicJoin(_ time.Time, p *coordinator.Pending, _ *kmsg.JoinGroupRequest, g *group,
	_ *rand.Rand) coordinator.Result {
	return failed(p, g.id, kafka.UnsupportedVersion)
}

func (m *Machine) consumerClassicSync(_ time.Time, p *coordinator.Pending, _ *kmsg.SyncGroupRequest, g *group) coordinator.Result {
	return failed(p, g.id, kafka.UnsupportedVersion)
}

func (m *Machine) consumerClassicHeartbeat(_ time.Time, p *coordinator.Pending, _ *kmsg.HeartbeatRequest, g *group) coordinator.Result {
	return failed(p, g.id, kafka.UnsupportedVersion)
}

func (m *Machine) consumerClassicLeave(_ time.Time, p *coordinator.Pending, _ *kmsg.LeaveGroupRequest, g *group) coordinator.Result {
	return failed(p, g.id, kafka.UnsupportedVersion)
}

func (m *Machine) consumerTimer(time.Time, coordinator.TimerKey, *rand.Rand) coordinator.Result {
	return coordinator.Result{}
}
