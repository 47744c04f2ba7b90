package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// How a broker that may be dead is looked at: it is dead when its address refuses connections this many times in a row,
// so far apart. One that answers as often lives; a process that dies may still accept for a moment.
const (
	deathRefusals = 2
	lifeSigns     = 3
	deathInterval = 100 * time.Millisecond
	probeTimeout  = time.Second
)

// deathwatch finds out that a broker's process is gone long before its session ends. A refused connection proves it,
// provided that this node has reached the broker at that very address since it registered: an address that was never right
// proves nothing. Silence proves nothing either; that is what sessions are for. Every controller dials each new
// registration once, so that whoever takes office next may judge.
//
// Its lock is never held during I/O or calls. A nil deathwatch, that of a lone node, watches nobody.
type deathwatch struct {
	self     kafka.NodeID
	listener string // the one that brokers use among themselves
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	now      func() time.Time
	dead     func(id kafka.NodeID, epoch kafka.BrokerEpoch, since time.Time)
	log      *slog.Logger

	ctx     context.Context
	cancel  context.CancelFunc
	probes  sync.WaitGroup
	mu      sync.Mutex
	stopped bool
	brokers map[kafka.NodeID]*acquaintance
	watched map[watchedConn]bool
}

// acquaintance is a registered broker and how it is reached.
type acquaintance struct {
	epoch   kafka.BrokerEpoch
	address string
	fenced  bool
	met     bool // it has answered at the address
	busy    bool // it is being looked at
	// again says that it was suspected while nothing could be found out: it was being looked at, or not in service here yet.
	again bool
}

// watchedConn is a connection over which a broker told that it lives.
type watchedConn struct {
	conn   uint64
	broker kafka.NodeID
}

func newDeathwatch(n *Node) *deathwatch {
	w := &deathwatch{self: n.self.ID, listener: n.self.InterBroker, dial: n.o.Dial, now: n.o.Now, dead: n.control.fenceDead,
		log: n.log, brokers: map[kafka.NodeID]*acquaintance{}, watched: map[watchedConn]bool{}}
	if w.dial == nil {
		w.dial = (&net.Dialer{}).DialContext
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// stop ends all looks.
func (w *deathwatch) stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.probes.Wait()
}

// imageChanged meets brokers that registered or moved.
func (w *deathwatch) imageChanged(diff *metadata.Diff) {
	if w == nil {
		return
	}
	for id, change := range diff.Brokers() {
		if id != w.self {
			w.changed(id, change.New)
		}
	}
}

func (w *deathwatch) changed(id kafka.NodeID, b *metadata.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b == nil {
		delete(w.brokers, id)
		return
	}
	e, ok := b.Endpoint(w.listener)
	if !ok {
		delete(w.brokers, id)
		return
	}
	address := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	a := w.brokers[id]
	if a == nil || a.epoch != b.Epoch || a.address != address {
		a = &acquaintance{epoch: b.Epoch, address: address, fenced: true}
		w.brokers[id] = a
		w.start(func() { w.meet(id, a) })
	} else if a.fenced && !b.Fenced && !a.met { // it may have registered before it listened
		w.start(func() { w.meet(id, a) })
	}
	a.fenced = b.Fenced
	if !a.fenced && a.again {
		w.look(id, a)
	}
}

// start runs a look beside everything else. The caller holds w.mu.
func (w *deathwatch) start(f func()) {
	if !w.stopped {
		w.probes.Go(f)
	}
}

func (w *deathwatch) meet(id kafka.NodeID, a *acquaintance) {
	if w.probe(a.address) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.met = true
	if a.again {
		w.look(id, a)
	}
}

// probe connects and hangs up.
func (w *deathwatch) probe(address string) error {
	ctx, cancel := context.WithTimeout(w.ctx, probeTimeout)
	defer cancel()
	c, err := w.dial(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// heard notes over which connection a broker told that it lives: when that closes, the broker may be dead.
func (w *deathwatch) heard(c *server.ConnInfo, id kafka.NodeID) {
	if w == nil {
		return
	}
	key := watchedConn{c.ID, id}
	w.mu.Lock()
	known := w.watched[key]
	w.watched[key] = true
	w.mu.Unlock()
	if known {
		return
	}
	c.OnClose(func() {
		w.mu.Lock()
		delete(w.watched, key)
		w.mu.Unlock()
		w.suspect(id)
	})
}

// tookOffice suspects everybody: a controller that has just taken office has heard of nobody yet.
func (w *deathwatch) tookOffice(image *metadata.Image) {
	if w == nil {
		return
	}
	for b := range image.Brokers() {
		if !b.Fenced {
			w.suspect(b.ID)
		}
	}
}

// suspect looks whether a broker is dead.
func (w *deathwatch) suspect(id kafka.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.brokers[id]; a != nil {
		w.look(id, a)
	}
}

// look finds out whether a broker is dead. The caller holds w.mu.
func (w *deathwatch) look(id kafka.NodeID, a *acquaintance) {
	if a.again = !a.met || a.busy || a.fenced; a.again {
		return
	}
	a.busy = true
	since := w.now()
	w.start(func() {
		dead := w.isDead(a.address)
		w.mu.Lock()
		a.busy = false
		if !dead && a.again {
			w.look(id, a)
		}
		w.mu.Unlock()
		if dead {
			w.log.Warn("a broker is dead: its address refuses connections", "broker", id, "address", a.address)
			w.dead(id, a.epoch, since)
		}
	})
}

func (w *deathwatch) isDead(address string) bool {
	refusals, signs := 0, 0
	for refusals < deathRefusals && signs < lifeSigns {
		if refusals+signs > 0 {
			select {
			case <-w.ctx.Done():
				return false
			case <-time.After(deathInterval):
			}
		}
		switch err := w.probe(address); {
		case err == nil:
			refusals, signs = 0, signs+1
		case errors.Is(err, syscall.ECONNREFUSED):
			refusals++
		default:
			return false
		}
	}
	return refusals == deathRefusals
}
