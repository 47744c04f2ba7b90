package assignors

import (
	"cmp"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz runs franz-go's balancer of a case, through the same encoded subscriptions and assignments as in a group.
func franz(t *testing.T, g *group) plan {
	t.Helper()
	balancer := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}[g.assignor]
	var members []kmsg.JoinGroupResponseMember
	for _, m := range g.members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = m.id
		if m.instance != "" {
			member.InstanceID = &m.instance
		}
		member.ProtocolMetadata = balancer.JoinGroupMetadata(slices.Sorted(slices.Values(m.topics)), m.owned, m.generation)
		members = append(members, member)
	}
	// A client sorts what the coordinator sends before it balances.
	slices.SortFunc(members, func(a, b kmsg.JoinGroupResponseMember) int {
		switch {
		case a.InstanceID != nil && b.InstanceID != nil:
			return cmp.Compare(*a.InstanceID, *b.InstanceID)
		case a.InstanceID != nil:
			return -1
		case b.InstanceID != nil:
			return 1
		}
		return cmp.Compare(a.MemberID, b.MemberID)
	})
	b, names, err := balancer.MemberBalancer(members)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for name := range names {
		if topic, ok := g.topics[name]; ok {
			counts[name] = topic.partitions
		}
	}
	// Where balancing can fail (it does for every balancer of the library), this is what the client calls.
	into, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	if err != nil {
		t.Fatal(err)
	}
	out := plan{}
	for _, a := range into.IntoSyncAssignment() {
		parts, err := balancer.ParseSyncAssignment(a.MemberAssignment)
		if err != nil {
			t.Fatal(err)
		}
		out[a.MemberID] = parts
	}
	return out
}
