package group

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// classicMember is a member of a classic group.
type classicMember struct {
	id, clientID, clientHost string
	instance                 *string // of a static member
	rebalanceMs, sessionMs   int32
	protocols                []kmsg.JoinGroupRequestProtocol // as the member prefers them
	assignment               []byte

	join, sync *coordinator.Pending // parked requests
	fresh      bool                 // has not been answered yet since it was added, so it cannot send heartbeats
	owesSync   bool                 // has not sent SyncGroup in this generation

	deadline time.Time // of the session
	armed    time.Time // when the session's timer fires; the zero time: it is not set
}

// newClassicMember makes a member of what the log holds of it.
func newClassicMember(s memberMetadata, protocol string) *classicMember {
	return &classicMember{
		id:          s.id,
		clientID:    s.clientID,
		clientHost:  s.clientHost,
		instance:    s.instance,
		rebalanceMs: s.rebalanceMs,
		sessionMs:   s.sessionMs,
		protocols:   []kmsg.JoinGroupRequestProtocol{{Name: protocol, Metadata: s.subscription}},
		assignment:  s.assignment,
	}
}

func (m *classicMember) session() time.Duration { return time.Duration(m.sessionMs) * time.Millisecond }

// silent says whether the member gave no sign of life that counts now that its session has run out: one with a parked
// request cannot send heartbeats and is alive, unless it is a new one that may have given up.
func (m *classicMember) silent() bool { return m.fresh || m.join == nil && m.sync == nil }

// metadata is what the member tells the leader under a protocol.
func (m *classicMember) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// offers says whether the member's protocols are exactly these.
func (m *classicMember) offers(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// names lists the protocols of a member, each once.
func names(protocols []kmsg.JoinGroupRequestProtocol) []string {
	out := make([]string, 0, len(protocols))
	for _, p := range protocols {
		if !slices.Contains(out, p.Name) {
			out = append(out, p.Name)
		}
	}
	return out
}

// add takes a member in. Its protocols must suit the group.
func (c *classicGroup) add(m *classicMember) {
	if c.byID == nil {
		c.byID, c.votes = map[string]*classicMember{}, map[string]int{}
	}
	if len(c.roster) == 0 {
		c.leader = m.id
	}
	c.roster = append(c.roster, m)
	c.byID[m.id] = m
	c.index(m)
	c.unpend(m.id)
}

// index counts a member's protocols and bytes and notes its instance.
func (c *classicGroup) index(m *classicMember) {
	c.bytes += m.bytes()
	for _, n := range names(m.protocols) {
		c.votes[n]++
	}
	if m.instance != nil {
		if c.static == nil {
			c.static = map[string]*classicMember{}
		}
		c.static[*m.instance] = m
	}
}

// unindex undoes index.
func (c *classicGroup) unindex(m *classicMember) {
	c.bytes -= m.bytes()
	for _, n := range names(m.protocols) {
		if c.votes[n]--; c.votes[n] == 0 {
			delete(c.votes, n)
		}
	}
	if m.instance != nil && c.static[*m.instance] == m {
		delete(c.static, *m.instance)
	}
}

// remove takes a member out. Its parked requests must have been answered. A leader is succeeded by the member that joined
// first.
func (c *classicGroup) remove(m *classicMember) {
	c.unindex(m)
	delete(c.byID, m.id)
	c.roster = slices.DeleteFunc(c.roster, func(x *classicMember) bool { return x == m })
	if m.owesSync {
		m.owesSync = false
		c.unsynced--
	}
	if c.leader == m.id {
		c.leader = ""
		if len(c.roster) > 0 {
			c.leader = c.roster[0].id
		}
	}
}

// swap puts one member in the place of another.
func (c *classicGroup) swap(out, in *classicMember) {
	c.unindex(out)
	delete(c.byID, out.id)
	c.roster[slices.Index(c.roster, out)] = in
	c.byID[in.id] = in
	c.index(in)
	if c.leader == out.id {
		c.leader = in.id
	}
	if out.owesSync { // nobody waits for one that is gone; the new one has not been told a generation
		out.owesSync = false
		c.unsynced--
	}
}

// supports says whether a member with these protocols can be in the group: one of them must be known to all members.
func (c *classicGroup) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if c.phase == phaseEmpty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == c.typeName && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return c.votes[p.Name] == len(c.roster)
	})
}

// choose picks the protocol of the next generation: each member votes for the first of its protocols that all members
// support; most votes win, and among equals what the leader prefers, so that the choice does not depend on chance.
func (c *classicGroup) choose() string {
	count := map[string]int{}
	for _, m := range c.roster {
		for _, p := range m.protocols {
			if c.votes[p.Name] == len(c.roster) {
				count[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range c.byID[c.leader].protocols {
		if count[p.Name] > count[best] {
			best = p.Name
		}
	}
	return best
}

// rebalanceTimeout is how long the group waits for its members: as long as the most patient one asks.
func (c *classicGroup) rebalanceTimeout() time.Duration {
	var ms int32
	for _, m := range c.roster {
		ms = max(ms, m.rebalanceMs)
	}
	return time.Duration(ms) * time.Millisecond
}

// allJoined says whether nobody is missing from the join phase.
func (c *classicGroup) allJoined() bool { return c.joining == len(c.roster) && len(c.pending) == 0 }

// extend moves the deadline of a member's session. The timer is left alone while it fires before the deadline: it is set
// again then, so that a heartbeat costs no timer.
func (c *classicGroup) extend(now time.Time, m *classicMember, by time.Duration) []coordinator.Timer {
	m.deadline = now.Add(by)
	if !m.armed.IsZero() && !m.deadline.Before(m.armed) {
		return nil
	}
	m.armed = m.deadline
	return []coordinator.Timer{{Key: c.sessionTimer(m.id), At: m.armed}}
}

func (c *classicGroup) sessionTimer(member string) coordinator.TimerKey {
	return coordinator.TimerKey{Kind: timerMember, Scope: c.id, Member: member}
}

func (c *classicGroup) pendingTimer(member string) coordinator.TimerKey {
	return coordinator.TimerKey{Kind: timerPendingMember, Scope: c.id, Member: member}
}

// subscriptions are the topics that members of a consumer group name; nil when that is not known.
func (c *classicGroup) subscriptions() map[string]struct{} {
	if c.typeName != consumerProtocol || len(c.roster) == 0 {
		return nil
	}
	out := map[string]struct{}{}
	for _, m := range c.roster {
		topics, ok := subscribedTopics(m.metadata(c.protocol))
		if !ok {
			return nil
		}
		for _, t := range topics {
			out[t] = struct{}{}
		}
	}
	return out
}

// subscribedTopics reads the topics of a consumer's subscription. Every version begins with those of version 0, so newer
// ones are understood as well.
func subscribedTopics(b []byte) ([]string, bool) {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return nil, false
	}
	n, b := int(int32(binary.BigEndian.Uint32(b[2:]))), b[6:]
	if n < 0 || n > len(b)/2 {
		return nil, false
	}
	out := make([]string, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if b = b[2:]; size < 0 || size > len(b) {
			return nil, false
		}
		out, b = append(out, string(b[:size])), b[size:]
	}
	return out, true
}
