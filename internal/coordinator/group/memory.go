package group

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// Memory bounds what the members of classic groups take on a node that no log holds: their protocols while they join, and the
// ids handed out to clients that may never come. A client can make as many of both as it likes, and they stay for as long
// as it asks. The machines of a node share one. The zero value, or nil, has no bound.
type Memory struct {
	Max  int64 // bytes
	used atomic.Int64
}

// Used is what members take now, in bytes.
func (x *Memory) Used() int64 {
	if x == nil {
		return 0
	}
	return x.used.Load()
}

func (x *Memory) add(n int64) {
	if x != nil {
		x.used.Add(n)
	}
}

func (x *Memory) room(n int64) bool {
	return x == nil || x.Max <= 0 || n <= 0 || x.used.Load()+n <= x.Max
}

// What a member, one of its protocols and an id that was handed out take beside their bytes: structs, map entries and timers.
const (
	memberOverhead   = 600
	protocolOverhead = 50
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

// pend notes an id that was handed out.
func (c *classicGroup) pend(id string) {
	if c.pending == nil {
		c.pending = map[string]struct{}{}
	}
	c.pending[id] = struct{}{}
	c.bytes += int64(pendingOverhead + len(id))
}

// unpend drops an id that was handed out, if it was.
func (c *classicGroup) unpend(id string) {
	if _, ok := c.pending[id]; ok {
		delete(c.pending, id)
		c.bytes -= int64(pendingOverhead + len(id))
	}
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
	n := int64(0)
	if c := g.classic(); c != nil {
		n = c.bytes
	}
	m.charge(g, n)
}

func (m *Machine) charge(g *group, n int64) {
	if n != g.charged {
		m.o.Memory.add(n - g.charged)
		m.charged += n - g.charged
		g.charged = n
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
	m.o.Memory.add(-m.charged)
	m.charged = 0
}
