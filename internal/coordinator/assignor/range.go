package assignor

import (
	"cmp"
	"slices"
)

// Range gives each member a contiguous range of every topic it subscribes to, the first members one partition more when
// the numbers do not divide. Members whose topics have equally many partitions and equal subscribers get the same
// partition numbers of each, so that records of one key meet in one member. Static members come first, by instance id
// (KIP-345): their ranges do not shift when a restart gives them new member ids. What members own now plays no part.
func Range() Assignor { return ranges{} }

type ranges struct{}

func (ranges) Name() string { return "range" }

func (ranges) Assign(spec Spec) (Assignment, error) {
	g, err := newGroup(spec)
	if err != nil {
		return nil, err
	}
	next := make([]int32, len(g.topics)) // by topic: how many subscribers had their turn
	for _, m := range g.staticFirst() {
		for _, t := range g.wants[m] {
			topic := &g.topics[t]
			from, to := share(topic.count, int32(len(topic.subscribers)), next[t])
			for p := from; p < to; p++ {
				g.give(topic.first+p, m)
			}
			next[t]++
		}
	}
	return g.assignment(), nil
}

// staticFirst lists the members: static ones by instance id, then the others by member id.
func (g *group) staticFirst() []int32 {
	order := make([]int32, len(g.members))
	for m := range g.members {
		order[m] = int32(m)
	}
	slices.SortFunc(order, func(x, y int32) int {
		a, b := g.members[x], g.members[y]
		switch {
		case a.InstanceID != nil && b.InstanceID != nil:
			return cmp.Or(cmp.Compare(*a.InstanceID, *b.InstanceID), cmp.Compare(x, y))
		case a.InstanceID != nil:
			return -1
		case b.InstanceID != nil:
			return 1
		}
		return cmp.Compare(x, y)
	})
	return order
}

// share cuts count partitions into n ranges whose sizes differ by one at most, the larger ones first, and returns the
// borders of the i-th.
func share(count, n, i int32) (from, to int32) {
	floor, larger := count/n, count%n
	from = i*floor + min(i, larger)
	to = from + floor
	if i < larger {
		to++
	}
	return from, to
}
