package controller

import (
	"math/rand/v2"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// placer spreads replicas over racks and brokers, from a random start, so that every broker gets about as
// many replicas and as many leaders as any other, and the replicas of a partition lie in as many racks as
// there are.
type placer struct {
	racks []*rack
	total int
	live  int // unfenced brokers
	start int // the rack of the next partition's leader
}

// rack is the brokers of one rack, in random order.
type rack struct {
	live, fenced ring
}

// ring deals brokers out, each at most once per partition, beginning one further with every partition.
type ring struct {
	ids          []kafka.NodeID
	start, dealt int
}

func (r *ring) next() (kafka.NodeID, bool) {
	if r.dealt >= len(r.ids) {
		return kafka.NoNode, false
	}
	id := r.ids[(r.start+r.dealt)%len(r.ids)]
	r.dealt++
	return id, true
}

// rewind makes the ring ready for the next partition.
func (r *ring) rewind() {
	if r.dealt > 0 {
		r.start = (r.start + 1) % len(r.ids)
	}
	r.dealt = 0
}

// newPlacer looks at the brokers that may get replicas: registered, not shutting down, not cordoned whole.
func (t *turn) newPlacer() *placer {
	p := &placer{}
	byRack := map[string]*rack{}
	for b := range t.Image.Brokers() {
		if t.Liveness.of(b.ID, b.Epoch).leaving() || b.InControlledShutdown && !b.Fenced || cordonedWhole(b) {
			continue
		}
		name := ""
		if b.Rack != nil {
			name = "r" + *b.Rack
		}
		r := byRack[name]
		if r == nil {
			r = &rack{}
			byRack[name] = r
			p.racks = append(p.racks, r)
		}
		p.total++
		if b.Fenced {
			r.fenced.ids = append(r.fenced.ids, b.ID)
		} else {
			p.live++
			r.live.ids = append(r.live.ids, b.ID)
		}
	}
	for _, r := range p.racks {
		shuffle(t.rnd, r.live.ids)
		shuffle(t.rnd, r.fenced.ids)
	}
	if len(p.racks) > 0 {
		p.start = t.rnd.IntN(len(p.racks))
	}
	return p
}

func shuffle(rnd *rand.Rand, ids []kafka.NodeID) {
	rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
}

// cordonedWhole says whether every log directory of a broker is closed to new replicas (KIP-1066).
func cordonedWhole(b *metadata.Broker) bool {
	if len(b.Cordoned) == 0 {
		return false
	}
	return !slices.ContainsFunc(b.LogDirs, func(d kafka.UUID) bool { return !slices.Contains(b.Cordoned, d) })
}

// check says whether a replication factor can be had.
func (p *placer) check(rf int) error {
	switch {
	case p.live == 0:
		return kafka.Errorf(kafka.InvalidReplicationFactor,
			"%d replicas are not possible now: no broker is in service", rf)
	case rf > p.total:
		return kafka.Errorf(kafka.InvalidReplicationFactor,
			"%d replicas are not possible: only %d brokers are registered",
			rf, p.total)
	}
	return nil
}

// place gives the replicas of the next partition, the leader first. The factor must have passed check.
func (p *placer) place(rf int) []kafka.NodeID {
	out := make([]kafka.NodeID, 0, rf)
	at := p.start
	for len(out) == 0 {
		if id, ok := p.racks[at].live.next(); ok {
			out = append(out, id)
		}
		at = (at + 1) % len(p.racks)
	}
	for _, kind := range [...]func(*rack) *ring{
		func(r *rack) *ring { return &r.live }, func(r *rack) *ring { return &r.fenced },
	} {
		out, at = p.deal(out, at, rf, kind)
	}
	p.start = (p.start + 1) % len(p.racks)
	for _, r := range p.racks {
		r.live.rewind()
		r.fenced.rewind()
	}
	return out
}

// deal goes round the racks until there are enough replicas or every broker of the kind has one.
func (p *placer) deal(out []kafka.NodeID, at, rf int, kind func(*rack) *ring) ([]kafka.NodeID, int) {
	for idle := 0; len(out) < rf && idle < len(p.racks); at = (at + 1) % len(p.racks) {
		idle++
		if id, ok := kind(p.racks[at]).next(); ok {
			out = append(out, id)
			idle = 0
		}
	}
	return out, at
}
