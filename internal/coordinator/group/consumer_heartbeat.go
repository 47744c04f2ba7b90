package group

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerHeartbeat handles ConsumerGroupHeartbeat: a member joins (epoch 0), stays (its epoch) or leaves (-1, or -2 for
// a static member that will be back).
func (m *Machine) consumerHeartbeat(now time.Time, p *coordinator.Pending, r *kmsg.ConsumerGroupHeartbeatRequest,
	rnd *rand.Rand) coordinator.Result {
	if err := m.checkHeartbeat(r); err != nil {
		return failed(p, r.Group, err)
	}
	if r.MemberEpoch < 0 {
		return m.consumerLeave(now, p, r)
	}
	t, err := m.heartbeatTurn(now, r.Group, r.MemberEpoch == 0)
	if err != nil {
		return failed(p, r.Group, err)
	}
	a, err := t.heartbeat(p.Call, r, rnd)
	if err != nil {
		return failed(p, r.Group, err)
	}
	return t.result(p, coordinator.Answer{Body: a})
}

// checkHeartbeat checks what can be checked without the group.
func (m *Machine) checkHeartbeat(r *kmsg.ConsumerGroupHeartbeatRequest) error {
	s := m.o.Settings()
	if !s.ConsumerProtocol {
		return kafka.Errorf(kafka.UnsupportedVersion, "The consumer group protocol is not enabled.")
	}
	if r.MemberID == "" && (r.Version >= 1 || r.MemberEpoch != 0) { // KIP-1082: the member makes its id
		return kafka.Errorf(kafka.InvalidRequest, "MemberId is empty.")
	}
	if r.Group == "" {
		return kafka.Errorf(kafka.InvalidRequest, "GroupId is empty.")
	}
	if r.InstanceID != nil && *r.InstanceID == "" {
		return kafka.Errorf(kafka.InvalidRequest, "InstanceId is empty.")
	}
	if r.RackID != nil && *r.RackID == "" {
		return kafka.Errorf(kafka.InvalidRequest, "RackId is empty.")
	}
	if err := checkEpochFields(r); err != nil {
		return err
	}
	if r.ServerAssignor != nil && !slices.Contains(s.Assignors, *r.ServerAssignor) {
		return kafka.Errorf(kafka.UnsupportedAssignor, "There is no server assignor %s; there are %v.", *r.ServerAssignor,
			s.Assignors)
	}
	return nil
}

// checkEpochFields checks what a request must hold by its member epoch.
func checkEpochFields(r *kmsg.ConsumerGroupHeartbeatRequest) error {
	switch {
	case r.MemberEpoch < epochLeaveStatic:
		return kafka.Errorf(kafka.InvalidRequest, "MemberEpoch %d has no meaning.", r.MemberEpoch)
	case r.MemberEpoch == epochLeaveStatic && r.InstanceID == nil:
		return kafka.Errorf(kafka.InvalidRequest, "A member without InstanceId cannot leave for a while.")
	case r.MemberEpoch != 0:
		return nil
	case r.RebalanceTimeoutMillis == -1:
		return kafka.Errorf(kafka.InvalidRequest, "A member that joins must send RebalanceTimeoutMs.")
	case r.Topics == nil || len(r.Topics) > 0:
		return kafka.Errorf(kafka.InvalidRequest, "A member that joins must send empty TopicPartitions.")
	case r.SubscribedTopicNames == nil && r.SubscribedTopicRegex == nil:
		return kafka.Errorf(kafka.InvalidRequest,
			"A member that joins must send SubscribedTopicNames or SubscribedTopicRegex.")
	}
	return nil
}

// heartbeatTurn finds the group or, for a member that joins, makes it: from nothing, from an empty classic group, or from
// one whose members all use the embedded consumer protocol.
func (m *Machine) heartbeatTurn(now time.Time, id string, join bool) (*consumerTurn, error) {
	g := m.groups[id]
	switch {
	case !join:
		c, err := m.consumer(id)
		if err != nil {
			return nil, err
		}
		return m.newConsumerTurn(now, c), nil
	case g == nil:
		return m.newConsumerTurn(now, newConsumerGroup(id)), nil
	}
	if c, ok := g.kind.(*consumerGroup); ok {
		return m.newConsumerTurn(now, c), nil
	}
	if g.kind.members() == 0 {
		t := m.newConsumerTurn(now, newConsumerGroup(id))
		t.write(g.kind.tombstones()...)
		return t, nil
	}
	return m.upgrade(now, g)
}

// heartbeat is the heartbeat of a member that joins or stays. It brings the member up to date, gives the group a new
// target assignment if one is due, and moves the member towards its target.
func (t *consumerTurn) heartbeat(call coordinator.Call, r *kmsg.ConsumerGroupHeartbeatRequest, rnd *rand.Rand) (
	*kmsg.ConsumerGroupHeartbeatResponse, error) {
	if err := t.checkRoom(r.MemberID); err != nil {
		return nil, err
	}
	id := r.MemberID
	if id == "" {
		id = newMemberID(rnd)
	}
	was, known, err := t.heartbeatMember(id, r)
	if err != nil {
		return nil, err
	}
	member := was.heard(call, r)
	if err := t.checkMemory(was, member); err != nil {
		return nil, err
	}
	if err := t.subscribe(was, known, member, call.May); err != nil {
		return nil, err
	}
	target, err := t.target(was, member)
	if err != nil {
		return nil, err
	}
	member, err = t.reconcile(member, target, owned(r.Topics), was.subscribesElse(member))
	if err != nil {
		return nil, err
	}
	t.timers = append(t.timers, t.sessionTimer(member))
	if was.classic != nil { // it speaks another protocol now
		t.timers = append(t.timers, coordinator.Timer{Key: memberTimer(timerRejoin, t.g.id, member.id)},
			coordinator.Timer{Key: memberTimer(timerResync, t.g.id, member.id)})
		delete(t.g.rejoining, member.id)
	}

	a := r.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	a.MemberID, a.MemberEpoch = kmsg.StringPtr(member.id), member.epoch
	a.HeartbeatIntervalMillis = int32(t.interval(member).Milliseconds())
	full := r.RebalanceTimeoutMillis != -1 && (r.SubscribedTopicNames != nil || r.SubscribedTopicRegex != nil) &&
		r.Topics != nil
	if r.MemberEpoch == 0 || full || !member.assigned.samePartitions(was.assigned) {
		a.Assignment = heartbeatAssignment(member.assigned)
	}
	return a, nil
}

func heartbeatAssignment(h held) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
	for _, topic := range h.topics() {
		a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: topic,
			Partitions: h.numbers(topic)})
	}
	return a
}

