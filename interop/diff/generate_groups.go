package diff

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupTopics are the topics t0, t1, ... of histories of groups; tN has N+3 partitions.
const groupTopics = 3

// GenerateGroups gives the history of a seed: n actions on a few groups of both protocols.
func GenerateGroups(seed uint64, n int) []action {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 2)), made: groupTopics}
	kinds := []struct {
		weight int
		make   func() action
	}{
		{10, g.rebalance}, {9, g.synchronise}, {3, g.replace}, {6, g.heartbeat}, {2, g.wrongSync}, {4, g.leave}, {8, g.commit}, {8, g.offsetFetch},
		{2, g.offsetDelete}, {4, g.describeGroups}, {2, g.listGroups}, {2, g.deleteGroups}, {2, g.findCoordinator},
		{2, g.wrongJoin}, {16, g.consumerHeartbeat}, {3, g.describeConsumers},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	var out []action
	for range n {
		at := g.IntN(total)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				out = append(out, k.make())
				break
			}
		}
	}
	return out
}

// group names a group of the classic protocol, mostly.
func (g *gen) group() string { return often(g, fmt.Sprintf("g%d", g.IntN(3)), "c0", "nobody", "") }

func (g *gen) classicGroup() string { return fmt.Sprintf("g%d", g.IntN(3)) }

// single is an action of one request, made when it is known who the members are.
func single(name string, make func(w *groupWorld) kmsg.Request) action {
	return action{name, func(w *groupWorld) []any {
		_, answer := w.ask(make(w))
		return []any{answer}
	}}
}

// who is a choice of a member: the i-th of the group, one that has left, or a ghost.
type who struct {
	i            int
	former, bare bool
}

func (g *gen) who() who {
	return who{i: often(g, g.IntN(8), -1), former: g.IntN(9) == 0, bare: g.IntN(14) == 0}
}

func (x who) String() string {
	return fmt.Sprintf("member %d former %v bare %v", x.i, x.former, x.bare)
}

func (x who) in(w *groupWorld, group string) *classicMember {
	switch {
	case x.bare:
		return &classicMember{generation: -1}
	case x.former:
		return w.former(x.i + 1)
	}
	return w.member(group, x.i)
}

func (g *gen) newcomer() newcomer {
	// All prefer the same: Apache Kafka breaks ties of votes by the order of a hash table.
	n := newcomer{version: int16(g.IntN(10)), protocols: often(g, pick(g, []string{"range"}, []string{"range", "roundrobin"}), []string{"sticky"})}
	if g.IntN(4) == 0 {
		n.instance = fmt.Sprintf("i%d", g.IntN(3))
	}
	return n
}

func (g *gen) rebalance() action {
	group, again := g.classicGroup(), g.newcomer()
	again.protocols = pick(g, []string{"range"}, []string{"range", "roundrobin"})
	var newcomers []newcomer
	used := map[string]bool{}
	for range pick(g, 0, 1, 1, 1, 2) {
		n := g.newcomer()
		if n.instance != "" && used[n.instance] {
			n.instance = ""
		}
		used[n.instance] = true
		newcomers = append(newcomers, n)
	}
	return action{fmt.Sprintf("rebalance %s again v%d %q with %+v", group, again.version, again.protocols, newcomers),
		func(w *groupWorld) []any { return w.rebalance(group, again, newcomers) }}
}

func (g *gen) synchronise() action {
	group, version := g.classicGroup(), int16(g.IntN(5)) // version 5 names the protocol, which the history does not know
	return action{fmt.Sprintf("sync %s v%d", group, version), func(w *groupWorld) []any { return w.synchronise(group, version) }}
}

func (g *gen) replace() action {
	group, instance, version := g.classicGroup(), fmt.Sprintf("i%d", g.IntN(3)), int16(5+g.IntN(5))
	return action{fmt.Sprintf("replace %s of %s v%d", instance, group, version),
		func(w *groupWorld) []any { return w.replace(group, instance, version) }}
}

// wrongJoin is a JoinGroup that is refused.
func (g *gen) wrongJoin() action {
	group, version, kind := g.group(), int16(g.IntN(10)), g.IntN(4)
	return single(fmt.Sprintf("JoinGroup v%d %q wrong in way %d", version, group, kind), func(*groupWorld) kmsg.Request {
		r := newcomer{version: version, protocols: []string{"range"}}.request(group, "ghost")
		switch kind {
		case 1:
			r.SessionTimeoutMillis = 1
		case 2:
			r.Protocols = nil
		case 3:
			r.ProtocolType = ""
		}
		return r
	})
}

