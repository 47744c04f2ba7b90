package controller

import (
	"math/rand/v2"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// placer spreads replicas over racks and brokers, from a random start, so that every broker gets about as many
// replicas and as many leaders as any other, the replicas of a partition lie in as many racks as there are, and
// the partitions that one broker leads do not all follow on the same others.
type placer struct {
	rnd   *rand.Rand
	racks []*rack
	total int
	live  int // unfenced brokers
	start int // the rack of the next partition's leader
}

// rack is the brokers of one rack, those in service and those that are fenced.
type rack struct {
	live, fenced ring
}

// ring deals the brokers of one kind in one rack out: leaders in rounds, each in a new random order; followers by
// who has the fewest replicas so far.
type ring struct {
	leaders []*member
	at      int // in leaders
	members []*member
	dealt   int // followers in this round
}

// member is a broker and how many replicas it was given.
type member struct {
	id       kafka.NodeID
	replicas int
}

// leader gives the next leader.
func (r *ring) leader(rnd *rand.Rand) (kafka.NodeID, bool) {
	if len(r.leaders) == 0 {
		return kafka.NoNode, false
	}
	if r.at == 0 {
		shuffle(rnd, r.leaders)
	}
	m := r.leaders[r.at]
	m.replicas++
	r.at = (r.at + 1) % len(r.leaders)
	return m.id, true
}

// follower gives the broker with the fewest replicas that has none of this partition yet. Among equals a random
// order counts, drawn anew with every round, so that the same brokers do not always come together.
func (r *ring) follower(rnd *rand.Rand, taken []kafka.NodeID) (kafka.NodeID, bool) {
	if r.dealt == 0 {
		shuffle(rnd, r.members)
	}
	var best *member
	for _, m := range r.members {
		if !slices.Contains(taken, m.id) && (best == nil || m.replicas < best.replicas) {
			best = m
		}
	}
	if best == nil {
		return kafka.NoNode, false
	}
	best.replicas++
	r.dealt = (r.dealt + 1) % len(r.members)
	return best.id, true
}

func (r *ring) add(id kafka.NodeID) {
	m := &member{id: id}
	r.leaders, r.members = append(r.leaders, m), append(r.members, m)
}

// newPlacer looks at the brokers that may get replicas: registered, not shutting down, not cordoned whole.
func (t *turn) newPlacer() *placer {
	p := &placer{rnd: t.rnd}
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
			r.fenced.add(b.ID)
		} else {
			p.live++
			r.live.add(b.ID)
		}
	}
	if len(p.racks) > 0 {
		p.start = t.rnd.IntN(len(p.racks))
	}
	return p
}

func shuffle(rnd *rand.Rand, all []*member) {
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
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

// place gives the replicas of the next partition: the leader first, then live brokers of one rack after the other,
// and fenced ones only when there are not enough. The factor must have passed check.
func (p *placer) place(rf int) []kafka.NodeID {
	out := make([]kafka.NodeID, 0, rf)
	at := p.start
	for len(out) == 0 {
		if id, ok := p.racks[at].live.leader(p.rnd); ok {
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
	return out
}

// deal goes round the racks until there are enough replicas or every broker of the kind has one.
func (p *placer) deal(out []kafka.NodeID, at, rf int, kind func(*rack) *ring) ([]kafka.NodeID, int) {
	for idle := 0; len(out) < rf && idle < len(p.racks); at = (at + 1) % len(p.racks) {
		idle++
		if id, ok := kind(p.racks[at]).follower(p.rnd, out); ok {
			out = append(out, id)
			idle = 0
		}
	}
	return out, at
}
