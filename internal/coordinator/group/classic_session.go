package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// syncNamesProtocol is the version of SyncGroup from which members must say which protocol they think was chosen (KIP-559).
const syncNamesProtocol = 5

// classicSync answers, or parks, a SyncGroup.
func (m *Machine) classicSync(now time.Time, p *coordinator.Pending, r *kmsg.SyncGroupRequest) coordinator.Result {
	switch {
	case r.Version >= syncNamesProtocol && (r.ProtocolType == nil || r.Protocol == nil):
		return failed(p, r.Group, kafka.InconsistentGroupProtocol)
	case r.Group == "":
		return failed(p, r.Group, kafka.InvalidGroupID)
	}
	g := m.groups[r.Group]
	if g == nil || g.classic() == nil || g.classic().phase == phaseEmpty {
		return failed(p, r.Group, kafka.UnknownMemberID)
	}
	t := m.turn(now, g, nil)
	c := t.c
	member, err := c.checkMember(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
		return failed(p, r.Group, err)
	case r.Generation != c.generationID:
		return failed(p, r.Group, kafka.IllegalGeneration)
	case r.ProtocolType != nil && *r.ProtocolType != c.typeName, r.Protocol != nil && *r.Protocol != c.protocol:
		return failed(p, r.Group, kafka.InconsistentGroupProtocol)
	case c.phase == phasePreparing:
		return failed(p, r.Group, kafka.RebalanceInProgress)
	}
	if member.owesSync {
		member.owesSync = false
		if c.unsynced--; c.unsynced == 0 {
			t.stopSync()
		}
	}
	if c.phase == phaseStable {
		t.extend(member, member.session())
		t.reply(p, c.synced(member))
		return t.Result
	}
	t.parkSync(member, p)
	if c.leader == member.id {
		t.assign(r.GroupAssignment)
	}
	return t.Result
}

// classicHeartbeat prolongs a member's session and tells it whether it must join again.
func (m *Machine) classicHeartbeat(now time.Time, p *coordinator.Pending, r *kmsg.HeartbeatRequest) coordinator.Result {
	if r.Group == "" {
		return failed(p, r.Group, kafka.InvalidGroupID)
	}
	g := m.groups[r.Group]
	if g == nil || g.classic() == nil {
		return failed(p, r.Group, kafka.UnknownMemberID)
	}
	t := m.turn(now, g, nil)
	member, err := t.c.checkMember(r.MemberID, r.InstanceID)
	if err != nil {
		return failed(p, r.Group, err)
	}
	if r.Generation != t.c.generationID {
		return failed(p, r.Group, kafka.IllegalGeneration)
	}
	t.extend(member, member.session())
	resp := kmsg.NewPtrHeartbeatResponse()
	if t.c.phase == phasePreparing {
		resp.ErrorCode = int16(kafka.RebalanceInProgress)
	}
	t.reply(p, resp)
	return t.Result
}

// classicLeave removes members: themselves, or static ones by an administrator who gives their instance ids alone.
func (m *Machine) classicLeave(now time.Time, p *coordinator.Pending, r *kmsg.LeaveGroupRequest) coordinator.Result {
	if r.Group == "" {
		return failed(p, r.Group, kafka.InvalidGroupID)
	}
	leaving := r.Members
	if r.Version < 3 {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID}}
	}
	g := m.groups[r.Group]
	var t *turn
	if g != nil && g.classic() != nil {
		t = m.turn(now, g, nil)
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	var gone []string
	reason := ""
	for _, l := range leaving {
		id, err := t.leave(l)
		if err == nil {
			gone = append(gone, id)
			if l.Reason != nil && reason == "" {
				reason = *l.Reason
			}
		}
		resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{
			MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: int16(kafka.CodeOf(err)),
		})
	}
	if r.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	if t == nil {
		return coordinator.Result{Scope: r.Group, Replies: []coordinator.Reply{respond(p, resp)}}
	}
	t.left(gone, reason)
	t.reply(p, resp)
	if len(t.Records) > 0 {
		// That the group is empty is written for its offsets' sake. Who left has left even if it cannot be, like one of many.
		replies := t.Replies
		t.Replies = nil
		t.Then = func(time.Time, error) coordinator.Result { return coordinator.Result{Scope: r.Group, Replies: replies} }
	}
	return t.Result
}

// leave takes one member, or an id that was only handed out, out of the group, and gives its id. t is nil for a group that
// does not exist.
func (t *turn) leave(l kmsg.LeaveGroupRequestMember) (string, error) {
	if t == nil {
		return "", kafka.UnknownMemberID
	}
	id := l.MemberID
	if id == "" {
		id = t.c.staticID(l)
	} else if t.c.isPending(id) {
		t.forget(id)
		return id, nil
	}
	member, err := t.c.checkMember(id, l.InstanceID)
	if err != nil {
		return "", err
	}
	t.expel(member)
	return id, nil
}

// left lets the others go on without those that left. Like Kafka it rebalances for an id that was only handed out, too.
func (t *turn) left(ids []string, reason string) {
	if len(ids) == 0 || t.c.phase == phaseEmpty {
		return
	}
	what := "left the group" + says(reason)
	if t.c.phase == phasePreparing {
		t.amend(ids, what)
	}
	t.rebalance(ids[0], list(ids)+" "+what)
}

// classicTimer reacts to a timer of a classic group. What it is about may be gone by now.
func (m *Machine) classicTimer(now time.Time, k coordinator.TimerKey, _ *rand.Rand) coordinator.Result {
	g := m.groups[k.Scope]
	if g == nil || g.classic() == nil {
		return coordinator.Result{}
	}
	t := m.turn(now, g, nil)
	switch k.Kind {
	case timerJoin:
		t.joinTimeout()
	case timerSync:
		t.syncTimeout()
	case timerMember:
		t.sessionTimeout(k.Member)
	case timerPendingMember:
		t.pendingTimeout(k.Member)
	}
	return t.Result
}

// classicLoaded builds the live state of a classic group from what the log holds, at the end of a load and when a group
// comes back from the consumer protocol. Members get a whole session to show that they are alive.
func (m *Machine) classicLoaded(now time.Time, g *group) coordinator.Result {
	g.classic().restore()
	t := m.turn(now, g, nil)
	for _, x := range t.c.roster {
		t.extend(x, x.session())
	}
	if len(t.c.roster) > m.o.Settings().MaxSize {
		t.prepare("", "the group is larger than group.max.size")
	}
	return t.Result
}
