package group

import (
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// classicGroup is a group of the classic protocol: its members elect a leader among themselves, which assigns.
//
// The log holds a group as of its last assignment (stored). Everything else is live state that a failover loses and that
// members rebuild by joining again: the generations since, who is joining, who has synced, the deadlines.
type classicGroup struct {
	stored *groupMetadata // what the log holds, nil for a group that only has offsets

	id           string
	phase        phase
	sinceMs      int64 // when the phase began; -1: not known
	generationID int32
	typeName     string           // the protocol type, such as "consumer"; "" until the first member
	protocol     string           // chosen when a generation begins; meaningless without members
	leader       string           // a member's id; "" without members
	roster       []*classicMember // the members, as they joined
	byID         map[string]*classicMember
	static       map[string]*classicMember // by instance id
	pending      map[string]struct{}       // ids handed out to clients that have not joined with them (KIP-394)
	handedOut    []string                  // the same, oldest first, and some that are not pending any more
	votes        map[string]int            // how many members support a protocol
	bytes        int64                     // what members take
	idBytes      int64                     // what ids that were handed out take
	joining      int                       // members whose JoinGroup is parked
	unsynced     int                       // members of this generation that have not sent SyncGroup
	topics       map[string]struct{}       // what members subscribe to; nil: not known

	initial bool          // the join phase began in an empty group and ends by time only
	grown   bool          // a member was added since that time was last extended
	delay   time.Duration // the running extension
	left    time.Duration // what may still be extended
	joinBy  time.Time     // end of the join phase
	syncBy  time.Time     // end of the sync phase
}

// phase is a classic group's state. Groups that Kafka calls Dead do not exist here.
type phase uint8

const (
	phaseEmpty phase = iota
	phasePreparing
	phaseCompleting
	phaseStable
)

func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// newClassicGroup makes an empty group.
func newClassicGroup(id string) *classicGroup { return &classicGroup{id: id, sinceMs: -1} }

// classic gives the kind of a group when it is a classic one.
func (g *group) classic() *classicGroup {
	c, _ := g.kind.(*classicGroup)
	return c
}

// restore replaces the live state by what the log holds.
func (c *classicGroup) restore() {
	s := c.stored
	*c = *newClassicGroup(c.id)
	c.stored = s
	if s == nil {
		return
	}
	c.generationID, c.sinceMs, c.typeName = s.generation, s.sinceMs, s.protocolType
	if len(s.members) == 0 {
		return
	}
	c.phase = phaseStable
	if s.protocol != nil {
		c.protocol = *s.protocol
	}
	for _, m := range s.members {
		c.add(newClassicMember(m, c.protocol))
	}
	c.leader = c.roster[0].id
	if s.leader != nil && c.byID[*s.leader] != nil {
		c.leader = *s.leader
	}
	c.topics = c.subscriptions()
}

// metadata is what the log should hold of the group, with the assignment of each member as assign tells.
func (c *classicGroup) metadata(assign func(*classicMember) []byte) groupMetadata {
	g := groupMetadata{protocolType: c.typeName, generation: c.generationID, sinceMs: c.sinceMs}
	if len(c.roster) == 0 {
		return g
	}
	protocol, leader := c.protocol, c.leader
	g.protocol, g.leader = &protocol, &leader
	for _, m := range c.roster {
		g.members = append(g.members, memberMetadata{
			id:           m.id,
			instance:     m.instance,
			clientID:     m.clientID,
			clientHost:   m.clientHost,
			rebalanceMs:  m.rebalanceMs,
			sessionMs:    m.sessionMs,
			subscription: m.metadata(c.protocol),
			assignment:   assign(m),
		})
	}
	return g
}

// enter moves the group to another phase.
func (c *classicGroup) enter(now time.Time, p phase) { c.phase, c.sinceMs = p, now.UnixMilli() }

func (c *classicGroup) groupType() string    { return typeClassic }
func (c *classicGroup) generation() int32    { return c.generationID }
func (c *classicGroup) protocolType() string { return c.typeName }
func (c *classicGroup) members() int         { return len(c.roster) }
func (c *classicGroup) state() string        { return c.phase.String() }

// checkMember says whether a request comes from a member: an instance id must belong to the member id that it was given
// last (KIP-345).
func (c *classicGroup) checkMember(id string, instance *string) (*classicMember, error) {
	if instance != nil {
		switch m := c.static[*instance]; {
		case m == nil:
			return nil, kafka.UnknownMemberID
		case m.id != id:
			return nil, kafka.FencedInstanceID
		}
	}
	if m := c.byID[id]; m != nil {
		return m, nil
	}
	return nil, kafka.UnknownMemberID
}

func (c *classicGroup) checkCommit(now time.Time, k commitCheck) (func(kafka.UUID, int32) error, []coordinator.Timer, error) {
	if k.epoch < 0 && c.phase == phaseEmpty {
		return nil, nil, nil // an administrator, or a consumer that assigns itself
	}
	var member *classicMember
	if k.epoch >= 0 || k.member != "" || k.instance != nil {
		m, err := c.checkMember(k.member, k.instance)
		if err != nil {
			return nil, nil, err
		}
		if k.epoch != c.generationID {
			return nil, nil, kafka.IllegalGeneration
		}
		member = m
	} else if !k.txn {
		return nil, nil, kafka.UnknownMemberID
	}
	if k.txn {
		return nil, nil, nil // old versions of TxnOffsetCommit know no member, and none of them heeds the phase
	}
	if c.phase == phaseCompleting {
		return nil, nil, kafka.RebalanceInProgress
	}
	return nil, c.extend(now, member, member.session()), nil
}

// checkFetch allows everybody: classic members do not name themselves when they fetch offsets.
func (c *classicGroup) checkFetch(*string, int32) error { return nil }

func (c *classicGroup) checkDelete() error {
	if c.phase != phaseEmpty {
		return kafka.NonEmptyGroup
	}
	return nil
}

func (c *classicGroup) tombstones() []coordinator.Record {
	return []coordinator.Record{groupMetadataTombstone(c.id)}
}

// subscribed holds for every topic when members are consumers whose subscriptions are not known (yet).
func (c *classicGroup) subscribed(topic string) bool {
	if c.topics == nil {
		return c.typeName == consumerProtocol && c.phase != phaseEmpty
	}
	_, ok := c.topics[topic]
	return ok
}

// expires follows KIP-211, and KAFKA-13636: during a rebalance nothing expires.
func (c *classicGroup) expires() expiry {
	switch {
	case c.typeName == "":
		return expiry{mode: expireByCommit} // only ever had offsets
	case c.phase == phaseEmpty && c.sinceMs >= 0:
		return expiry{mode: expireSince, since: time.UnixMilli(c.sinceMs)}
	case c.phase == phaseEmpty:
		return expiry{mode: expireByCommit}
	case c.phase == phaseStable && c.typeName == consumerProtocol && c.topics != nil:
		return expiry{mode: expireByCommit}
	}
	return expiry{mode: expireNever}
}
