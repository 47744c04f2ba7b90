package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// consumerLeave is the heartbeat of a member that leaves: for good, or, if it is a static one, for a while (KIP-345). The
// latter keeps its partitions until it is back or its session ends.
func (m *Machine) consumerLeave(now time.Time, p *coordinator.Pending, r *kmsg.ConsumerGroupHeartbeatRequest) coordinator.Result {
	g, err := m.consumer(r.Group)
	if err != nil {
		return failed(p, r.Group, err)
	}
	member, err := g.member(r.MemberID, r.InstanceID)
	if err != nil {
		return failed(p, r.Group, err)
	}
	a := r.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	a.MemberID, a.MemberEpoch = kmsg.StringPtr(member.id), r.MemberEpoch
	t := m.newConsumerTurn(now, g)
	if r.MemberEpoch == epochLeaveStatic {
		away := *member
		away.epoch, away.revoking = epochLeaveStatic, nil
		away.assigned = heldAt(member.assigned.partitions(), 0) // who comes back has them as if from the beginning
		t.write(currentRecord(g.id, &away))
		t.timers = append(t.timers, coordinator.Timer{Key: memberTimer(timerRevocation, g.id, member.id)})
	} else {
		t.remove([]*consumerMember{member}, "member left")
	}
	return t.result(p, coordinator.Answer{Body: a})
}

// remove takes members out of the group: those that leave, and those that are fenced. What is left may be a classic group.
func (t *consumerTurn) remove(members []*consumerMember, reason string) {
	if len(members) == 0 {
		return
	}
	g := t.g
	for _, m := range members {
		t.timers = append(t.timers, cancelTimers(g.id, m.id)...)
		t.rejoined = append(t.rejoined, m.id)
	}
	if t.mayDowngrade(members) {
		t.downgrade(members, nil, reason+lastConsumer)
		return
	}
	for _, m := range members {
		t.write(memberTombstones(g.id, m.id)...)
	}
	_, patterns := changedCounts(g, members, nil)
	for _, m := range members {
		if m.regex != "" && patterns[m.regex] == 0 {
			t.write(tombstone(keyConsumerRegex, g.id, m.regex))
			patterns[m.regex] = 1 // once
		}
	}
	t.rehashed(g.topicsAfter(members, nil))
	t.bump(members[0].id, reason)
	if len(members) == len(g.roster) {
		// There is nobody to assign anything to. Without the time of the last assignment the next member need not wait.
		t.write(targetMetadataRecord(g.id, t.epoch, 0))
	}
}

// lastConsumer ends the reason of a downgrade.
const lastConsumer = "; none of the consumer protocol is left, so the group is a classic one"

// memberTimer names a timer of a member.
func memberTimer(kind uint8, group, member string) coordinator.TimerKey {
	return coordinator.TimerKey{Kind: kind, Scope: group, Member: member}
}

// cancelTimers cancels every timer of a member.
func cancelTimers(group, member string) []coordinator.Timer {
	var out []coordinator.Timer
	for _, kind := range []uint8{timerSession, timerRevocation, timerRejoin, timerResync} {
		out = append(out, coordinator.Timer{Key: memberTimer(kind, group, member)})
	}
	return out
}

// sessionTimer begins a member's session anew.
func (t *consumerTurn) sessionTimer(m *consumerMember) coordinator.Timer {
	return coordinator.Timer{Key: memberTimer(timerSession, t.g.id, m.id), At: t.now.Add(m.session(t.conf))}
}

// session is how long a member may be silent: a member of the classic protocol has said so itself.
func (m *consumerMember) session(conf ConsumerSettings) time.Duration {
	if m.classic != nil {
		return time.Duration(m.classic.sessionTimeoutMs) * time.Millisecond
	}
	return conf.Session
}

// revocationTimer gives a member that must give up partitions its rebalance timeout to do so; for others it ends it.
func (t *consumerTurn) revocationTimer(m *consumerMember) coordinator.Timer {
	timer := coordinator.Timer{Key: memberTimer(timerRevocation, t.g.id, m.id)}
	if m.state == memberUnrevoked {
		timer.At = t.now.Add(m.rebalanceTimeout())
	}
	return timer
}

func (m *consumerMember) rebalanceTimeout() time.Duration {
	return time.Duration(max(m.rebalanceTimeoutMs, 0)) * time.Millisecond
}

// consumerTimer handles the timers of members: all of them mean that the member is out.
func (m *Machine) consumerTimer(now time.Time, k coordinator.TimerKey) coordinator.Result {
	g, err := m.consumer(k.Scope)
	if err != nil || g.roster[k.Member] == nil {
		return coordinator.Result{}
	}
	member := g.roster[k.Member]
	var reason string
	switch k.Kind {
	case timerSession:
		reason = "session ended without a heartbeat"
	case timerRevocation:
		if member.state != memberUnrevoked || member.classic != nil {
			return coordinator.Result{}
		}
		reason = "partitions not given up within the rebalance timeout"
	case timerRejoin:
		reason = "did not join again within the rebalance timeout"
	case timerResync:
		reason = "did not sync within the rebalance timeout"
	}
	t := m.newConsumerTurn(now, g)
	t.remove([]*consumerMember{member}, reason)
	t.again = coordinator.Timer{Key: k, At: now.Add(removeAgain)}
	return t.result(nil, coordinator.Answer{})
}

// removeAgain is when a member whose time is up is removed again because it could not be written: as Kafka waits.
const removeAgain = 500 * time.Millisecond

// consumerLoaded sets the timers of a group that has just been read. Nobody may be blamed for silence that was ours.
func (m *Machine) consumerLoaded(now time.Time, g *group) []coordinator.Timer {
	c := g.kind.(*consumerGroup)
	t := m.newConsumerTurn(now, c)
	var timers []coordinator.Timer
	for _, id := range sortedMembers(c) {
		member := c.roster[id]
		timers = append(timers, t.sessionTimer(member))
		if member.state == memberUnrevoked && member.classic == nil {
			timers = append(timers, t.revocationTimer(member))
		}
	}
	return timers
}

// consumerImageChanged marks the groups whose topics, or the racks of them, may have changed. The next heartbeat compares
// the hash: a group whose members are all gone costs nothing.
func (m *Machine) consumerImageChanged(_ time.Time, e coordinator.ImageChanged) {
	var names []string
	for t := range e.Diff.Topics() {
		if t.Created() {
			m.newTopics = int64(e.Image.Offset())
		}
		if t.Removed() {
			delete(m.hashes, t.ID)
		}
		names = append(names, t.Name())
	}
	racks := false
	for range e.Diff.Brokers() {
		racks, m.hashes = true, nil
	}
	if len(names) == 0 && !racks {
		return
	}
	for _, g := range m.groups {
		if c, ok := g.kind.(*consumerGroup); ok && c.fresh {
			c.fresh = !racks && !slices.ContainsFunc(names, c.subscribed)
		}
	}
}
