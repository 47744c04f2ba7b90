package metadata

import (
	"fmt"
	"maps"
	"slices"

	"moldau/internal/kafka"
)

func (e *edit) createTopic(r *TopicRecord) error {
	if id, ok := e.img.names.get(r.Name); ok {
		return fmt.Errorf("topic %q exists with id %s", r.Name, id)
	}
	if t, ok := e.img.topics.get(string(r.TopicID[:])); ok {
		return fmt.Errorf("topic id %s is that of topic %q", r.TopicID, t.Name)
	}
	t := &Topic{Name: r.Name, ID: r.TopicID}
	t.partitions.own(e.token)
	e.img.topics.set(e.token, string(t.ID[:]), t)
	e.img.names.set(e.token, t.Name, t.ID)
	e.diff.setTopic(t.ID, nil, t)
	return nil
}

// topic finds a topic that a record refers to.
func (e *edit) topic(id kafka.UUID) (*Topic, error) {
	t, ok := e.img.topics.get(string(id[:]))
	if !ok {
		return nil, fmt.Errorf("there is no topic with id %s", id)
	}
	return t, nil
}

func (e *edit) removeTopic(r *RemoveTopicRecord) error {
	t, err := e.topic(r.TopicID)
	if err != nil {
		return err
	}
	for index, p := range t.Partitions() {
		e.place(t.ID, index, p, nil)
	}
	e.img.partitions -= t.NumPartitions()
	e.img.topics.delete(e.token, string(t.ID[:]))
	e.img.names.delete(e.token, t.Name)
	e.diff.setTopic(t.ID, t, nil)
	e.dropConfigs(TopicResource, t.Name)
	return nil
}

func (e *edit) setPartition(r *PartitionRecord) error {
	t, err := e.topic(r.TopicID)
	if err != nil {
		return err
	}
	p := &Partition{
		Replicas: orNil(r.Replicas), ISR: orNil(r.ISR), Adding: orNil(r.AddingReplicas),
		Removing: orNil(r.RemovingReplicas), Directories: r.Directories,
		ELR: orNil(r.EligibleLeaderReplicas), LastKnownELR: orNil(r.LastKnownELR),
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch,
	}
	if p.Recovering, err = recovering(r.LeaderRecoveryState); err != nil {
		return err
	}
	if len(p.Directories) == 0 {
		p.Directories = migrating(len(p.Replicas))
	}
	return e.putPartition(t, r.PartitionID, p)
}

func (e *edit) changePartition(r *PartitionChangeRecord) error {
	t, err := e.topic(r.TopicID)
	if err != nil {
		return err
	}
	old, ok := t.Partition(r.PartitionID)
	if !ok {
		return fmt.Errorf("topic %q has no partition %d", t.Name, r.PartitionID)
	}
	p := *old
	p.PartitionEpoch++
	change(&p.ISR, r.ISR)
	change(&p.Adding, r.AddingReplicas)
	change(&p.Removing, r.RemovingReplicas)
	change(&p.ELR, r.EligibleLeaderReplicas)
	change(&p.LastKnownELR, r.LastKnownELR)
	changeReplicas(&p, r)
	if r.Leader != nil {
		p.Leader = *r.Leader
		p.LeaderEpoch++
	}
	if r.LeaderRecoveryState != nil {
		if p.Recovering, err = recovering(*r.LeaderRecoveryState); err != nil {
			return err
		}
	}
	return e.putPartition(t, r.PartitionID, &p)
}

// changeReplicas sets replicas and their directories. Records below version 1 set replicas alone: replicas that stay
// keep their directory, new ones are not known yet.
func changeReplicas(p *Partition, r *PartitionChangeRecord) {
	before := *p
	change(&p.Replicas, r.Replicas)
	switch {
	case len(r.Directories) > 0:
		p.Directories = r.Directories
	case r.Directories != nil:
		p.Directories = migrating(len(p.Replicas))
	case r.Replicas != nil:
		p.Directories = migrating(len(p.Replicas))
		for i, id := range p.Replicas {
			p.Directories[i] = before.Directory(id)
		}
	}
}

func (e *edit) clearElr(r *ClearElrRecord) error {
	if r.TopicName == "" {
		for _, t := range slices.Collect(e.img.Topics()) {
			if err := e.clearTopicElr(t); err != nil {
				return err
			}
		}
		return nil
	}
	t, ok := e.img.Topic(r.TopicName)
	if !ok {
		return fmt.Errorf("there is no topic %q", r.TopicName)
	}
	return e.clearTopicElr(t)
}

