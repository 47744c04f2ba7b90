package group

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Members of the classic protocol in a consumer group. They learn from a heartbeat that they shall join again; their
// JoinGroup is answered at once, as the server assigns, with their epoch as the generation; what they have got is in the
// answer to SyncGroup.

// consumerClassicJoin handles the JoinGroup of a member. A group without members becomes a classic one.
func (m *Machine) consumerClassicJoin(now time.Time, p *coordinator.Pending, r *kmsg.JoinGroupRequest, g *group,
	rnd *rand.Rand) coordinator.Result {
	c := g.kind.(*consumerGroup)
	refuse := func(err error) coordinator.Result { return refuseClassicJoin(p, r.Group, err) }
	session := time.Duration(r.SessionTimeoutMillis) * time.Millisecond
	if s := m.o.Settings(); session < s.MinSession || session > s.MaxSession {
		return coordinator.Result{Scope: r.Group, Replies: []coordinator.Reply{
			respond(p, joinError(kafka.InvalidSessionTimeout, r.MemberID))}}
	}
	if len(c.roster) == 0 {
		return m.classicJoinsEmpty(now, p, r, g, rnd)
	}
	t := m.newConsumerTurn(now, c)
	id := r.MemberID
	if id == "" {
		id = newMemberID(rnd)
	}
	if err := t.checkRoom(id); err != nil {
		return refuse(err)
	}
	if !c.supports(r.ProtocolType, r.Protocols) {
		return refuse(kafka.Errorf(kafka.InconsistentGroupProtocol, "No protocol of member %s is one of all others.", id))
	}
	if r.MemberID == "" && r.InstanceID == nil && r.Version >= joinWithGivenID {
		return coordinator.Result{Scope: r.Group, Replies: []coordinator.Reply{
			respond(p, joinError(kafka.MemberIDRequired, id))}}
	}
	member, err := t.classicJoin(p.Call, r, id)
	if err != nil {
		return refuse(err)
	}
	a := kmsg.NewPtrJoinGroupResponse()
	a.SetVersion(r.Version)
	a.MemberID, a.Generation = member.id, member.epoch
	a.ProtocolType, a.Protocol = kmsg.StringPtr(consumerProtocol), kmsg.StringPtr(member.classic.preferred().name)
	return t.result(p, coordinator.Answer{Body: a})
}

func refuseClassicJoin(p *coordinator.Pending, group string, err error) coordinator.Result {
	return coordinator.Result{Scope: group, Replies: []coordinator.Reply{respond(p, joinError(kafka.CodeOf(err), ""))}}
}

// classicJoinsEmpty deletes a group that has no members and lets the member join a classic one of its name.
func (m *Machine) classicJoinsEmpty(now time.Time, p *coordinator.Pending, r *kmsg.JoinGroupRequest, g *group,
	rnd *rand.Rand) coordinator.Result {
	switch {
	case r.MemberID != "":
		return coordinator.Result{Scope: g.id, Replies: []coordinator.Reply{
			respond(p, joinError(kafka.UnknownMemberID, r.MemberID))}}
	case !newClassicGroup(g.id).supports(r.ProtocolType, r.Protocols):
		return refuseClassicJoin(p, g.id, kafka.InconsistentGroupProtocol)
	case !m.hasMemory(nil, p, r):
		return refuseClassicJoin(p, g.id, kafka.CoordinatorNotAvailable)
	}
	return coordinator.Result{Scope: g.id, Records: g.kind.tombstones(),
		Then: func(now time.Time, err error) coordinator.Result {
			if err != nil {
				return failed(p, r.Group, err)
			}
			if m.groups[r.Group] == nil { // it had no offsets
				return m.found(now, p, r, rnd, g.history)
			}
			return m.classicJoin(now, p, r, rnd)
		}}
}

// supports says whether a member with these protocols can be in the group: one of them must be one of all members that
// speak the classic protocol.
func (g *consumerGroup) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	return protocolType == consumerProtocol && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		for m := range g.everybody() {
			if m.classic != nil && !m.classic.speaks(p.Name) {
				return false
			}
		}
		return true
	})
}

func (c *classicFace) speaks(protocol string) bool {
	return slices.ContainsFunc(c.protocols, func(p classicProtocol) bool { return p.name == protocol })
}