// wrongSync is a SyncGroup of a generation that never was, so that it never waits.
func (g *gen) wrongSync() action {
	group, version, x := g.group(), int16(g.IntN(6)), g.who()
	return single(fmt.Sprintf("SyncGroup v%d %q %v", version, group, x), func(w *groupWorld) kmsg.Request {
		r, m := kmsg.NewPtrSyncGroupRequest(), x.in(w, group)
		r.Version, r.Group, r.MemberID, r.Generation = version, group, m.id, 1000
		if version >= 3 {
			r.InstanceID = m.instance
		}
		return r
	})
}

func (g *gen) heartbeat() action {
	group, version, x, late := g.group(), int16(g.IntN(5)), g.who(), often(g, int32(0), -1, 1)
	return single(fmt.Sprintf("Heartbeat v%d %q %v generation %+d", version, group, x, late), func(w *groupWorld) kmsg.Request {
		r, m := kmsg.NewPtrHeartbeatRequest(), x.in(w, group)
		r.Version, r.Group, r.MemberID, r.Generation = version, group, m.id, m.generation+late
		if version >= 3 {
			r.InstanceID = m.instance
		}
		return r
	})
}

func (g *gen) leave() action {
	group, version, x, admin := g.group(), int16(g.IntN(6)), g.who(), g.IntN(2) == 0
	return action{fmt.Sprintf("LeaveGroup v%d %q %v admin %v", version, group, x, admin), func(w *groupWorld) []any {
		r, m := kmsg.NewPtrLeaveGroupRequest(), x.in(w, group)
		if m.leads && len(w.classic[group]) > 2 && !x.former {
			m = w.member(group, -1) // Apache Kafka makes anybody the new leader
		}
		r.Version, r.Group, r.MemberID = version, group, m.id
		if version >= 3 {
			one := kmsg.LeaveGroupRequestMember{MemberID: m.id, InstanceID: m.instance}
			if admin && m.instance != nil {
				one.MemberID = ""
			}
			r.MemberID, r.Members = "", []kmsg.LeaveGroupRequestMember{one, {MemberID: "ghost"}}
		}
		resp, answer := w.ask(r)
		if l, ok := resp.(*kmsg.LeaveGroupResponse); ok && l.ErrorCode == 0 &&
			(version < 3 || len(l.Members) > 0 && l.Members[0].ErrorCode == 0) && !x.former {
			w.drop(group, m)
		}
		return []any{answer}
	}}
}

func (g *gen) commit() action {
	group, version, x := g.group(), int16(2+g.IntN(9)), g.who()
	late := often(g, int32(0), -1, 1)
	topic, partition := g.topic(), often(g, int32(g.IntN(3)), -1, 99)
	offset, text := often(g, int64(g.IntN(50)), -1), often(g, "m", "", string(make([]byte, 5000)))
	name := fmt.Sprintf("OffsetCommit v%d %q %v generation %+d %q-%d at %d", version, group, x, late, topic, partition, offset)
	return single(name, func(w *groupWorld) kmsg.Request {
		r, m := kmsg.NewPtrOffsetCommitRequest(), x.in(w, group)
		r.Version, r.Group, r.MemberID, r.Generation = version, group, m.id, m.generation
		if m.id != "" {
			r.Generation += late
		}
		if version >= 7 {
			r.InstanceID = m.instance
		}
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, w.id(topic)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition, offset, &text
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	})
}

func (g *gen) offsetFetch() action {
	version := int16(1 + g.IntN(10))
	groups := []string{g.group(), g.group()}[:1+g.IntN(2)]
	topic, all := g.topic(), g.IntN(2) == 0 && version >= 2
	name := fmt.Sprintf("OffsetFetch v%d %q %q all %v", version, groups, topic, all)
	return single(name, func(w *groupWorld) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version, r.Group, r.RequireStable = version, groups[0], true
		parts := []int32{0, 1, 2, 99}
		if version < 8 {
			if !all {
				r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: parts}}
			}
			return r
		}
		for _, group := range groups {
			one := kmsg.NewOffsetFetchRequestGroup()
			one.Group = group
			if !all {
				one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: w.id(topic), Partitions: parts}}
			}
			r.Groups = append(r.Groups, one)
		}
		return r
	})
}

func (g *gen) offsetDelete() action {
	group, topic := g.group(), g.topic()
	return single(fmt.Sprintf("OffsetDelete v0 %q %q", group, topic), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic,
			Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 99}}}}
		return r
	})
}

func (g *gen) describeGroups() action {
	version, groups, operations := int16(g.IntN(7)), []string{g.group(), g.classicGroup()}, g.IntN(2) == 0
	return single(fmt.Sprintf("DescribeGroups v%d %q operations %v", version, groups, operations), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Version, r.Groups, r.IncludeAuthorizedOperations = version, groups, operations && version >= 3
		return r
	})
}