// checkRoom refuses members beyond group.consumer.max.size.
func (t *consumerTurn) checkRoom(member string) error {
	limit := t.m.o.Settings().ConsumerMaxSize
	if len(t.g.roster) >= limit && t.g.roster[member] == nil {
		return kafka.Errorf(kafka.GroupMaxSizeReached, "Group %s has as many members as it may have: %d.", t.g.id, limit)
	}
	return nil
}

// heartbeatMember finds the member that a request comes from, or makes it. known says whether the group has it under
// this id or, after the replacement of a static member, will have.
func (t *consumerTurn) heartbeatMember(id string, r *kmsg.ConsumerGroupHeartbeatRequest) (m *consumerMember, known bool, err error) {
	if r.MemberEpoch == 0 {
		return t.joinMember(id, r.InstanceID, false)
	}
	if m, err = t.g.member(id, r.InstanceID); err != nil {
		return nil, false, err
	}
	return m, true, m.checkEpoch(r)
}

// joinMember gives the member that joins. A static member whose instance id is known takes the place of the one that had
// it: in the consumer protocol only if that one has said that it leaves.
func (t *consumerTurn) joinMember(id string, instance *string, classic bool) (m *consumerMember, known bool, err error) {
	old := t.g.static(instance)
	if old == nil {
		if m = t.g.roster[id]; m != nil {
			return m, true, nil
		}
		return newConsumerMember(id), false, nil
	}
	if !classic && old.classic == nil && old.epoch != epochLeaveStatic {
		return nil, false, kafka.Errorf(kafka.UnreleasedInstanceID,
			"Member %s cannot join: the member %s has the instance id %s and has not left.", id, old.id, *instance)
	}
	next := old.with(id)
	next.epoch, next.previous = 0, 0
	t.replace(old, next)
	return next, true, nil
}

// checkEpoch accepts the member's epoch, and the one before as long as the member has nothing that it does not have in the
// present one: it may not have got the answer that told of it.
func (m *consumerMember) checkEpoch(r *kmsg.ConsumerGroupHeartbeatRequest) error {
	got := r.MemberEpoch
	if got == m.epoch || got == m.previous && got < m.epoch && r.Topics != nil && owned(r.Topics).within(m.assigned) {
		return nil
	}
	return kafka.Errorf(kafka.FencedMemberEpoch,
		"Member %s is at epoch %d, not %d: it must give up all its partitions and join again.", m.id, m.epoch, got)
}

