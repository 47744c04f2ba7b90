package group

import (
	"time"

	"moldau/internal/coordinator"
)

// What follows stands in until the consumer protocol is here: delete this file with it.

func (m *Machine) consumerLoaded(now time.Time, g *group) []coordinator.Timer { return nil }

func (m *Machine) consumerImageChanged(now time.Time, e coordinator.ImageChanged) {}
