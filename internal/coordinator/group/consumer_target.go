package group

import (
	"iter"
	"maps"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator/assignor"
	"moldau/internal/kafka"
)

// topicSet is a set of topic ids.
type topicSet map[kafka.UUID]*metadata.Topic

func (s topicSet) addNames(image *metadata.Image, names []string) {
	for _, name := range names {
		if t, ok := image.Topic(name); ok {
			s[t.ID] = t
		}
	}
}

// target gives the member's target assignment. If the group has moved on since the last target was computed, and that was
// long enough ago (KIP-1263), a new one is computed for everybody first.
func (t *consumerTurn) target(was, member *consumerMember) (partitions, error) {
	old := t.g.targets[t.targetOf(member)]
	if t.epoch <= t.assignmentEpoch || t.mustWait() {
		return old, nil
	}
	if err := t.assign(member); err != nil {
		return nil, err
	}
	return t.assigned[member.id], nil
}

// targetOf is the member whose target assignment a member takes over: that of its instance id, which is another one while
// a static member is replaced.
func (t *consumerTurn) targetOf(member *consumerMember) string {
	if old := t.g.static(member.instance); old != nil {
		return old.id
	}
	return member.id
}

// mustWait says whether the last assignment is younger than the interval.
func (t *consumerTurn) mustWait() bool {
	return t.now.UnixMilli() < t.g.assignedAtMs+t.conf.AssignmentInterval.Milliseconds()
}

// assign computes the target assignment of the group with a member as it will be, and writes what changes.
func (t *consumerTurn) assign(member *consumerMember) error {
	replaced := t.targetOf(member)
	members := maps.Clone(t.g.roster)
	delete(members, replaced)
	members[member.id] = member
	ids := slices.Sorted(maps.Keys(members))

	spec := assignor.Spec{Members: make([]assignor.Member, 0, len(ids)), Topics: map[kafka.UUID]assignor.Topic{}}
	subscribed := subscriptions{g: t.g, image: t.m.image, topics: spec.Topics}
	for _, id := range ids {
		m := members[id]
		of := id
		if id == member.id {
			of = replaced
		}
		spec.Members = append(spec.Members, assignor.Member{ID: id, InstanceID: m.instance, RackID: m.rack,
			Topics: subscribed.of(m), Owned: t.g.targets[of]})
	}
	a := pickAssignor(t.m.o.Settings().Assignors, maps.Values(members))
	assigned, err := a.Assign(spec)
	if err != nil {
		return kafka.Errorf(kafka.UnknownServerError, "The assignor %s could not assign the partitions: %v.", a.Name(), err)
	}
	t.assigned = make(map[string]partitions, len(ids))
	for _, id := range ids {
		target := partitions(assigned[id])
		t.assigned[id] = target
		if old, ok := t.g.targets[id]; !ok || !target.equal(old) {
			t.write(targetRecord(t.g.id, id, target))
		}
	}
	t.assignmentEpoch = t.epoch
	t.write(targetMetadataRecord(t.g.id, t.epoch, t.now.UnixMilli()))
	return nil
}

// pickAssignor gives the assignor with most votes. Of equal ones the broker's order decides, and so it does without a vote;
// a vote for one that this broker does not offer counts nothing.
func pickAssignor(offered []string, members iter.Seq[*consumerMember]) assignor.Assignor {
	votes := map[string]int{}
	for m := range members {
		if m.assignor != nil {
			votes[*m.assignor]++
		}
	}
	best, most := assignor.Uniform(), -1
	for _, name := range offered {
		if a, ok := assignor.ByName(name); ok && votes[name] > most {
			best, most = a, votes[name]
		}
	}
	return best
}

// subscriptions turns subscriptions into ids of topics that exist. Members that come one after the other mostly subscribe
// to the same, so the last answer is kept.
type subscriptions struct {
	g      *consumerGroup
	image  *metadata.Image
	topics map[kafka.UUID]assignor.Topic // of everybody so far

	last *consumerMember
	ids  []kafka.UUID
}

func (s *subscriptions) of(m *consumerMember) []kafka.UUID {
	if s.last != nil && !s.last.subscribesElse(m) {
		return s.ids
	}
	set := s.g.topicSet(s.image, m)
	s.last, s.ids = m, slices.SortedFunc(maps.Keys(set), compareUUID)
	for _, id := range s.ids {
		if _, ok := s.topics[id]; !ok {
			s.topics[id] = assignorTopic(s.image, set[id])
		}
	}
	return s.ids
}

func assignorTopic(image *metadata.Image, t *metadata.Topic) assignor.Topic {
	return assignor.Topic{ID: t.ID, Name: t.Name, Partitions: int32(t.NumPartitions()),
		Racks: func(partition int32) []string { return partitionRacks(image, t, partition) }}
}

// partitionRacks lists the racks of the brokers that have a replica, sorted, once per replica. Brokers without a rack are
// passed over.
func partitionRacks(image *metadata.Image, t *metadata.Topic, partition int32) []string {
	p, ok := t.Partition(partition)
	if !ok {
		return nil
	}
	var racks []string
	for _, id := range p.Replicas {
		if b, ok := image.Broker(id); ok && b.Rack != nil {
			racks = append(racks, *b.Rack)
		}
	}
	slices.Sort(racks)
	return racks
}
