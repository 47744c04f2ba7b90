package assignor

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"moldau/internal/kafka"
)

// nobody, or none, stands in the place of the number of a member or partition.
const (
	nobody int32 = -1
	none   int32 = -1
)

// group is a Spec laid out in arrays: members have the numbers of Spec.Members, topics are numbered in the order of
// their ids, and all partitions of all subscribed topics are numbered through.
type group struct {
	members []Member
	topics  []topic
	number  map[kafka.UUID]int32
	wants   [][]int32 // by member: the topics it subscribes to, ascending
	owner   []int32   // by partition: the member that has it in the assignment being made
	load    []int32   // by member: how many partitions it has
}

type topic struct {
	id          kafka.UUID
	first       int32 // number of its partition 0
	count       int32
	subscribers []int32 // ascending
}

// newGroup lays a Spec out; nobody owns anything yet.
func newGroup(spec Spec) (*group, error) {
	g := &group{members: spec.Members, number: make(map[kafka.UUID]int32), wants: make([][]int32, len(spec.Members)),
		load: make([]int32, len(spec.Members))}
	var same []kafka.UUID // of the member before: most groups have one subscription
	for _, m := range spec.Members {
		if slices.Equal(m.Topics, same) {
			continue
		}
		for _, id := range m.Topics {
			if _, ok := spec.Topics[id]; !ok {
				return nil, kafka.Errorf(kafka.UnknownServerError,
					"Member %s subscribes to topic %s, which does not exist", m.ID, id)
			}
			g.number[id] = none
		}
		same = m.Topics
	}
	partitions := int32(0)
	for i, id := range slices.SortedFunc(maps.Keys(g.number), compareIDs) {
		g.number[id] = int32(i)
		g.topics = append(g.topics, topic{id: id, first: partitions, count: spec.Topics[id].Partitions})
		partitions += spec.Topics[id].Partitions
	}
	g.owner = slices.Repeat([]int32{nobody}, int(partitions))
	for m := range spec.Members {
		if m > 0 && slices.Equal(spec.Members[m].Topics, spec.Members[m-1].Topics) {
			g.wants[m] = g.wants[m-1]
		} else {
			g.wants[m] = g.numbers(spec.Members[m].Topics)
		}
		for _, t := range g.wants[m] {
			g.topics[t].subscribers = append(g.topics[t].subscribers, int32(m))
		}
	}
	return g, nil
}

// numbers are the numbers of topics, ascending.
func (g *group) numbers(ids []kafka.UUID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = g.number[id]
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// compareIDs orders topics as Kafka's Uuid does: two halves, each a signed number.
func compareIDs(a, b kafka.UUID) int {
	half := func(u kafka.UUID, at int) int64 { return int64(binary.BigEndian.Uint64(u[at:])) }
	return cmp.Or(cmp.Compare(half(a, 0), half(b, 0)), cmp.Compare(half(a, 8), half(b, 8)))
}

// keepOwned gives every member what it owns and still subscribes to.
func (g *group) keepOwned() {
	for m, member := range g.members {
		// In any order: what one member gets does not depend on what it got before.
		for id, parts := range member.Owned {
			n, ok := g.number[id]
			if _, wants := slices.BinarySearch(g.wants[m], n); !ok || !wants {
				continue
			}
			t := &g.topics[n]
			for _, p := range parts {
				if p >= 0 && p < t.count && g.owner[t.first+p] == nobody {
					g.give(t.first+p, int32(m))
				}
			}
		}
	}
}

// give makes member the owner of a partition that nobody has.
func (g *group) give(partition, member int32) {
	g.owner[partition] = member
	g.load[member]++
}

// free takes a partition from its owner.
func (g *group) free(partition int32) {
	g.load[g.owner[partition]]--
	g.owner[partition] = nobody
}

// sameTopics says whether all members subscribe to the same topics.
func (g *group) sameTopics() bool {
	for _, w := range g.wants {
		if len(w) != len(g.topics) {
			return false
		}
	}
	return true
}

// assignment writes down who owns what.
func (g *group) assignment() Assignment {
	out := make(Assignment, len(g.members))
	parts := make([]map[kafka.UUID][]int32, len(g.members))
	for m, member := range g.members {
		parts[m] = make(map[kafka.UUID][]int32)
		out[member.ID] = parts[m]
	}
	// The partitions of a topic are gathered by owner first: one map entry per member and topic, not per partition.
	held := make([][]int32, len(g.members))
	for _, t := range g.topics {
		for p := range t.count {
			if m := g.owner[t.first+p]; m != nobody {
				held[m] = append(held[m], p)
			}
		}
		for _, m := range t.subscribers {
			if len(held[m]) > 0 {
				parts[m][t.id] = slices.Clone(held[m])
				held[m] = held[m][:0]
			}
		}
	}
	return out
}
