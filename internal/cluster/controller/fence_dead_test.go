package controller

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// TestFenceDead: a broker known to be dead loses its leaderships at once, and nobody else does.
func TestFenceDead(t *testing.T) {
	w := newWorld(t, founded())
	w.up(1, 2, 3)
	w.create("a", []int32{2, 3}, []int32{3, 2})
	b, _ := w.image.Broker(2)
	suspected := w.now
	dead := func(id kafka.NodeID, epoch kafka.BrokerEpoch, since time.Time) int {
		r := FenceDead(w.now, w.state(), id, epoch, since)
		w.apply(r)
		return len(r.Records)
	}
	w.now = w.now.Add(time.Millisecond)
	w.beat(2, false, false)
	if dead(2, b.Epoch, suspected) > 0 {
		t.Error("a broker that was heard of since was fenced")
	}
	r := latest(kmsg.NewPtrBrokerHeartbeatRequest())
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset = 2, int64(b.Epoch), 1000
	open := true
	w.ask(Request{Body: r, Connected: func() bool { return open }})
	if dead(2, b.Epoch, suspected) > 0 {
		t.Error("a broker that was heard of since, over an open connection, was fenced")
	}
	if dead(2, b.Epoch-1, w.now) > 0 || dead(9, b.Epoch, w.now) > 0 {
		t.Error("another incarnation was fenced")
	}
	if own, _ := w.image.Broker(1); dead(1, own.Epoch, w.now) > 0 {
		t.Error("the controller's own broker was fenced")
	}
	open = false
	if dead(2, b.Epoch, suspected) == 0 {
		t.Fatal("a heartbeat over a connection that is closed kept a dead broker alive")
	}
	if p := w.partition("a", 0); p.Leader != 3 || len(p.ISR) != 1 {
		t.Errorf("a-0 is led by %d", p.Leader)
	}
	if dead(2, b.Epoch, w.now) > 0 {
		t.Error("it was fenced twice")
	}
}