// classicJoin brings a member that joins up to date, and moves it towards its target.
func (t *consumerTurn) classicJoin(call coordinator.Call, r *kmsg.JoinGroupRequest, id string) (*consumerMember, error) {
	subscription, err := readSubscription(r.Protocols[0].Metadata)
	if err != nil {
		return nil, kafka.Errorf(kafka.InconsistentGroupProtocol, "The subscription of member %s cannot be read.", id)
	}
	replaced := t.g.static(r.InstanceID)
	downgrade := replaced != nil && t.mayDowngradeFor(replaced)
	was, known, err := t.classicMember(id, r)
	if err != nil {
		return nil, err
	}
	member := was.heardClassic(call, r, subscription)
	if err := t.checkMemory(was, member); err != nil {
		return nil, err
	}
	before := t.epoch
	if err := t.subscribe(was, known, member, nil); err != nil {
		return nil, err
	}
	has := t.ownedByName(subscription.OwnedPartitions)
	if downgrade {
		// What the member has is settled before the group is a classic one, unless all of them will join again.
		if t.epoch == before {
			if member, err = t.reconcile(member, t.g.targets[t.targetOf(member)], has, false); err != nil {
				return nil, err
			}
		}
		t.downgrade([]*consumerMember{replaced}, member, "static member came back with the classic protocol"+lastConsumer)
		return member, nil
	}
	target, err := t.target(was, member)
	if err != nil {
		return nil, err
	}
	if member, err = t.reconcile(member, target, has, was.subscribesElse(member)); err != nil {
		return nil, err
	}
	t.timers = append(t.timers, t.sessionTimer(member), coordinator.Timer{Key: memberTimer(timerRejoin, t.g.id, member.id)},
		coordinator.Timer{Key: memberTimer(timerResync, t.g.id, member.id), At: t.now.Add(member.rebalanceTimeout())})
	t.rejoined = append(t.rejoined, member.id)
	return member, nil
}

// mayDowngradeFor says whether the group becomes a classic one when a static member is replaced by one of the classic
// protocol.
func (t *consumerTurn) mayDowngradeFor(replaced *consumerMember) bool {
	s := t.m.o.Settings()
	if !s.Downgrade || len(t.g.roster) > s.MaxSize {
		return false
	}
	for m := range t.g.everybody() {
		if m != replaced && m.classic == nil {
			return false
		}
	}
	return true
}

// classicMember finds or makes the member of a JoinGroup. Unlike in a classic group, an id that is not known is taken as
// that of a new member.
func (t *consumerTurn) classicMember(id string, r *kmsg.JoinGroupRequest) (m *consumerMember, known bool, err error) {
	if r.InstanceID == nil || r.MemberID == "" {
		return t.joinMember(id, r.InstanceID, true)
	}
	m, err = t.g.member(id, r.InstanceID)
	return m, err == nil, err
}

// heardClassic is the member with what a JoinGroup tells of it.
func (m *consumerMember) heardClassic(call coordinator.Call, r *kmsg.JoinGroupRequest,
	s kmsg.ConsumerMemberMetadata) *consumerMember {
	next := *m
	next.clientID, next.clientHost, next.regex = call.ClientID, call.ClientHost, ""
	next.classic = newClassicFace(r.SessionTimeoutMillis, r.Protocols)
	next.topics = sortedOnce(s.Topics)
	if r.InstanceID != nil {
		next.instance = r.InstanceID
	}
	if rack := noEmpty(s.Rack); rack != nil {
		next.rack = rack
	}
	next.rebalanceTimeoutMs = r.RebalanceTimeoutMillis
	if r.Version == 0 { // one timeout for both
		next.rebalanceTimeoutMs = r.SessionTimeoutMillis
	}
	return &next
}

// ownedByName is what a member says it has, by topic names. A member of the classic protocol always says.
func (t *consumerTurn) ownedByName(topics []kmsg.ConsumerMemberMetadataOwnedPartition) partitions {
	p := partitions{}
	for _, o := range topics {
		if topic, ok := t.m.image.Topic(o.Topic); ok {
			p[topic.ID] = append(p[topic.ID], o.Partitions...)
		}
	}
	return p.normal()
}

// classicCall finds the member that sends a SyncGroup or Heartbeat and checks its generation.
func (g *consumerGroup) classicCall(id string, instance *string, generation int32) (*consumerMember, error) {
	m, err := g.member(id, instance)
	switch {
	case err != nil:
		return nil, err
	case m.classic == nil:
		return nil, kafka.Errorf(kafka.UnknownMemberID, "Member %s does not speak the classic protocol.", id)
	case m.epoch != generation:
		return nil, m.staleEpoch(generation)
	}
	return m, nil
}

