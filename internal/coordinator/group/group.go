package group

import (
	"slices"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// group is one group: its members, by the rules of its kind, and its offsets, which outlive a change of kind.
type group struct {
	id      string
	kind    kind
	offsets offsets
	pending map[kafka.ProducerID]*offsets // of open transactions; nil when there never were any
	history []Rebalance                   // the last ones, oldest first
	charged taken                         // of Options.Memory
}

// What ListGroups shows of kinds.
const (
	typeClassic      = "classic"
	typeConsumer     = "consumer"
	consumerProtocol = "consumer" // the protocol type of consumers in either kind
)

// create adds a group that has nothing yet: an empty classic one, as Kafka makes them.
func (m *Machine) create(id string) *group {
	g := &group{id: id, kind: newClassicGroup(id)}
	m.groups[id] = g
	return g
}

// vacate takes the kind of a group away, because its tombstone was applied: what is left is a group that only has
// offsets, or none.
func (m *Machine) vacate(g *group) {
	if g.offsets.empty() && !g.open() {
		m.charge(g, taken{})
		delete(m.groups, g.id)
		return
	}
	g.kind = newClassicGroup(g.id)
}

// kind is what distinguishes groups of the classic protocol (*classicGroup) and of the consumer protocol
// (*consumerGroup). A group that only ever had offsets is an empty classic one.
type kind interface {
	// groupType is typeClassic or typeConsumer; protocolType what ListGroups shows; state the present state's name;
	// generation the generation or group epoch.
	groupType() string
	protocolType() string
	state() string
	generation() int32
	members() int
	// checkCommit says whether a member may commit offsets; the returned function, if any, judges each partition
	// (KIP-1251). It may refresh the member's session by timers.
	checkCommit(now time.Time, c commitCheck) (func(topic kafka.UUID, partition int32) error, []coordinator.Timer, error)
	// checkFetch says whether offsets may be fetched in the name of a member (nil: nobody's) at an epoch.
	checkFetch(member *string, epoch int32) error
	// checkDelete says whether the group may be deleted: NON_EMPTY_GROUP while it has members.
	checkDelete() error
	// subscribed says whether a member is, or may be, subscribed to a topic: its offsets then neither expire nor are
	// deleted by OffsetDelete.
	subscribed(topic string) bool
	// expires tells how the offsets of a group expire: not at all (members present and their subscriptions unknown),
	// by the time the group became empty, or by each commit's own time.
	expires() expiry
	// tombstones lists the records that delete everything but the offsets.
	tombstones() []coordinator.Record
	// waits describes each member and what it waits for, sorted by member id.
	waits(now time.Time) []MemberWait
}

// commitCheck is who commits.
type commitCheck struct {
	member   string
	instance *string
	epoch    int32 // generation or member epoch; negative: outside of a group
	version  int16
	txn      bool // TxnOffsetCommit
}

// expiry is how offsets of a group expire. since is when the group became empty, for expireSince.
type expiry struct {
	mode  expiryMode
	since time.Time
}

type expiryMode uint8

const (
	expireNever    expiryMode = iota
	expireSince               // all at once, offsets.retention after since
	expireByCommit            // each by its commit time, unless a member subscribes to the topic
)

// Rebalance is one entry of a group's history.
type Rebalance struct {
	At         time.Time
	Generation int32  // generation or group epoch that it led to
	Member     string // who caused it; "" when nobody in particular
	Reason     string
}

// MemberWait is one member for Explain.
type MemberWait struct {
	Member, Instance, ClientID, ClientHost string
	Protocol                               string // "classic" or "consumer"
	Epoch                                  int32
	Assigned                               map[string][]int32 // topic name to partitions
	Waits                                  string             // what the member, or the group for it, waits for; "" when nothing
}

// Explanation is why a group is as it is.
type Explanation struct {
	Group, Type, State string
	Generation         int32
	Members            []MemberWait
	History            []Rebalance
}

// maxHistory bounds the rebalances remembered of a group.
const maxHistory = 20

// note remembers a rebalance.
func (g *group) note(r Rebalance) {
	r.Reason = clip(r.Reason)
	if len(g.history) >= maxHistory {
		g.history = slices.Delete(g.history, 0, 1)
	}
	g.history = append(g.history, r)
}

// failed is the result of a request that is refused.
func failed(p *coordinator.Pending, scope string, err error) coordinator.Result {
	return coordinator.Result{Scope: scope, Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Err: err}}}}
}
