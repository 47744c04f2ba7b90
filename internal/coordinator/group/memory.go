package group

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Memory bounds what the members of groups take on a node, with what they tell of themselves while they join, and the ids
// handed out to clients that may never come. A client can make as many of all as it likes, and they stay for as long as it
// asks. The machines of a node share one. The zero value, or nil, has no bound.
type Memory struct {
	Max       int64 // bytes
	used, ids atomic.Int64
}

// taken is what a group, or all of a machine, takes of a Memory, in bytes; ids is the part of all that ids handed out take.
type taken struct{ all, ids int64 }

// idShare is the part of a Memory that ids handed out may take: one in so many. Members come before clients that may
// never be any.
const idShare = 4

// leastPending is how many ids a group may have handed out however many others have.
const leastPending = 10

// Used is what members and ids take now, in bytes.
func (x *Memory) Used() int64 {
	if x == nil {
		return 0
	}
	return x.used.Load()
}

func (x *Memory) add(t taken) {
	if x != nil {
		x.used.Add(t.all)
		x.ids.Add(t.ids)
	}
}

func (x *Memory) room(n int64) bool {
	return x == nil || x.Max <= 0 || n <= 0 || x.used.Load()+n <= x.Max
}

func (x *Memory) roomForID(n int64) bool {
	return x == nil || x.Max <= 0 || x.ids.Load()+n <= x.Max/idShare
}

// What a member, one of its protocols, a topic that it names and an id that was handed out take beside their bytes: structs,
// map entries and timers.
const (
	memberOverhead   = 600
	protocolOverhead = 50
	topicOverhead    = 80
	pendingOverhead  = 400
)

func (m *classicMember) bytes() int64 {
	n := memberOverhead + len(m.id) + len(m.clientID) + len(m.clientHost) + protocolBytes(m.protocols)
	if m.instance != nil {
		n += len(*m.instance)
	}
	return int64(n)
}

func protocolBytes(protocols []kmsg.JoinGroupRequestProtocol) int {
	n := 0
	for _, p := range protocols {
		n += protocolOverhead + len(p.Name) + len(p.Metadata)
	}
	return n
}

// bytes is what a member of a consumer group takes beside its partitions, which exist anyway.
func (m *consumerMember) bytes() int64 {
	n := memberOverhead + len(m.id) + len(m.clientID) + len(m.clientHost) + len(m.regex)
	for _, s := range []*string{m.instance, m.rack, m.assignor} {
		if s != nil {
			n += len(*s)
		}
	}
	for _, t := range m.topics {
		n += topicOverhead + len(t)
	}
	if m.classic != nil {
		for _, p := range m.classic.protocols {
			n += protocolOverhead + len(p.name) + len(p.metadata)
		}
	}
	return int64(n)
}

// checkMemory refuses a member that brings more than may stay; clients try again. One that brings no more than it had is
// always let in.
func (t *consumerTurn) checkMemory(was, member *consumerMember) error {
	n := member.bytes()
	if old := t.g.roster[was.id]; old != nil {
		n -= old.bytes()
	}
	if !t.m.o.Memory.room(n) {
		return kafka.Errorf(kafka.CoordinatorNotAvailable, "The members of all groups take as much memory as they may.")
	}
	return nil
}

// hasMemory says whether what a JoinGroup brings may stay. A member that brings no more than it had is always let in.
func (m *Machine) hasMemory(g *group, p *coordinator.Pending, r *kmsg.JoinGroupRequest) bool {
	n := int64(memberOverhead + len(p.Call.ClientID) + len(r.MemberID) + protocolBytes(r.Protocols))
	if g != nil && g.classic() != nil {
		if old := g.classic().byID[r.MemberID]; old != nil {
			n -= old.bytes()
		}
	}
	return m.o.Memory.room(n)
}

// settle charges what a group takes now.
func (m *Machine) settle(id string) {
	g := m.groups[id]
	if g == nil {
		return
	}
	var t taken
	switch k := g.kind.(type) {
	case *classicGroup:
		t = taken{all: k.bytes + k.idBytes, ids: k.idBytes}
	case *consumerGroup:
		t.all = k.bytes
	}
	m.charge(g, t)
}

func (m *Machine) charge(g *group, t taken) {
	if t != g.charged {
		more := taken{all: t.all - g.charged.all, ids: t.ids - g.charged.ids}
		m.o.Memory.add(more)
		m.charged.all += more.all
		m.charged.ids += more.ids
		g.charged = t
	}
}

// settled settles what each part of a result changes.
func (m *Machine) settled(r coordinator.Result) coordinator.Result {
	m.settle(r.Scope)
	if then := r.Then; then != nil {
		r.Then = func(now time.Time, err error) coordinator.Result { return m.settled(then(now, err)) }
	}
	return r
}

// Close gives back what the groups took: the shard is not led here any more.
func (m *Machine) Close() {
	m.o.Memory.add(taken{all: -m.charged.all, ids: -m.charged.ids})
	m.charged = taken{}
}