// heard is the member with what a request tells of it.
func (m *consumerMember) heard(call coordinator.Call, r *kmsg.ConsumerGroupHeartbeatRequest) *consumerMember {
	next := *m
	next.clientID, next.clientHost, next.classic = call.ClientID, call.ClientHost, nil
	if r.InstanceID != nil {
		next.instance = r.InstanceID
	}
	if r.RackID != nil {
		next.rack = r.RackID
	}
	if r.RebalanceTimeoutMillis != -1 {
		next.rebalanceTimeoutMs = r.RebalanceTimeoutMillis
	}
	if r.ServerAssignor != nil {
		next.assignor = r.ServerAssignor
	}
	if r.SubscribedTopicNames != nil {
		next.topics = sortedOnce(r.SubscribedTopicNames)
	}
	if r.SubscribedTopicRegex != nil {
		next.regex = *r.SubscribedTopicRegex
	}
	return &next
}

func sortedOnce(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// subscribesElse says whether another version of the member subscribes to something else.
func (m *consumerMember) subscribesElse(o *consumerMember) bool {
	return m.regex != o.regex || !slices.Equal(m.topics, o.topics)
}

// replace writes the records that put a member into the place of a static one.
func (t *consumerTurn) replace(old, next *consumerMember) {
	id := t.g.id
	t.write(memberTombstones(id, old.id)...)
	t.write(memberRecord(id, next), targetRecord(id, next.id, t.g.targets[old.id]), currentRecord(id, next))
	if old.id != next.id {
		t.timers = append(t.timers, cancelTimers(id, old.id)...)
	}
}

// memberTombstones removes a member.
func memberTombstones(group, member string) []coordinator.Record {
	return []coordinator.Record{tombstone(keyCurrentMember, group, member), tombstone(keyTargetMember, group, member),
		tombstone(keyConsumerMember, group, member)}
}

// subscribe writes the member if it is new or has changed, and a new group epoch if what the group subscribes to, or the
// topics themselves, have changed.
func (t *consumerTurn) subscribe(was *consumerMember, known bool, member *consumerMember, may func(string) bool) error {
	if !known || !member.sameSubscription(was) {
		t.write(memberRecord(t.g.id, member))
	}
	names := !slices.Equal(was.topics, member.topics)
	resolved, err := t.changePattern(was, member, may)
	if err != nil {
		return err
	}
	votes := known && !equalStrings(was.assignor, member.assignor) && t.anotherAssignor(was, member)
	bump := names || resolved || votes
	if !bump && t.g.fresh {
		return nil
	}
	var gone []*consumerMember
	if known {
		gone = []*consumerMember{was}
	}
	changed := t.rehashed(t.g.topicsAfter(gone, member))
	if bump || changed {
		t.bump(member.id, t.subscribeReason(was, known, names || resolved, votes))
	}
	if t.g.oldMetadata {
		t.write(tombstone(keyConsumerPartition, t.g.id))
	}
	return nil
}

// anotherAssignor says whether the group would have another assignor with a member as it is now.
func (t *consumerTurn) anotherAssignor(was, member *consumerMember) bool {
	offered := t.m.o.Settings().Assignors
	with := func(yield func(*consumerMember) bool) {
		for x := range t.g.everybody() {
			if x.id == was.id {
				x = member
			}
			if !yield(x) {
				return
			}
		}
	}
	return pickAssignor(offered, with).Name() != pickAssignor(offered, t.g.everybody()).Name()
}

func (t *consumerTurn) subscribeReason(was *consumerMember, known, subscription, votes bool) string {
	switch {
	case !known:
		return "member joined"
	case subscription && t.g.roster[was.id] == nil:
		return "static member came back with another subscription"
	case subscription:
		return "subscription changed"
	case votes:
		return "member wants another assignor"
	}
	return "topics changed"
}

// newMemberID makes a random id (a version 4 UUID in Kafka's text form).
func newMemberID(rnd *rand.Rand) string {
	id, _ := kafka.NewUUID(randomBytes{rnd}) // fails only when its source does
	return id.String()
}

// randomBytes reads from a generator.
type randomBytes struct{ rnd *rand.Rand }

func (r randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rnd.Uint32())
	}
	return len(b), nil
}
