package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// TestDeadBrokersAreFencedAtOnce: a broker whose process is killed loses its leaderships long before its session ends,
// also when it was the active controller. One that is merely cut off does not.
func TestDeadBrokersAreFencedAtOnce(t *testing.T) {
	c := staticCluster(t, 3, "broker.session.timeout.ms=60000")
	c.start()
	fencedBy := func(witness, id kafka.NodeID) bool {
		b, _ := c.nodes[witness].publisher.Image().Broker(id)
		return b.Fenced
	}
	// Whoever is to judge must have met the broker.
	acquainted := func(id kafka.NodeID) {
		t.Helper()
		c.eventually("everybody knows the broker", func() bool {
			for witness, n := range c.nodes {
				n.deathwatch.mu.Lock()
				a := n.deathwatch.brokers[id]
				known := a != nil && a.met && !a.fenced
				n.deathwatch.mu.Unlock()
				if witness != id && !known {
					return false
				}
			}
			return true
		})
	}
	active := c.active()
	victim := c.other(active)
	acquainted(victim)
	began := time.Now()
	c.kill(victim)
	c.eventually("the dead broker is fenced", func() bool { return fencedBy(active, victim) })
	t.Logf("fenced after %v", time.Since(began))
	c.start(victim)
	c.eventually("it is back", func() bool { return !fencedBy(active, victim) })

	active = c.active()
	witness := c.other(active)
	acquainted(active)
	began = time.Now()
	c.kill(active)
	c.eventually("the dead controller's broker is fenced", func() bool { return fencedBy(witness, active) })
	t.Logf("fenced after %v", time.Since(began))
	c.start(active)
	c.eventually("it is back", func() bool { return !fencedBy(witness, active) })

	active = c.active()
	apart := c.other(active)
	c.isolate(apart)
	time.Sleep(2 * time.Second)
	if fencedBy(active, apart) {
		t.Error("a broker that is cut off was fenced before its session had ended")
	}
	c.net.Heal()
}

// addressBook is a network for a deathwatch: what happens when an address is dialled.
type addressBook struct {
	mu      sync.Mutex
	answers map[string][]error // the last one stays
	dials   int
}

func (a *addressBook) dial(_ context.Context, _, address string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dials++
	all := a.answers[address]
	if len(all) == 0 {
		return nil, errors.New("no route")
	}
	if len(all) > 1 {
		a.answers[address] = all[1:]
	}
	if all[0] != nil {
		return nil, all[0]
	}
	c, _ := net.Pipe()
	return c, nil
}

func TestDeathwatch(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, x := range map[string]struct {
		answers []error // the first is to the look at the registration
		dead    bool
	}{
		"refused twice":                   {[]error{nil, refused, refused}, true},
		"refused once":                    {[]error{nil, refused, nil}, false},
		"the process takes a moment":      {[]error{nil, nil, refused, refused}, true},
		"answers":                         {[]error{nil}, false},
		"times out":                       {[]error{nil, context.DeadlineExceeded}, false},
		"refused, then times out":         {[]error{nil, refused, context.DeadlineExceeded}, false},
		"the address was never right":     {[]error{refused}, false},
		"refused only at the second look": {[]error{nil, nil, nil, nil, refused, refused}, true},
		"never reached, then not refused": {[]error{context.DeadlineExceeded, refused}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := &addressBook{answers: map[string][]error{"h:1": x.answers}}
			var mu sync.Mutex
			var told []kafka.NodeID
			w := &deathwatch{self: 1, listener: "PLAINTEXT", dial: book.dial, now: time.Now, log: slog.New(slog.DiscardHandler),
				dead: func(id kafka.NodeID, _ kafka.BrokerEpoch, _ time.Time) {
					mu.Lock()
					told = append(told, id)
					mu.Unlock()
				}, brokers: map[kafka.NodeID]*acquaintance{}, watched: map[watchedConn]bool{}}
			w.ctx, w.cancel = context.WithCancel(t.Context())
			broker := &metadata.Broker{ID: 2, Epoch: 5, Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 1}}}
			w.changed(2, broker)
			w.probes.Wait()
			w.suspect(2)
			w.suspect(2) // is being looked at: once more after that
			w.suspect(3) // is not known
			w.probes.Wait()
			w.stop()
			if got := len(told) > 0; got != x.dead || len(told) > 1 {
				t.Errorf("told of %v", told)
			}
			w.suspect(2)
			if w.probes.Wait(); book.dials > 8 {
				t.Errorf("%d dials", book.dials)
			}
		})
	}
}
