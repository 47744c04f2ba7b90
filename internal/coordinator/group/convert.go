package group

import (
	"time"

	"moldau/internal/kafka"
)

func (m *Machine) upgrade(now time.Time, g *group) (*turn, error) {
	return nil, kafka.Errorf(kafka.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
}

func (t *turn) mayDowngrade([]*consumerMember) bool { return false }

func (t *turn) downgrade(gone []*consumerMember, come *consumerMember, reason string) error {
	return nil
}
