package group

import (
	"time"

	"moldau/internal/kafka"
)

func (m *Machine) upgrade(now time.Time, g *group) (*consumerTurn, error) {
	return nil, kafka.Errorf(kafka.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
}

func (t *consumerTurn) mayDowngrade([]*consumerMember) bool { return false }

func (t *consumerTurn) downgrade(gone []*consumerMember, come *consumerMember, reason string) error {
	return nil
}
