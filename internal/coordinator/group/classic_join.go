package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

const (
	// freshJoinTimeout bounds how long a new member waits for its first generation: it does not know its id, so it can
	// send no heartbeat, and a client that gave up would be waited for in every rebalance.
	freshJoinTimeout = 5 * time.Minute
	// From these versions of JoinGroup on, clients join with an id that they were given before (KIP-394), and a leader
	// can be told not to assign (KIP-814).
	joinWithGivenID, joinSkipsAssignment = 4, 9
)

// classicJoin answers, or parks, a JoinGroup.
func (m *Machine) classicJoin(now time.Time, p *coordinator.Pending, r *kmsg.JoinGroupRequest, rnd *rand.Rand) coordinator.Result {
	refuse := func(code kafka.Code, member string) coordinator.Result {
		return coordinator.Result{Scope: r.Group, Replies: []coordinator.Reply{respond(p, joinError(code, member))}}
	}
	session, settings := time.Duration(r.SessionTimeoutMillis)*time.Millisecond, m.o.Settings()
	switch {
	case r.Group == "":
		return refuse(kafka.InvalidGroupID, r.MemberID)
	case session < settings.MinSession || session > settings.MaxSession:
		return refuse(kafka.InvalidSessionTimeout, r.MemberID)
	}
	g := m.groups[r.Group]
	switch {
	case g == nil && r.MemberID != "":
		return refuse(kafka.UnknownMemberID, r.MemberID)
	case g == nil && !newClassicGroup(r.Group).supports(r.ProtocolType, r.Protocols):
		return refuse(kafka.InconsistentGroupProtocol, "")
	case !m.hasMemory(g, p, r):
		return refuse(kafka.CoordinatorNotAvailable, r.MemberID) // which clients try again after
	case g == nil:
		return m.found(now, p, r, rnd, nil)
	case g.classic() == nil:
		return refuse(kafka.InconsistentGroupProtocol, "")
	}
	t := m.turn(now, g, rnd)
	t.join(p, r, settings.MaxSize)
	return t.Result
}

// found writes an empty group, so that it outlives this node, and joins it then. history is what is known of a group of
// another kind that it stands for.
func (m *Machine) found(now time.Time, p *coordinator.Pending, r *kmsg.JoinGroupRequest, rnd *rand.Rand,
	history []Rebalance) coordinator.Result {
	record := groupMetadataRecord(r.Group, groupMetadata{sinceMs: now.UnixMilli()})
	return coordinator.Result{
		Scope:   r.Group,
		Records: []coordinator.Record{record},
		Then: func(now time.Time, err error) coordinator.Result {
			if err != nil {
				return failed(p, r.Group, err)
			}
			g := m.groups[r.Group]
			g.history = history
			g.classic().restore()
			return m.classicJoin(now, p, r, rnd)
		},
	}
}

// join goes through the checks in Kafka's order: size, protocols, member.
func (t *turn) join(p *coordinator.Pending, r *kmsg.JoinGroupRequest, maxSize int) {
	c := t.c
	switch {
	case !c.hasRoom(r.MemberID, maxSize):
		t.turnAway(p, r.MemberID)
	case !c.supports(r.ProtocolType, r.Protocols):
		t.refuseJoin(p, kafka.InconsistentGroupProtocol, r.MemberID)
	case r.MemberID == "" && r.InstanceID != nil:
		t.joinStatic(p, r, t.newMemberID(*r.InstanceID))
	case r.MemberID == "" && r.Version >= joinWithGivenID:
		t.handOut(p, r, t.newMemberID(p.Call.ClientID))
	case r.MemberID == "":
		t.admit(p, r, t.newMemberID(p.Call.ClientID))
	case c.isPending(r.MemberID) && r.InstanceID == nil:
		t.Timers = append(t.Timers, coordinator.Timer{Key: c.pendingTimer(r.MemberID)})
		t.admit(p, r, r.MemberID)
	default:
		t.rejoin(p, r)
	}
}

