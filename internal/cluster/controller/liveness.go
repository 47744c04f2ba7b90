package controller

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Liveness is what the heartbeats of one controller term have told about the brokers, and when periodic work
// is due. It is soft: a new term starts with a new one. Only the goroutine that calls Handle and Tick may
// touch it.
type Liveness struct {
	brokers map[kafka.NodeID]*brokerLife

	nextFence, nextNoOp, nextPreferred, nextUnclean, nextRaise time.Time
}

// brokerLife is what is known about one incarnation of a broker.
type brokerLife struct {
	epoch       kafka.BrokerEpoch
	lastContact time.Time
	// registeredAt is the offset of the RegisterBroker record. A broker that has not read it may not be
	// unfenced.
	registeredAt kafka.Offset
	// metadataOffset is how far the broker says it has read the metadata log; NoOffset before its first
	// heartbeat.
	metadataOffset kafka.Offset
	// shutdownOffset is what every active broker must have read before the broker may leave; NoOffset while
	// it does not want to.
	shutdownOffset kafka.Offset
	// connected tells whether the connection of the last request is open; nil for none.
	connected func() bool
}

// NewLiveness makes the liveness of a new term.
func NewLiveness() *Liveness { return &Liveness{brokers: map[kafka.NodeID]*brokerLife{}} }

// of gives what is known about a registered incarnation. An incarnation that was registered in another term
// has no contact yet.
func (l *Liveness) of(id kafka.NodeID, epoch kafka.BrokerEpoch) *brokerLife {
	b := l.brokers[id]
	if b == nil || b.epoch != epoch {
		b = &brokerLife{epoch: epoch, registeredAt: kafka.Offset(epoch), metadataOffset: kafka.NoOffset,
			shutdownOffset: kafka.NoOffset}
		l.brokers[id] = b
	}
	return b
}

// leaving says whether the broker is in a controlled shutdown of this term.
func (b *brokerLife) leaving() bool { return b.shutdownOffset != kafka.NoOffset }

// hasSession says whether an incarnation was heard of within the session timeout.
func (t *turn) hasSession(id kafka.NodeID, epoch kafka.BrokerEpoch) bool {
	b := t.Liveness.brokers[id]
	return b != nil && b.epoch == epoch && !b.lastContact.IsZero() &&
		t.now.Sub(b.lastContact) < t.Settings.BrokerSession
}

// lowestActiveOffset is the lowest metadata offset that an active broker reports; ok is false without active
// brokers.
func (t *turn) lowestActiveOffset() (lowest kafka.Offset, ok bool) {
	for b := range t.Image.Brokers() {
		life := t.Liveness.of(b.ID, b.Epoch)
		if b.Fenced || life.leaving() {
			continue
		}
		if !ok || life.metadataOffset < lowest {
			lowest, ok = life.metadataOffset, true
		}
	}
	return lowest, ok
}

// forget drops brokers that are not registered any more.
func (l *Liveness) forget(registered func(kafka.NodeID) bool) {
	for _, id := range slices.Sorted(maps.Keys(l.brokers)) {
		if !registered(id) {
			delete(l.brokers, id)
		}
	}
}
