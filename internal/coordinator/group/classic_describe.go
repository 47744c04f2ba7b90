package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// describeSaysNotFound is the version of DescribeGroups that answers a missing group with an error (KIP-1043); older ones
// call it Dead.
const describeSaysNotFound = 6

// classicDescribe answers DescribeGroups for one group.
func (m *Machine) classicDescribe(p *coordinator.Pending, r *kmsg.DescribeGroupsRequest) coordinator.Result {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	scope := ""
	for _, id := range r.Groups {
		scope = id
		resp.Groups = append(resp.Groups, m.describeClassic(id, r.Version))
	}
	return coordinator.Result{Scope: scope, Replies: []coordinator.Reply{respond(p, resp)}}
}

func (m *Machine) describeClassic(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = id
	g := m.groups[id]
	if g == nil || g.classic() == nil {
		out.State = "Dead"
		if version >= describeSaysNotFound {
			message := fmt.Sprintf("Group %s not found.", id)
			if g != nil {
				message = fmt.Sprintf("Group %s is not a classic group.", id)
			}
			out.ErrorCode, out.ErrorMessage = int16(kafka.GroupIDNotFound), &message
		}
		return out
	}
	c := g.classic()
	out.State, out.ProtocolType = c.state(), c.typeName
	stable := c.phase == phaseStable
	if stable {
		out.Protocol = c.protocol
	}
	for _, m := range c.roster {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		if d.MemberAssignment = m.assignment; stable {
			d.ProtocolMetadata = m.metadata(c.protocol)
		}
		out.Members = append(out.Members, d)
	}
	return out
}

// waits tells of every member, and of every id that was handed out, what it or the group waits for.
func (c *classicGroup) waits(now time.Time) []MemberWait {
	var out []MemberWait
	for _, m := range c.roster {
		w := MemberWait{
			Member: m.id, ClientID: m.clientID, ClientHost: m.clientHost,
			Protocol: "classic", Epoch: c.generationID, Waits: c.waitOf(now, m),
		}
		if m.instance != nil {
			w.Instance = *m.instance
		}
		if c.phase == phaseStable && c.typeName == consumerProtocol {
			w.Assigned = assignedPartitions(m.assignment)
		}
		out = append(out, w)
	}
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		out = append(out, MemberWait{
			Member: id, Protocol: "classic", Epoch: -1, Waits: "it was given its id and has not joined with it yet",
		})
	}
	slices.SortFunc(out, func(a, b MemberWait) int { return strings.Compare(a.Member, b.Member) })
	return out
}

func (c *classicGroup) waitOf(now time.Time, m *classicMember) string {
	switch {
	case c.phase == phasePreparing && m.join == nil:
		return fmt.Sprintf("it must join again within %s", until(now, c.joinBy))
	case c.phase == phasePreparing && c.initial:
		return fmt.Sprintf("for more members, %s more", until(now, c.joinBy))
	case c.phase == phasePreparing:
		return fmt.Sprintf("for %d of %d members to join, at most %s", len(c.roster)-c.joining+len(c.pending),
			len(c.roster)+len(c.pending), until(now, c.joinBy))
	case c.phase == phaseCompleting && m.id == c.leader:
		return fmt.Sprintf("it must send the assignment within %s", until(now, c.syncBy))
	case c.phase == phaseCompleting && m.sync != nil:
		return "for the assignment of the leader " + c.leader
	case m.owesSync:
		return fmt.Sprintf("it must ask for its assignment within %s", until(now, c.syncBy))
	}
	return ""
}

// until words the time until a deadline.
func until(now, at time.Time) time.Duration { return max(at.Sub(now), 0).Round(time.Millisecond) }

// assignedPartitions reads a consumer's assignment; nil when it cannot be understood.
func assignedPartitions(b []byte) map[string][]int32 {
	a := kmsg.NewConsumerMemberAssignment()
	if len(b) == 0 || a.ReadFrom(b) != nil {
		return nil
	}
	out := map[string][]int32{}
	for _, t := range a.Topics {
		out[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
	}
	return out
}
