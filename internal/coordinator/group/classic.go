package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

func (m *Machine) applyClassic(coordinator.Record, coordinator.Origin) error { return nil }

func (m *Machine) classicJoin(_ time.Time, p *coordinator.Pending, r *kmsg.JoinGroupRequest, _ *rand.Rand) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) classicSync(_ time.Time, p *coordinator.Pending, r *kmsg.SyncGroupRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) classicHeartbeat(_ time.Time, p *coordinator.Pending, r *kmsg.HeartbeatRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) classicLeave(_ time.Time, p *coordinator.Pending, r *kmsg.LeaveGroupRequest) coordinator.Result {
	return failed(p, r.Group, kafka.UnsupportedVersion)
}

func (m *Machine) classicDescribe(p *coordinator.Pending, _ *kmsg.DescribeGroupsRequest) coordinator.Result {
	return failed(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) classicTimer(time.Time, coordinator.TimerKey, *rand.Rand) coordinator.Result {
	return coordinator.Result{}
}
