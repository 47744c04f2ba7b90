package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// upgrade begins the turn in which a classic group becomes a consumer group because a member of the consumer protocol
// joins. Its members stay, in the classic protocol, with what they were assigned.
func (m *Machine) upgrade(now time.Time, g *group) (*consumerTurn, error) {
	c := g.classic()
	refuse := func(why string) error {
		return kafka.Errorf(kafka.GroupIDNotFound, "The classic group %s cannot become a consumer group: %s.", g.id, why)
	}
	switch s := m.o.Settings(); {
	case !s.Upgrade:
		return nil, refuse("group.consumer.migration.policy does not allow it")
	case c.typeName != consumerProtocol:
		return nil, refuse("its protocol type is " + c.typeName)
	case len(c.roster) > s.ConsumerMaxSize:
		return nil, refuse("it is larger than group.consumer.max.size")
	}
	made := newConsumerGroup(g.id)
	made.epoch, made.assignmentEpoch = c.generationID, c.generationID
	for _, x := range c.roster {
		member, why := c.asConsumer(x, m.image)
		if why == "" && made.holdsAny(member.assigned) {
			why = "its leader has assigned a partition twice"
		}
		if why != "" {
			return nil, refuse(why)
		}
		made.put(member)
	}
	for _, id := range sortedMembers(made) {
		made.claim(made.roster[id], m.image)
		made.targets[id] = made.roster[id].assigned.partitions()
	}
	made.hash = m.metadataHash(made.topicsAfter(nil, nil))
	t := m.newConsumerTurn(now, made)
	t.write(g.kind.tombstones()...)
	t.write(made.records()...)
	for _, id := range sortedMembers(made) {
		t.timers = append(t.timers, t.sessionTimer(made.roster[id]))
	}
	// Whoever waits in the classic group is answered when it is one no more: should the append fail, they go on waiting.
	t.after = func(now time.Time) coordinator.Result {
		replies, timers := m.disband(now, &group{id: g.id, kind: c})
		return coordinator.Result{Scope: g.id, Replies: replies, Timers: timers}
	}
	return t, nil
}

// holdsAny says whether a member has one of the partitions.
func (g *consumerGroup) holdsAny(h held) bool {
	for topic, numbers := range h {
		for n := range numbers {
			if g.holder(topic, n) != "" {
				return true
			}
		}
	}
	return false
}

// claim gives a member what it said it had when it joined last, if it is nobody's by now: a cooperative consumer goes on
// with it while the group rebalances, and after that until it joins again to say that it gave it up (KIP-429).
func (g *consumerGroup) claim(m *consumerMember, image *metadata.Image) {
	s, err := readSubscription(m.classic.preferred().metadata)
	if err != nil {
		return
	}
	next := *m
	next.assigned = m.assigned.clone()
	for _, o := range s.OwnedPartitions {
		topic, ok := image.Topic(o.Topic)
		for _, n := range o.Partitions {
			if ok && g.holder(topic.ID, n) == "" {
				next.assigned.put(topic.ID, n, m.epoch)
			}
		}
	}
	g.put(&next)
}

// asConsumer makes a member of a consumer group of one of a classic group, or says why that cannot be.
func (c *classicGroup) asConsumer(x *classicMember, image *metadata.Image) (*consumerMember, string) {
	name := c.protocol
	if name == "" && len(x.protocols) > 0 { // the first generation has not begun
		name = x.protocols[0].Name
	}
	subscription, err := readSubscription(x.metadata(name))
	if err != nil {
		return nil, "the subscription of " + x.id + " cannot be read"
	}
	assigned := partitions{}
	if len(x.assignment) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(x.assignment) != nil {
			return nil, "the assignment of " + x.id + " cannot be read"
		}
		if len(a.UserData) > 0 {
			return nil, "its assignor keeps data of its own in assignments, which would be lost"
		}
		for _, t := range a.Topics {
			if topic, ok := image.Topic(t.Topic); ok {
				assigned[topic.ID] = append(assigned[topic.ID], t.Partitions...)
			}
		}
		assigned.normal()
	}
	m := newConsumerMember(x.id)
	m.instance, m.rack = x.instance, noEmpty(subscription.Rack)
	m.clientID, m.clientHost, m.rebalanceTimeoutMs = x.clientID, x.clientHost, x.rebalanceMs
	m.topics = sortedOnce(subscription.Topics)
	m.classic = newClassicFace(x.sessionMs, x.protocols)
	m.epoch, m.previous = c.generationID, c.generationID
	m.assigned = heldAt(assigned, c.generationID)
	return m, ""
}

func newClassicFace(sessionMs int32, protocols []kmsg.JoinGroupRequestProtocol) *classicFace {
	f := &classicFace{sessionTimeoutMs: sessionMs}
	for _, p := range protocols {
		f.protocols = append(f.protocols, classicProtocol{p.Name, p.Metadata})
	}
	return f
}

// readSubscription reads what a consumer tells in the classic protocol.
func readSubscription(b []byte) (kmsg.ConsumerMemberMetadata, error) {
	s := kmsg.NewConsumerMemberMetadata()
	err := s.ReadFrom(b)
	return s, err
}

