package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// listGroups lists the shard's groups by state (KIP-518) and type (KIP-848), filters in any case.
func (m *Machine) listGroups(p *coordinator.Pending, r *kmsg.ListGroupsRequest) coordinator.Result {
	resp := r.ResponseKind().(*kmsg.ListGroupsResponse)
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	for _, id := range m.ids() {
		k := m.groups[id].kind
		if !matches(r.StatesFilter, k.state()) || !matches(r.TypesFilter, k.groupType()) {
			continue
		}
		resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{
			Group: id, ProtocolType: k.protocolType(), GroupState: k.state(), GroupType: k.groupType(),
		})
	}
	return coordinator.Result{WholeShard: true, Replies: answer(p, resp)}
}

// matches says whether a filter, unless it is empty, names a value.
func matches(filter []string, value string) bool {
	return len(filter) == 0 ||
		slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(strings.TrimSpace(f), value) })
}

// ids lists the groups in order.
func (m *Machine) ids() []string { return slices.Sorted(maps.Keys(m.groups)) }
