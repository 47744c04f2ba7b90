package assignor

import (
	"cmp"
	"slices"
)

// maxRounds bounds how often spreadMixed goes over the topics. Each round can only improve the balance; with
// subscriptions that overlap in chains the last improvements are small and come slowly.
const maxRounds = 16

// spreadMixed makes a balanced assignment of the present one when members subscribe to different topics. Loose
// partitions go to the subscriber with the smallest load, those first that have the fewest places to go; then every
// topic's subscribers are levelled, again and again until no topic has anything to move.
func (g *group) spreadMixed() {
	order := make([]*topic, len(g.topics))
	for t := range g.topics {
		order[t] = &g.topics[t]
	}
	slices.SortStableFunc(order, scarcer)
	s := newScale(g.load)
	for _, t := range order {
		s.put(t.subscribers)
		for p := t.first; p < t.first+t.count; p++ {
			if g.owner[p] == nobody {
				g.give(p, s.lightest())
			}
		}
	}
	l := newLeveller(g, s)
	settled := 0 // topics, up to the present one, that need no move
	for range maxRounds {
		for _, t := range order {
			if settled == len(order) {
				return
			}
			if l.level(t) {
				settled = 0
			}
			settled++
		}
	}
}

// scarcer orders topics for distribution: more partitions per subscriber first, then fewer subscribers; topics that are
// equal in both stay in the order of their ids.
func scarcer(a, b *topic) int {
	crowd := func(t *topic) float64 { return float64(t.count) / float64(len(t.subscribers)) }
	return cmp.Or(cmp.Compare(crowd(b), crowd(a)), cmp.Compare(len(a.subscribers), len(b.subscribers)))
}

// leveller moves partitions of one topic from its most to its least loaded subscribers.
type leveller struct {
	g     *group
	s     *scale
	top   []int32 // by member: the last partition of the topic that it may still give away
	under []int32 // by partition: the one its owner gives away after it
}

func newLeveller(g *group, s *scale) *leveller {
	return &leveller{g: g, s: s, top: slices.Repeat([]int32{none}, len(g.members)), under: make([]int32, len(g.owner))}
}

// level moves partitions until the loads of the topic's subscribers differ by one at most, or those with more have none
// of this topic. It says whether anything moved.
func (l *leveller) level(t *topic) bool {
	if l.g.spread(t.subscribers) <= 1 {
		return false
	}
	l.s.put(t.subscribers)
	for p := t.first; p < t.first+t.count; p++ {
		l.under[p], l.top[l.g.owner[p]] = l.top[l.g.owner[p]], p
	}
	moved := false
	for {
		from := l.giver()
		if from == nobody {
			break
		}
		to := l.s.lightest()
		if l.s.even() {
			break
		}
		p := l.top[from]
		l.top[from] = l.under[p]
		l.g.free(p)
		l.g.give(p, to)
		moved = true
	}
	for _, m := range t.subscribers {
		l.top[m] = none
	}
	return moved
}

// giver is the most loaded subscriber that has a partition to give away.
func (l *leveller) giver() int32 {
	for {
		m := l.s.heaviest()
		if m == nobody || l.top[m] != none {
			return m
		}
		l.s.exclude()
	}
}

// spread is the difference between the largest and the smallest load of members.
func (g *group) spread(members []int32) int32 {
	least, most := g.load[members[0]], g.load[members[0]]
	for _, m := range members {
		least, most = min(least, g.load[m]), max(most, g.load[m])
	}
	return most - least
}
