package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

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
