package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// deleteGroup removes a group without members, with its offsets, and with those that open transactions would commit.
func (m *Machine) deleteGroup(p *coordinator.Pending, r *kmsg.DeleteGroupsRequest) coordinator.Result {
	if len(r.Groups) != 1 {
		return failed(p, "", kafka.InvalidRequest)
	}
	id := r.Groups[0]
	g := m.groups[id]
	if g == nil {
		return failed(p, id, kafka.GroupIDNotFound)
	}
	if err := g.kind.checkDelete(); err != nil {
		return failed(p, id, err)
	}
	resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: id}}
	return coordinator.Result{Scope: id, Records: g.tombstones(), Replies: answer(p, resp)}
}

// tombstones lists the records that remove a group. The group itself goes last, so that a log cut in between still shows
// a group to delete again.
func (g *group) tombstones() []coordinator.Record {
	keys := g.partitions(nil)
	out := make([]coordinator.Record, 0, len(keys)+1)
	for _, k := range keys {
		out = append(out, offsetTombstone(g.id, k.topic, k.partition))
	}
	return append(out, g.kind.tombstones()...)
}
