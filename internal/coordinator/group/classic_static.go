package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// joinStatic is the JoinGroup of a static member that knows no member id: it is new, or was restarted and takes the place
// of what it was before (KIP-345).
func (t *turn) joinStatic(p *coordinator.Pending, r *kmsg.JoinGroupRequest, id string) {
	c := t.c
	old := c.static[*r.InstanceID]
	if old == nil {
		t.admit(p, r, id)
		return
	}
	t.fence(old)
	leader := c.leader
	next := &classicMember{id: id, instance: old.instance, assignment: old.assignment}
	next.update(p, r)
	c.swap(old, next)
	t.disarm(old)
	t.extend(next, next.session())
	switch {
	case c.phase == phasePreparing:
		t.parkJoin(next, p)
		t.maybeComplete()
	case c.phase == phaseCompleting: // the leader may be assigning to the old id, which would get lost
		t.parkJoin(next, p)
		t.prepare(id, because("static member "+*r.InstanceID+" was restarted while partitions were assigned", r))
	case c.choose() != c.protocol:
		t.parkJoin(next, p)
		t.prepare(id, because("static member "+*r.InstanceID+" came back with other protocols", r))
	default:
		t.resume(p, r.Version, old, next, leader)
	}
}

// fence answers what the previous holder of an instance id waits for.
func (t *turn) fence(old *classicMember) {
	t.answerJoin(old, joinError(kafka.FencedInstanceID, old.id))
	t.answerSync(old, syncError(kafka.FencedInstanceID))
}

// resume lets a restarted static member of a stable group go on where it was, without a rebalance, once its new id is
// written. leader is who led before. A member that leads and does not know it must not assign: newer versions tell it so,
// older ones are shown the old id as the leader.
func (t *turn) resume(p *coordinator.Pending, version int16, old, next *classicMember, leader string) {
	c := t.c
	stored := c.metadata(func(m *classicMember) []byte { return m.assignment })
	t.Records = append(t.Records, groupMetadataRecord(t.g.id, stored))
	t.Then = func(now time.Time, err error) coordinator.Result {
		t := t.m.turn(now, t.g, nil)
		if err != nil {
			c.swap(next, old)
			t.disarm(next)
			t.extend(old, old.session())
			t.Replies = failed(p, t.g.id, err).Replies
			return t.Result
		}
		resp := c.joined(next)
		if version >= joinSkipsAssignment {
			resp.SkipAssignment = c.leader == next.id
		} else {
			resp.LeaderID, resp.Members = leader, nil
		}
		t.reply(p, resp)
		return t.Result
	}
}

// staticID gives the member id of an instance; "" when there is none.
func (c *classicGroup) staticID(r kmsg.LeaveGroupRequestMember) string {
	if r.InstanceID == nil || c.static[*r.InstanceID] == nil {
		return ""
	}
	return c.static[*r.InstanceID].id
}