// consumerClassicSync tells a member what it has.
func (m *Machine) consumerClassicSync(now time.Time, p *coordinator.Pending, r *kmsg.SyncGroupRequest, g *group) coordinator.Result {
	c := g.kind.(*consumerGroup)
	member, err := c.classicCall(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return failed(p, r.Group, err)
	}
	if r.ProtocolType != nil && *r.ProtocolType != consumerProtocol ||
		r.Protocol != nil && *r.Protocol != member.classic.preferred().name {
		return failed(p, r.Group, kafka.InconsistentGroupProtocol)
	}
	t := m.newConsumerTurn(now, c)
	if t.isBehind(member) && member.state != memberUnrevoked {
		// One that is giving partitions up has joined again already.
		return coordinator.Result{Scope: r.Group, Timers: t.mustRejoin(member),
			Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Err: kafka.RebalanceInProgress}}}}
	}
	a := kmsg.NewPtrSyncGroupResponse()
	a.SetVersion(r.Version)
	a.ProtocolType, a.Protocol = r.ProtocolType, r.Protocol
	a.MemberAssignment = member.classicAssignment(m.image, member.assigned.partitions())
	t.timers = append(t.timers, coordinator.Timer{Key: memberTimer(timerResync, g.id, member.id)}, t.sessionTimer(member))
	return t.result(p, coordinator.Answer{Body: a})
}

// isBehind says whether joining again brings a member to a later epoch: there is a newer assignment, or one is due and
// nobody of the consumer protocol is there, whose heartbeat would make it.
func (t *consumerTurn) isBehind(m *consumerMember) bool {
	g := t.g
	if m.epoch < g.assignmentEpoch {
		return true
	}
	if g.epoch == g.assignmentEpoch || t.mustWait() {
		return false
	}
	for other := range g.everybody() {
		if other.classic == nil {
			return false
		}
	}
	return true
}

// mustRejoin gives a member its rebalance timeout to join again, from when it was first told.
func (t *consumerTurn) mustRejoin(m *consumerMember) []coordinator.Timer {
	if t.g.rejoining[m.id] {
		return nil
	}
	if t.g.rejoining == nil {
		t.g.rejoining = map[string]bool{}
	}
	t.g.rejoining[m.id] = true
	return []coordinator.Timer{{Key: memberTimer(timerRejoin, t.g.id, m.id), At: t.now.Add(m.rebalanceTimeout())}}
}

// consumerClassicHeartbeat tells a member whether it shall join again: because there is a newer target, because it has to
// say that it gave partitions up, or because all that it waited for is free.
func (m *Machine) consumerClassicHeartbeat(now time.Time, p *coordinator.Pending, r *kmsg.HeartbeatRequest, g *group) coordinator.Result {
	c := g.kind.(*consumerGroup)
	member, err := c.classicCall(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return failed(p, r.Group, err)
	}
	t := m.newConsumerTurn(now, c)
	t.timers = append(t.timers, t.sessionTimer(member))
	a := kmsg.NewPtrHeartbeatResponse()
	a.SetVersion(r.Version)
	if t.isBehind(member) || member.state == memberUnrevoked ||
		member.state == memberUnreleased && len(c.blockers(member)) == 0 {
		a.ErrorCode = int16(kafka.RebalanceInProgress)
		t.timers = append(t.timers, t.mustRejoin(member)...)
	}
	return t.result(p, coordinator.Answer{Body: a})
}

// consumerClassicLeave removes members of either protocol: themselves, or static ones by an administrator who gives their
// instance ids alone.
func (m *Machine) consumerClassicLeave(now time.Time, p *coordinator.Pending, r *kmsg.LeaveGroupRequest, g *group) coordinator.Result {
	c := g.kind.(*consumerGroup)
	leaving := r.Members
	if r.Version < 3 {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID}}
	}
	a := kmsg.NewPtrLeaveGroupResponse()
	a.SetVersion(r.Version)
	var gone []*consumerMember
	reason, words := "member left", ""
	for _, l := range leaving {
		id := l.MemberID
		if static := c.static(l.InstanceID); id == "" && static != nil {
			id, reason = static.id, "member was removed by its instance id"
		}
		member, err := c.member(id, l.InstanceID)
		if err == nil && !slices.Contains(gone, member) {
			if len(gone) == 0 && l.Reason != nil {
				words = *l.Reason
			}
			gone = append(gone, member)
		}
		a.Members = append(a.Members, kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID,
			ErrorCode: int16(kafka.CodeOf(err))})
	}
	if r.Version < 3 {
		a.ErrorCode, a.Members = a.Members[0].ErrorCode, nil
	}
	t := m.newConsumerTurn(now, c)
	t.remove(gone, reason+says(words))
	return t.result(p, coordinator.Answer{Body: a})
}