// hasRoom says whether a member may join. While members are joining those that wait count, not those that are: when the
// limit was lowered it is the last ones to come back that stay out.
func (c *classicGroup) hasRoom(id string, maxSize int) bool {
	m := c.byID[id]
	switch c.phase {
	case phaseEmpty:
		return true
	case phasePreparing:
		return m != nil && m.join != nil || c.joining < maxSize
	}
	return m != nil || len(c.roster) < maxSize
}

// turnAway refuses a member for the group's size; one that was a member is none any more.
func (t *turn) turnAway(p *coordinator.Pending, id string) {
	if t.c.isPending(id) {
		t.forget(id)
	}
	if m := t.c.byID[id]; m != nil {
		t.expel(m)
	}
	t.refuseJoin(p, kafka.GroupMaxSizeReached, "")
	t.maybeComplete()
}

// maxIDPrefix is how much of a client's name fits into a member id: the log has two bytes for the length of an id.
const maxIDPrefix = math.MaxInt16 - len("-00000000-0000-0000-0000-000000000000")

// newMemberID makes an id of a prefix and a random UUID.
func (t *turn) newMemberID(prefix string) string {
	if len(prefix) > maxIDPrefix {
		prefix = strings.ToValidUTF8(prefix[:maxIDPrefix], "")
	}
	hi, lo := t.rnd.Uint64(), t.rnd.Uint64()
	hi, lo = hi&^0xf000|0x4000, lo&^(3<<62)|2<<62 // version 4, variant 1
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", prefix, hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
}

// handOut gives a client the id to join with. It counts as missing in a rebalance until it comes or its time is up.
func (t *turn) handOut(p *coordinator.Pending, r *kmsg.JoinGroupRequest, id string) {
	t.makeRoomFor(id)
	t.c.pend(id)
	t.arm(timerPendingMember, id, t.now.Add(time.Duration(r.SessionTimeoutMillis)*time.Millisecond))
	t.refuseJoin(p, kafka.MemberIDRequired, id)
}

// admit takes a new member in.
func (t *turn) admit(p *coordinator.Pending, r *kmsg.JoinGroupRequest, id string) {
	c := t.c
	m := &classicMember{id: id, instance: r.InstanceID, fresh: true}
	m.update(p, r)
	if len(c.roster) == 0 {
		c.typeName = r.ProtocolType
	}
	c.add(m)
	c.grown = c.grown || c.initial
	t.parkJoin(m, p)
	t.extend(m, freshJoinTimeout)
	t.rebalance(id, because("a new member", r))
}

// update takes over what a member says of itself when it joins.
func (m *classicMember) update(p *coordinator.Pending, r *kmsg.JoinGroupRequest) {
	m.clientID, m.clientHost = p.Call.ClientID, p.Call.ClientHost
	m.rebalanceMs, m.sessionMs = r.RebalanceTimeoutMillis, r.SessionTimeoutMillis
	if r.Version == 0 { // one timeout for both
		m.rebalanceMs = r.SessionTimeoutMillis
	}
	m.protocols = r.Protocols
}

// rejoin is the JoinGroup of a member.
func (t *turn) rejoin(p *coordinator.Pending, r *kmsg.JoinGroupRequest) {
	c := t.c
	m, err := c.checkMember(r.MemberID, r.InstanceID)
	if err != nil {
		t.refuseJoin(p, kafka.CodeOf(err), r.MemberID)
		return
	}
	changed := !m.offers(r.Protocols)
	switch {
	case c.phase == phasePreparing:
		t.update(m, p, r)
		t.maybeComplete()
	case changed:
		t.update(m, p, r)
		t.prepare(m.id, because("a member with other protocols or subscriptions", r))
	case c.phase == phaseStable && c.leader == m.id:
		t.update(m, p, r)
		t.prepare(m.id, because("the leader joined again", r)) // such as for more partitions, which only it can see
	default: // its answer was lost, perhaps: the generation stands
		t.extend(m, m.session())
		t.reply(p, c.joined(m))
	}
}

// update parks a member's JoinGroup and takes over what it says.
func (t *turn) update(m *classicMember, p *coordinator.Pending, r *kmsg.JoinGroupRequest) {
	t.c.unindex(m)
	m.update(p, r)
	t.c.index(m)
	t.parkJoin(m, p)
}