func noEmpty(s *string) *string {
	if s != nil && *s == "" {
		return nil
	}
	return s
}

// records are those that make the group out of nothing.
func (g *consumerGroup) records() []coordinator.Record {
	ids := sortedMembers(g)
	var out []coordinator.Record
	for _, id := range ids {
		out = append(out, memberRecord(g.id, g.roster[id]))
	}
	out = append(out, epochRecord(g.id, g.epoch, g.hash))
	for _, id := range ids {
		out = append(out, targetRecord(g.id, id, g.targets[id]))
	}
	out = append(out, targetMetadataRecord(g.id, g.assignmentEpoch, g.assignedAtMs))
	for _, id := range ids {
		out = append(out, currentRecord(g.id, g.roster[id]))
	}
	return out
}

// mayDowngrade says whether the group becomes a classic one when these members are gone: all that is left speaks the
// classic protocol.
func (t *consumerTurn) mayDowngrade(gone []*consumerMember) bool {
	s := t.m.o.Settings()
	left := len(t.g.roster) - len(gone)
	if left <= 0 || !s.Downgrade || left > s.MaxSize {
		return false
	}
	for m := range t.g.everybody() {
		if m.classic == nil && !slices.Contains(gone, m) {
			return false
		}
	}
	return true
}

// downgrade ends the turn by making the group a classic one, without the members that are gone. One of them may be
// replaced by a static member that has come.
//
// Where Kafka stores the target assignment, each member here gets what it has: one that was yet to give a partition up
// would otherwise lose it to another in the eyes of a coordinator, while it goes on reading it. The rebalance that brings
// the rest is due anyhow; only when all have what they shall have can it be spared.
func (t *consumerTurn) downgrade(gone []*consumerMember, come *consumerMember, reason string) {
	roster := maps.Clone(t.g.roster)
	for _, m := range gone {
		delete(roster, m.id)
	}
	ids := sortedMembers(t.g) // whose records there are
	if come != nil {          // the records so far have put it in the place of the one that is gone
		roster[come.id] = come
		ids = slices.Sorted(maps.Keys(roster))
	}
	t.write(t.g.tombstonesOf(ids)...)
	for id := range t.g.roster {
		t.timers = append(t.timers, cancelTimers(t.g.id, id)...)
	}
	c := newClassicGroup(t.g.id)
	c.typeName, c.generationID, c.sinceMs = consumerProtocol, t.g.epoch, t.now.UnixMilli()
	settled := come != nil && t.epoch == t.assignmentEpoch
	for _, id := range slices.Sorted(maps.Keys(roster)) {
		m := roster[id]
		c.add(m.asClassic(t.m.image))
		settled = settled && m.reconciled(t.assignmentEpoch)
	}
	c.protocol = c.choose()
	stored := c.metadata(func(m *classicMember) []byte { return m.assignment })
	t.write(groupMetadataRecord(t.g.id, stored))
	cause := Rebalance{Member: gone[0].id, Reason: reason}
	if come != nil {
		cause.Member = come.id
	}
	t.notes = nil
	t.after = func(now time.Time) coordinator.Result { return t.m.downgraded(now, c, !settled, cause) }
}

// asClassic makes a member of a classic group of one that speaks the classic protocol.
func (m *consumerMember) asClassic(image *metadata.Image) *classicMember {
	x := &classicMember{id: m.id, clientID: m.clientID, clientHost: m.clientHost, instance: m.instance,
		rebalanceMs: m.rebalanceTimeoutMs, sessionMs: m.classic.sessionTimeoutMs,
		assignment: m.classicAssignment(image, m.has())}
	for _, p := range m.classic.protocols {
		x.protocols = append(x.protocols, kmsg.JoinGroupRequestProtocol{Name: p.name, Metadata: p.metadata})
	}
	return x
}

// classicAssignment writes partitions as a consumer of the classic protocol reads them, in the version in which it wrote
// its subscription.
func (m *consumerMember) classicAssignment(image *metadata.Image, p partitions) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	if subscription, err := readSubscription(m.classic.preferred().metadata); err == nil {
		a.Version = subscription.Version
	}
	for _, t := range describePartitions(image, p) {
		a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return a.AppendTo(nil)
}

// downgraded begins the life of a group that has become a classic one. The log holds of each member the chosen protocol
// only; those that it could speak as well are known still.
func (m *Machine) downgraded(now time.Time, made *classicGroup, rebalance bool, cause Rebalance) coordinator.Result {
	g := m.groups[made.id]
	loaded := m.classicLoaded(now, g)
	t := m.turn(now, g, nil)
	for _, x := range t.c.roster {
		t.c.unindex(x)
		x.protocols = made.byID[x.id].protocols
		t.c.index(x)
	}
	if rebalance && t.c.phase == phaseStable {
		t.prepare(cause.Member, cause.Reason)
	}
	t.Timers = append(loaded.Timers, t.Timers...)
	t.Replies = append(loaded.Replies, t.Replies...)
	return t.Result
}
