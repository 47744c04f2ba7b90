package group

import (
	"maps"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// memberState is how far a member is with its assignment: the byte that is persisted.
type memberState uint8

const (
	memberStable     memberState = 0   // it has what it shall have
	memberUnrevoked  memberState = 1   // it must give up partitions, and keeps its epoch until it has
	memberUnreleased memberState = 2   // it waits for partitions that others have not given up
	memberUnknown    memberState = 127 // written by a newer program
)

// Member epochs that a member sends to leave. The second one is stored too: a static member that is away.
const (
	epochLeave       int32 = -1
	epochLeaveStatic int32 = -2
)

// consumerMember is one member of a consumer group. It is never changed once it is in a group: a change makes a copy.
type consumerMember struct {
	id                 string
	instance, rack     *string
	clientID           string
	clientHost         string
	rebalanceTimeoutMs int32
	assignor           *string  // the server assignor it votes for
	topics             []string // sorted, each once
	regex              string   // "" for none
	classic            *classicFace

	epoch, previous    int32
	state              memberState
	assigned, revoking held
}

// classicFace is what a member that speaks the classic protocol told in its JoinGroup.
type classicFace struct {
	sessionTimeoutMs int32
	protocols        []classicProtocol // in the member's order of preference
}

type classicProtocol struct {
	name     string
	metadata []byte
}

// preferred is the protocol that the member is told the group uses, as every one assigns alike here.
func (c *classicFace) preferred() classicProtocol {
	if len(c.protocols) == 0 {
		return classicProtocol{}
	}
	return c.protocols[0]
}

func newConsumerMember(id string) *consumerMember {
	return &consumerMember{id: id, rebalanceTimeoutMs: -1, state: memberStable}
}

// with copies the member under another id.
func (m *consumerMember) with(id string) *consumerMember {
	c := *m
	c.id = id
	return &c
}

// at moves the member to an epoch; what it was before counts as the previous one, also when they are equal.
func (m *consumerMember) at(epoch int32) {
	m.previous, m.epoch = m.epoch, epoch
}

// reconciled says whether the member has all of the assignment of an epoch.
func (m *consumerMember) reconciled(epoch int32) bool {
	return m.state == memberStable && m.epoch == epoch
}

// has is what the member may be consuming: what is assigned to it, and what it has not given up.
func (m *consumerMember) has() partitions {
	p := m.assigned.partitions()
	for topic := range m.revoking {
		p.add(topic, m.revoking.numbers(topic))
	}
	return p
}

// sameSubscription says whether what the subscription record holds is equal.
func (m *consumerMember) sameSubscription(o *consumerMember) bool {
	return equalStrings(m.instance, o.instance) && equalStrings(m.rack, o.rack) && m.clientID == o.clientID &&
		m.clientHost == o.clientHost && m.rebalanceTimeoutMs == o.rebalanceTimeoutMs &&
		equalStrings(m.assignor, o.assignor) && slices.Equal(m.topics, o.topics) && m.regex == o.regex &&
		m.classic.equal(o.classic)
}

// sameCurrent says whether what the current assignment record holds is equal.
func (m *consumerMember) sameCurrent(o *consumerMember) bool {
	return m.epoch == o.epoch && m.previous == o.previous && m.state == o.state && m.assigned.equal(o.assigned) &&
		m.revoking.equal(o.revoking)
}

func (c *classicFace) equal(o *classicFace) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs &&
		slices.EqualFunc(c.protocols, o.protocols, func(a, b classicProtocol) bool {
			return a.name == b.name && slices.Equal(a.metadata, b.metadata)
		})
}

func equalStrings(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// partitions are partitions by topic, sorted, each once. No topic has an empty list.
type partitions map[kafka.UUID][]int32

// topics gives the topics in a fixed order.
func (p partitions) topics() []kafka.UUID { return slices.SortedFunc(maps.Keys(p), compareUUID) }

func (p partitions) has(topic kafka.UUID, number int32) bool {
	_, ok := slices.BinarySearch(p[topic], number)
	return ok
}

// add puts partitions of a topic in.
func (p partitions) add(topic kafka.UUID, numbers []int32) {
	if len(numbers) == 0 {
		return
	}
	all := append(p[topic], numbers...)
	if !slices.IsSorted(all) {
		slices.Sort(all)
	}
	p[topic] = slices.Compact(all)
}

// normal sorts what was gathered without order, once for each topic: a client may name the same one any number of times.
func (p partitions) normal() partitions {
	for topic, numbers := range p {
		if len(numbers) == 0 {
			delete(p, topic)
			continue
		}
		slices.Sort(numbers)
		p[topic] = slices.Compact(numbers)
	}
	return p
}

func (p partitions) equal(o partitions) bool {
	return maps.EqualFunc(p, o, func(a, b []int32) bool { return slices.Equal(a, b) })
}

// held are partitions by topic, each with the epoch at which it was assigned (KIP-1251). No topic is empty.
type held map[kafka.UUID]map[int32]int32

func (h held) topics() []kafka.UUID { return slices.SortedFunc(maps.Keys(h), compareUUID) }

func (h held) numbers(topic kafka.UUID) []int32 { return slices.Sorted(maps.Keys(h[topic])) }

func (h held) has(topic kafka.UUID, number int32) bool {
	_, ok := h[topic][number]
	return ok
}

func (h held) put(topic kafka.UUID, number, epoch int32) {
	if h[topic] == nil {
		h[topic] = map[int32]int32{}
	}
	h[topic][number] = epoch
}

func (h held) equal(o held) bool {
	return maps.EqualFunc(h, o, func(a, b map[int32]int32) bool { return maps.Equal(a, b) })
}

// samePartitions compares without the epochs.
func (h held) samePartitions(o held) bool {
	return maps.EqualFunc(h, o, func(a, b map[int32]int32) bool {
		return maps.EqualFunc(a, b, func(int32, int32) bool { return true })
	})
}

func (h held) clone() held {
	c := make(held, len(h))
	for topic, numbers := range h {
		c[topic] = maps.Clone(numbers)
	}
	return c
}

// partitions drops the epochs.
func (h held) partitions() partitions {
	p := make(partitions, len(h))
	for topic := range h {
		p[topic] = h.numbers(topic)
	}
	return p
}

// heldAt makes partitions held since an epoch.
func heldAt(p partitions, epoch int32) held {
	h := make(held, len(p))
	for topic, numbers := range p {
		for _, n := range numbers {
			h.put(topic, n, epoch)
		}
	}
	return h
}

func compareUUID(a, b kafka.UUID) int { return strings.Compare(string(a[:]), string(b[:])) }