func (e *edit) clearTopicElr(t *Topic) error {
	cleared := make(map[int32]*Partition)
	for index, old := range t.Partitions() {
		if len(old.ELR) > 0 || len(old.LastKnownELR) > 0 {
			p := *old
			p.ELR, p.LastKnownELR = nil, nil
			p.PartitionEpoch++
			cleared[index] = &p
		}
	}
	for _, index := range slices.Sorted(maps.Keys(cleared)) {
		if err := e.putPartition(t, index, cleared[index]); err != nil {
			return err
		}
		t, _ = e.topic(t.ID)
	}
	return nil
}

// putPartition makes p the state of a partition, in the topic, the indexes and the diff.
// The topic must be as the edit has it now, and is not after the call.
func (e *edit) putPartition(t *Topic, index int32, p *Partition) error {
	if p.Leader < kafka.NoNode {
		return fmt.Errorf("partition %d of topic %q: leader %d", index, t.Name, p.Leader)
	}
	if len(p.Directories) != len(p.Replicas) {
		return fmt.Errorf("partition %d of topic %q: %d directories for %d replicas", index, t.Name,
			len(p.Directories), len(p.Replicas))
	}
	if slices.Equal(p.ISR, p.Replicas) {
		p.ISR = p.Replicas // the usual case, and there are many partitions
	}
	old, _ := t.Partition(index)
	before := t
	if t.partitions.owner != e.token {
		next := *t
		t = &next
		t.partitions.own(e.token)
		e.img.topics.set(e.token, string(t.ID[:]), t)
	}
	t.partitions.set(e.token, index, p)
	if old == nil {
		e.img.partitions++
	}
	e.place(t.ID, index, old, p)
	e.diff.setTopic(t.ID, before, t)
	e.diff.setPartition(t.ID, index, old, p)
	return nil
}

// place keeps the indexes by broker and of the leaderless partitions. Old and now may be nil.
func (e *edit) place(topic kafka.UUID, index int32, old, now *Partition) {
	key := ""
	lazyKey := func() string {
		if key == "" {
			key = partitionKey(topic, index)
		}
		return key
	}
	var oldIDs, nowIDs [8]kafka.NodeID
	was, is := oldIDs[:0], nowIDs[:0]
	if old != nil {
		was = old.members(was)
	}
	if now != nil {
		is = now.members(is)
	}
	for _, id := range was {
		if !slices.Contains(is, id) {
			e.displace(id, lazyKey())
		}
	}
	for _, id := range is {
		if !slices.Contains(was, id) {
			e.placement(id).partitions.set(e.token, lazyKey(), struct{}{})
		}
	}
	hadNone, hasNone := old != nil && !old.HasLeader(), now != nil && !now.HasLeader()
	switch {
	case hasNone && !hadNone:
		e.img.leaderless.set(e.token, lazyKey(), struct{}{})
	case hadNone && !hasNone:
		e.img.leaderless.delete(e.token, lazyKey())
	}
}

// placement gives the set of a broker's partitions for writing.
func (e *edit) placement(broker kafka.NodeID) *placement {
	on, ok := e.img.placements.get(broker)
	if ok && on.partitions.owner == e.token {
		return on
	}
	next := new(placement)
	if ok {
		*next = *on
	}
	next.partitions.own(e.token)
	e.img.placements.set(e.token, broker, next)
	return next
}

func (e *edit) displace(broker kafka.NodeID, key string) {
	on := e.placement(broker)
	on.partitions.delete(e.token, key)
	if on.partitions.len() == 0 {
		e.img.placements.delete(e.token, broker)
	}
}

// change sets a list unless the record leaves it as it is. Empty lists of an image are nil.
func change(list *[]kafka.NodeID, to []kafka.NodeID) {
	if to != nil {
		*list = orNil(to)
	}
}

func orNil(list []kafka.NodeID) []kafka.NodeID {
	if len(list) == 0 {
		return nil
	}
	return list
}

func recovering(s LeaderRecoveryState) (bool, error) {
	switch s {
	case LeaderRecovered:
		return false, nil
	case LeaderRecovering:
		return true, nil
	}
	return false, fmt.Errorf("unknown leader recovery state %d", s)
}

// migrating is the list of directories of n replicas about whose directories nothing is known.
func migrating(n int) []kafka.UUID {
	if n == 0 {
		return nil
	}
	return make([]kafka.UUID, n) // kafka.DirectoryMigrating is the zero value
}
