package assignor

import "slices"

// scale names the least and the most loaded of some members, over and over, while the caller gives the one and takes
// from the other, without searching.
//
// The members stand in a line, lightest first. At each end a group of members with one load is served in turn: the light
// ones from left to right, the heavy ones from right to left. When all of a group have been served its load has changed
// by one, and it takes in the neighbours that have that load too. Between two calls the caller changes the loads as the
// names that it was given demand.
type scale struct {
	load []int32 // by member, the group's
	line []int32
	keys []uint64

	light lightEnd
	heavy heavyEnd
}

// lightEnd is line[:end], whose members had this load when their turn began; next is served next.
type lightEnd struct {
	end, next int
	load      int32
}

// heavyEnd is line[start:end]; what stands behind it has been excluded.
type heavyEnd struct {
	start, end, next int
	load             int32
}

func newScale(load []int32) *scale { return &scale{load: load} }

// put places members, at least one, on the scale. Members with equal loads stand in the order of their numbers.
func (s *scale) put(members []int32) {
	s.keys = s.keys[:0]
	for _, m := range members {
		s.keys = append(s.keys, uint64(s.load[m])<<32|uint64(m))
	}
	slices.Sort(s.keys)
	s.line = s.line[:0]
	for _, k := range s.keys {
		s.line = append(s.line, int32(uint32(k)))
	}
	n := len(s.line)
	s.light = lightEnd{load: s.load[s.line[0]] - 1}
	s.heavy = heavyEnd{start: n, end: n, next: n - 1, load: s.load[s.line[n-1]] + 1}
}

// lightest is the member that is to get the next partition.
func (s *scale) lightest() int32 {
	l := &s.light
	if l.next == l.end {
		l.load++
		for l.end < len(s.line) && s.load[s.line[l.end]] == l.load {
			l.end++
		}
		l.next = 0
	}
	l.next++
	return s.line[l.next-1]
}

// heaviest is the member that is to give the next partition away, or nobody when all have been excluded.
func (s *scale) heaviest() int32 {
	h := &s.heavy
	if h.next < h.start {
		h.load--
		if h.start == h.end && h.start > 0 {
			// All of the group were excluded. The next one may be lighter by more than one.
			h.load = s.load[s.line[h.start-1]]
		}
		for h.start > 0 && s.load[s.line[h.start-1]] == h.load {
			h.start--
		}
		h.next = h.end - 1
	}
	if h.next < 0 {
		return nobody
	}
	h.next--
	return s.line[h.next+1]
}

// exclude takes the member that heaviest named last off the heavy end: it has nothing to give.
func (s *scale) exclude() {
	h := &s.heavy
	h.end--
	s.line[h.next+1], s.line[h.end] = s.line[h.end], s.line[h.next+1]
}

// even says whether the groups served last differ by one at most, so that moving a partition between them is no gain.
func (s *scale) even() bool { return s.heavy.load-s.light.load <= 1 }
