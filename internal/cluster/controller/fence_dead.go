package controller

import (
	"time"

	"moldau/internal/kafka"
)

// FenceDead fences a broker before its session ends, because its process is known to be dead: nobody listens at its
// address any more. since is when that was first suspected. An incarnation that was heard of after that, over a connection
// that is still open, lives: a heartbeat may also have waited here since before. One that was replaced has been dealt with.
func FenceDead(now time.Time, s State, id kafka.NodeID, epoch kafka.BrokerEpoch, since time.Time) Result {
	t := newTurn(now, s, nil)
	b, err := t.checkBroker(id, epoch)
	if err != nil || b.Fenced || id == s.Settings.Node {
		return Result{}
	}
	life := t.Liveness.of(id, epoch)
	if life.lastContact.After(since) && (life.connected == nil || life.connected()) {
		return Result{}
	}
	life.shutdownOffset = kafka.NoOffset
	return Result{Records: t.fence(b)}
}
