package group

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// turn is what one event does to one classic group; the result gathers what comes of it.
type turn struct {
	coordinator.Result
	m   *Machine
	g   *group
	c   *classicGroup
	now time.Time
	rnd *rand.Rand // to name new members; nil where none can come
}

// turn begins one event of a classic group.
func (m *Machine) turn(now time.Time, g *group, rnd *rand.Rand) *turn {
	return &turn{Result: coordinator.Result{Scope: g.id}, m: m, g: g, c: g.classic(), now: now, rnd: rnd}
}

func (t *turn) arm(kind uint8, member string, at time.Time) {
	t.Timers = append(t.Timers, coordinator.Timer{
		Key: coordinator.TimerKey{Kind: kind, Scope: t.c.id, Member: member}, At: at,
	})
}

func (t *turn) reply(p *coordinator.Pending, body kmsg.Response) {
	t.Replies = append(t.Replies, respond(p, body))
}

// respond answers a request in its version.
func respond(p *coordinator.Pending, body kmsg.Response) coordinator.Reply {
	body.SetVersion(p.Body.GetVersion())
	return coordinator.Reply{To: p, Answer: coordinator.Answer{Body: body}}
}

// refuseJoin answers a JoinGroup with an error and the member id that the client is to know.
func (t *turn) refuseJoin(p *coordinator.Pending, code kafka.Code, member string) {
	t.reply(p, joinError(code, member))
}

// joinError is a JoinGroup response without a generation.
func joinError(code kafka.Code, member string) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.MemberID = int16(code), -1, member
	return resp
}

// syncError is a SyncGroup response without an assignment.
func syncError(code kafka.Code) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = int16(code)
	return resp
}

// extend moves the deadline of a member's session.
func (t *turn) extend(m *classicMember, by time.Duration) {
	t.Timers = append(t.Timers, t.c.extend(t.now, m, by)...)
}

// parkJoin keeps a member's JoinGroup until the join phase ends. An older one of the same member is of a connection that
// the client has given up; it is answered so that nothing stays behind.
func (t *turn) parkJoin(m *classicMember, p *coordinator.Pending) {
	t.answerJoin(m, joinError(kafka.RebalanceInProgress, m.id))
	m.join = p
	t.c.joining++
}

func (t *turn) answerJoin(m *classicMember, body *kmsg.JoinGroupResponse) {
	if m.join != nil {
		t.reply(m.join, body)
		m.join = nil
		t.c.joining--
	}
}

// parkSync keeps a member's SyncGroup until the leader's arrives.
func (t *turn) parkSync(m *classicMember, p *coordinator.Pending) {
	t.answerSync(m, syncError(kafka.RebalanceInProgress))
	m.sync = p
}

func (t *turn) answerSync(m *classicMember, body *kmsg.SyncGroupResponse) bool {
	if m.sync == nil {
		return false
	}
	t.reply(m.sync, body)
	m.sync = nil
	return true
}

// expel takes a member out of the group. If it still waits for an answer it is told that it is unknown: it joins again if
// it is alive.
func (t *turn) expel(m *classicMember) {
	t.answerJoin(m, joinError(kafka.UnknownMemberID, ""))
	t.answerSync(m, syncError(kafka.UnknownMemberID))
	t.disarm(m)
	t.c.remove(m)
}

func (t *turn) disarm(m *classicMember) {
	if !m.armed.IsZero() {
		m.armed = time.Time{}
		t.Timers = append(t.Timers, coordinator.Timer{Key: t.c.sessionTimer(m.id)})
	}
}

// forget drops a member id that was handed out and never used.
func (t *turn) forget(id string) {
	t.c.unpend(id)
	t.Timers = append(t.Timers, coordinator.Timer{Key: t.c.pendingTimer(id)})
}

// membersForLeader lists the members as a JoinGroup response shows them to the leader.
func (c *classicGroup) membersForLeader() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(c.roster))
	for _, m := range c.roster {
		out = append(out, kmsg.JoinGroupResponseMember{
			MemberID: m.id, InstanceID: m.instance, ProtocolMetadata: m.metadata(c.protocol),
		})
	}
	return out
}

// joined is the JoinGroup response of a member of the present generation; the leader alone is shown the others.
func (c *classicGroup) joined(m *classicMember) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	typeName, protocol := c.typeName, c.protocol
	resp.Generation, resp.ProtocolType, resp.Protocol = c.generationID, &typeName, &protocol
	resp.LeaderID, resp.MemberID = c.leader, m.id
	if m.id == c.leader {
		resp.Members = c.membersForLeader()
	}
	return resp
}

// synced is the SyncGroup response of a member of the present generation.
func (c *classicGroup) synced(m *classicMember) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	typeName, protocol := c.typeName, c.protocol
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &typeName, &protocol, m.assignment
	return resp
}

// disband ends a classic group that becomes one of the consumer protocol: whoever waits is told to join again, and no
// timer is left.
func (m *Machine) disband(now time.Time, g *group) ([]coordinator.Reply, []coordinator.Timer) {
	t := m.turn(now, g, nil)
	for _, x := range t.c.roster {
		t.answerJoin(x, joinError(kafka.RebalanceInProgress, x.id))
		t.answerSync(x, syncError(kafka.RebalanceInProgress))
		t.disarm(x)
	}
	for _, id := range slices.Sorted(maps.Keys(t.c.pending)) {
		t.forget(id)
	}
	t.arm(timerJoin, "", time.Time{})
	t.arm(timerSync, "", time.Time{})
	return t.Replies, t.Timers
}