func (g *gen) listGroups() action {
	version := int16(g.IntN(6))
	states := pick(g, nil, []string{"Stable"}, []string{"stable", "EMPTY"}, []string{"PreparingRebalance", "CompletingRebalance"}, []string{"no such"})
	types := pick(g, nil, []string{"classic"}, []string{"Consumer"}, []string{"classic", "consumer"})
	return single(fmt.Sprintf("ListGroups v%d %q %q", version, states, types), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrListGroupsRequest()
		r.Version, r.StatesFilter, r.TypesFilter = version, states, types
		return r
	})
}

// deleteGroups deletes groups; those that still have members stay.
func (g *gen) deleteGroups() action {
	version, groups := int16(g.IntN(4)), []string{g.group(), "nobody"}
	return single(fmt.Sprintf("DeleteGroups v%d %q", version, groups), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Version, r.Groups = version, groups
		return r
	})
}

func (g *gen) findCoordinator() action {
	version, keys, kind := int16(g.IntN(7)), []string{g.group(), g.group()}, often(g, int8(0), 2, 9, -1)
	return single(fmt.Sprintf("FindCoordinator v%d %q kind %d", version, keys, kind), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.Version, r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = version, kind, keys[0], keys
		return r
	})
}

// consumerHeartbeat is a heartbeat of the consumer protocol: joining, going on, or leaving, right or wrong. A group
// subscribes to one topic and wishes for one assignor, so that the order of Java's hash tables does not show.
func (g *gen) consumerHeartbeat() action {
	n := g.IntN(2)
	group, topic := often(g, fmt.Sprintf("c%d", n), fmt.Sprintf("g%d", n), ""), fmt.Sprintf("t%d", n)
	id := pick(g, "a", "b", "c", "d")
	kind, version := pick(g, "join", "join", "on", "on", "on", "on", "on", "leave"), often(g, int16(1), 0)
	late, assignor := often(g, int32(0), 1, -1), often(g, pick(g, []string{"uniform", "range"}[n], ""), "none such")
	spoilt := often(g, "", "timeout", "subscription", "owned", "pattern", "id")
	name := fmt.Sprintf("ConsumerGroupHeartbeat v%d %q %s %s epoch %+d %q spoilt %q", version, group, id, kind, late, assignor, spoilt)
	return action{name, func(w *groupWorld) []any {
		if w.modern[group] == nil {
			w.modern[group] = map[string]*modernMember{}
		}
		m := w.modern[group][id]
		if m == nil {
			m = &modernMember{}
		}
		if kind == "on" && m.epoch == 0 && late == 0 { // not a member yet
			kind = "join"
		}
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.RebalanceTimeoutMillis = version, group, id, -1
		switch kind {
		case "join":
			r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 0, never, []string{topic}
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			if assignor != "" {
				r.ServerAssignor = &assignor
			}
		case "on":
			r.MemberEpoch, r.Topics = m.epoch+late, m.assigned
		case "leave":
			r.MemberEpoch = -1
		}
		bad := "["
		switch spoilt {
		case "timeout":
			r.RebalanceTimeoutMillis = -1
		case "subscription":
			r.SubscribedTopicNames = nil
		case "owned":
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: w.id(topic), Partitions: []int32{77}}}
		case "pattern":
			if version > 0 {
				r.SubscribedTopicRegex = &bad
			}
		case "id": // whoever joins by version 0 without one is given a random one, which orders members differently
			if version > 0 || r.MemberEpoch != 0 {
				r.MemberID = ""
			}
		}
		resp, answer := w.ask(r)
		if x, ok := resp.(*kmsg.ConsumerGroupHeartbeatResponse); ok && x.ErrorCode == 0 && x.MemberID != nil && *x.MemberID == id {
			w.modern[group][id] = m.after(x)
		}
		return []any{answer}
	}}
}

// after is a member after a successful heartbeat.
func (m *modernMember) after(x *kmsg.ConsumerGroupHeartbeatResponse) *modernMember {
	out := &modernMember{epoch: max(x.MemberEpoch, 0), assigned: m.assigned}
	if x.Assignment != nil {
		out.assigned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range x.Assignment.Topics {
			out.assigned = append(out.assigned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
		}
	}
	return out
}

func (g *gen) describeConsumers() action {
	version, groups := int16(g.IntN(2)), []string{often(g, "c0", "g0", "nobody", ""), "c1"}
	return single(fmt.Sprintf("ConsumerGroupDescribe v%d %q", version, groups), func(*groupWorld) kmsg.Request {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Version, r.Groups, r.IncludeAuthorizedOperations = version, groups, true
		return r
	})
}
