package group

import (
	"iter"
	"maps"
	"slices"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerGroup is a group of the consumer protocol (KIP-848): its members, which may speak the classic protocol too, and
// three epochs. The group epoch grows with every change of members, subscriptions or topics; the assignment epoch is the
// group epoch that the target assignment was computed for; each member's epoch is how far it has come.
//
// All but the soft state changes in applyConsumer only.
type consumerGroup struct {
	id              string
	epoch           int32
	hash            uint64 // of the topics subscribed to, see metadataHash
	assignmentEpoch int32
	assignedAtMs    int64 // when the target assignment was computed

	roster  map[string]*consumerMember // the members, by id
	statics map[string]string          // instance id -> member id
	targets map[string]partitions      // member id -> what it shall have
	regexes map[string]*resolvedRegex
	// oldMetadata: a record of type 4 of an older program is in the log and wants a tombstone.
	oldMetadata bool

	// Derived from the members.
	holders map[kafka.UUID]map[int32]string // who has a partition, or has not given it up
	named   map[string]int                  // topic name -> members that subscribe to it by name
	pattern map[string]int                  // regular expression -> members that subscribe to it

	bytes int64 // what the members take, see consumerMember.bytes

	// Soft state.
	evaluating bool            // its patterns are being evaluated
	fresh      bool            // the hash is that of the present image
	rejoining  map[string]bool // members of the classic protocol that were told to join again and have not
}

var _ kind = (*consumerGroup)(nil)

// newConsumerGroup makes a group of which nothing is in the log. Its epochs are 1: a member at epoch 0 would be one that
// joins.
func newConsumerGroup(id string) *consumerGroup {
	return &consumerGroup{id: id, epoch: 1, assignmentEpoch: 1, roster: map[string]*consumerMember{}, statics: map[string]string{},
		targets: map[string]partitions{}, regexes: map[string]*resolvedRegex{},
		holders: map[kafka.UUID]map[int32]string{}, named: map[string]int{}, pattern: map[string]int{}}
}

// consumerGroup gives the group when it is one of the consumer protocol.
func (m *Machine) consumerGroup(id string) *group {
	if g := m.groups[id]; g != nil {
		if _, ok := g.kind.(*consumerGroup); ok {
			return g
		}
	}
	return nil
}

// consumer gives a group of the consumer protocol.
func (m *Machine) consumer(id string) (*consumerGroup, error) {
	g := m.groups[id]
	if g == nil {
		return nil, kafka.Errorf(kafka.GroupIDNotFound, "There is no group %s.", id)
	}
	c, ok := g.kind.(*consumerGroup)
	if !ok {
		return nil, kafka.Errorf(kafka.GroupIDNotFound, "Group %s is not a consumer group.", id)
	}
	return c, nil
}

func (g *consumerGroup) groupType() string    { return typeConsumer }
func (g *consumerGroup) protocolType() string { return consumerProtocol }
func (g *consumerGroup) generation() int32    { return g.epoch }
func (g *consumerGroup) members() int         { return len(g.roster) }

// The states of a consumer group.
const (
	consumerEmpty       = "Empty"
	consumerAssigning   = "Assigning"
	consumerReconciling = "Reconciling"
	consumerStable      = "Stable"
)

func (g *consumerGroup) state() string {
	switch {
	case len(g.roster) == 0:
		return consumerEmpty
	case g.epoch > g.assignmentEpoch:
		return consumerAssigning
	}
	for _, m := range g.roster {
		if !m.reconciled(g.assignmentEpoch) {
			return consumerReconciling
		}
	}
	return consumerStable
}

// member finds a member by id, and by instance id if there is one.
func (g *consumerGroup) member(id string, instance *string) (*consumerMember, error) {
	if instance == nil {
		if m := g.roster[id]; m != nil {
			return m, nil
		}
		return nil, kafka.Errorf(kafka.UnknownMemberID, "Group %s has no member %s.", g.id, id)
	}
	m := g.static(instance)
	if m == nil {
		return nil, kafka.Errorf(kafka.UnknownMemberID, "Group %s has no member with the instance id %s.", g.id, *instance)
	}
	if m.id != id {
		return nil, kafka.Errorf(kafka.FencedInstanceID, "The instance id %s belongs to the member %s now.", *instance, m.id)
	}
	return m, nil
}

// static finds the member of an instance id, nil when there is none.
func (g *consumerGroup) static(instance *string) *consumerMember {
	if instance == nil {
		return nil
	}
	return g.roster[g.statics[*instance]]
}

// checkCommit accepts the member's epoch, and judges each partition when the epoch is an older one: a commit that was on
// its way while the epoch grew counts as long as the partition has not changed hands (KIP-1251).
func (g *consumerGroup) checkCommit(_ time.Time, c commitCheck) (func(kafka.UUID, int32) error, []coordinator.Timer, error) {
	if c.epoch < 0 && len(g.roster) == 0 {
		return nil, nil, nil
	}
	if c.txn && c.epoch == -1 && c.member == "" && c.instance == nil {
		return nil, nil, nil // these fields are optional there
	}
	m := g.roster[c.member]
	switch {
	case m == nil:
		return nil, nil, kafka.Errorf(kafka.UnknownMemberID, "Group %s has no member %s.", g.id, c.member)
	case !c.txn && m.classic == nil && c.version < 9:
		return nil, nil, kafka.Errorf(kafka.UnsupportedVersion,
			"Members that speak the consumer protocol commit with OffsetCommit version 9 or later.")
	case c.epoch == m.epoch:
		return nil, nil, nil
	}
	if m.classic != nil || c.epoch > m.epoch {
		return nil, nil, m.staleEpoch(c.epoch)
	}
	return func(topic kafka.UUID, partition int32) error {
		since, ok := m.assigned[topic][partition]
		if !ok {
			since, ok = m.revoking[topic][partition]
		}
		if !ok || c.epoch < since {
			return m.staleEpoch(c.epoch)
		}
		return nil
	}, nil, nil
}

func (m *consumerMember) staleEpoch(got int32) error {
	if m.classic != nil {
		return kafka.Errorf(kafka.IllegalGeneration, "Member %s is in generation %d, not %d.", m.id, m.epoch, got)
	}
	return kafka.Errorf(kafka.StaleMemberEpoch, "Member %s is at epoch %d, not %d.", m.id, m.epoch, got)
}

func (g *consumerGroup) checkFetch(member *string, epoch int32) error {
	if member == nil && epoch < 0 {
		return nil
	}
	var id string
	if member != nil {
		id = *member
	}
	m := g.roster[id]
	if m == nil {
		return kafka.Errorf(kafka.UnknownMemberID, "Group %s has no member %s.", g.id, id)
	}
	if epoch != m.epoch {
		return m.staleEpoch(epoch)
	}
	return nil
}

func (g *consumerGroup) checkDelete() error {
	if len(g.roster) > 0 {
		return kafka.NonEmptyGroup
	}
	return nil
}

func (g *consumerGroup) subscribed(topic string) bool {
	if g.named[topic] > 0 {
		return true
	}
	for pattern := range g.pattern {
		if r := g.regexes[pattern]; r != nil && r.matches(topic) {
			return true
		}
	}
	return false
}

func (g *consumerGroup) expires() expiry { return expiry{mode: expireByCommit} }

// tombstones deletes the group, what builds on something before it.
func (g *consumerGroup) tombstones() []coordinator.Record {
	return g.tombstonesOf(slices.Sorted(maps.Keys(g.roster)))
}

// tombstonesOf deletes the group with members of these ids, which are others than the group's own when the batch has
// replaced one before.
func (g *consumerGroup) tombstonesOf(ids []string) []coordinator.Record {
	var out []coordinator.Record
	for _, id := range ids {
		out = append(out, tombstone(keyCurrentMember, g.id, id))
	}
	for _, id := range ids {
		out = append(out, tombstone(keyTargetMember, g.id, id))
	}
	out = append(out, tombstone(keyTargetMetadata, g.id))
	for _, id := range ids {
		out = append(out, tombstone(keyConsumerMember, g.id, id))
	}
	for _, pattern := range slices.Sorted(maps.Keys(g.regexes)) {
		out = append(out, tombstone(keyConsumerRegex, g.id, pattern))
	}
	return append(out, tombstone(keyConsumerPartition, g.id), tombstone(keyConsumerGroup, g.id))
}

// everybody goes through the members in no particular order.
func (g *consumerGroup) everybody() iter.Seq[*consumerMember] { return maps.Values(g.roster) }
