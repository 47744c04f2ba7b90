package controller

import (
	"time"

	"moldau/internal/kafka"
)

// Alive tells that a broker lives, without a heartbeat: the broker in the controller's own process does as
// long as the controller does, however late its heartbeats are while the machine is stalled.
func (l *Liveness) Alive(id kafka.NodeID, now time.Time) {
	if b := l.brokers[id]; b != nil {
		b.lastContact = now
	}
}
