package group

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Options are what a Machine depends on.
type Options struct {
	// Settings are the broker's settings, read anew for every event.
	Settings func() Settings
	// Consumer are the settings of one consumer group (GROUP resources), resolved in an image.
	Consumer func(image *metadata.Image, group string) ConsumerSettings
	// Memory bounds what members take; nil: nothing does.
	Memory *Memory
}

// Settings are the broker-wide settings of groups, named after their keys.
type Settings struct {
	MinSession, MaxSession time.Duration // group.min/max.session.timeout.ms
	InitialRebalanceDelay  time.Duration // group.initial.rebalance.delay.ms
	MaxSize                int           // group.max.size
	ConsumerMaxSize        int           // group.consumer.max.size
	OffsetMetadataMaxBytes int           // offset.metadata.max.bytes
	OffsetsRetention       time.Duration // offsets.retention.minutes
	OffsetsCheckInterval   time.Duration // offsets.retention.check.interval.ms
	Assignors              []string      // group.consumer.assignors; the first is the default
	Upgrade, Downgrade     bool          // what group.consumer.migration.policy allows
	ConsumerProtocol       bool          // group.coordinator.rebalance.protocols holds consumer and group.version is 1
	RegexRefresh           time.Duration // group.consumer.regex.refresh.interval.ms
}

// ConsumerSettings are the settings of one consumer group.
type ConsumerSettings struct {
	Session, Heartbeat, AssignmentInterval time.Duration
	Unsettled                              time.Duration // moldau.group.consumer.unsettled.heartbeat.interval.ms; 0: no such
}

// Machine is one shard's groups.
type Machine struct {
	o      Options
	image  *metadata.Image
	groups map[string]*group
	// open holds, by producer, the groups to which an open transaction would commit offsets.
	open  map[kafka.ProducerID][]*group
	last  kafka.Offset // of the newest record applied
	sweep sweep
	// charged is what of Options.Memory is this machine's.
	charged taken
	// newTopics is the offset of the newest metadata that brought a topic.
	newTopics int64
	hashes    map[kafka.UUID]topicHash // of topics that consumer groups subscribe to
}

// New makes an empty machine. image is the metadata of the moment.
func New(o Options, image *metadata.Image) *Machine {
	return &Machine{
		o: o, image: image, groups: map[string]*group{}, open: map[kafka.ProducerID][]*group{}, last: kafka.NoOffset,
	}
}

var _ coordinator.Machine = (*Machine)(nil)

// The record types of __consumer_offsets: the first two bytes of a key.
const (
	keyOffsetCommitV0    = 0
	keyOffsetCommit      = 1
	keyGroupMetadata     = 2
	keyConsumerGroup     = 3
	keyConsumerPartition = 4 // deprecated, tombstones only
	keyConsumerMember    = 5
	keyTargetMetadata    = 6
	keyTargetMember      = 7
	keyCurrentMember     = 8
	keyConsumerRegex     = 16
)

// Apply takes one record over.
func (m *Machine) Apply(r coordinator.Record, at coordinator.Origin) error {
	m.last = at.Offset
	if len(r.Key) < 2 {
		return kafka.Errorf(kafka.CorruptMessage, "a key of %d bytes", len(r.Key))
	}
	switch t := binary.BigEndian.Uint16(r.Key); t {
	case keyOffsetCommitV0, keyOffsetCommit:
		return m.applyOffset(r, at)
	case keyGroupMetadata:
		return m.applyClassic(r, at)
	case keyConsumerGroup, keyConsumerPartition, keyConsumerMember, keyTargetMetadata, keyTargetMember, keyCurrentMember,
		keyConsumerRegex:
		return m.applyConsumer(int(t), r, at)
	default: // of share and streams groups, or newer than this program: kept in the log, not understood
		return nil
	}
}

// Kinds of timers.
const (
	timerJoin          uint8 = iota + 1 // classic: the join phase ends
	timerSync                           // classic: members that have not synced are expelled
	timerMember                         // classic: a member's session
	timerPendingMember                  // classic: a member id that was handed out and not used
	timerSession                        // consumer: a member's session
	timerRevocation                     // consumer: a member must have given up partitions
	timerRejoin                         // consumer: a classic member must have joined again
	timerResync                         // consumer: a classic member must have synced
	timerExpiry                         // all: offsets and groups expire
)

// Handle decides on one event.
func (m *Machine) Handle(now time.Time, e coordinator.Event, rnd *rand.Rand) coordinator.Result {
	return m.settled(timersFirst(m.handle(now, e, rnd)))
}

// timersFirst sets a result's timers before its records are tried. They follow soft state, sessions and phases, which has
// changed by then and does not change back when the records cannot be appended.
func timersFirst(r coordinator.Result) coordinator.Result {
	if then := r.Then; then != nil {
		r.Then = func(now time.Time, err error) coordinator.Result { return timersFirst(then(now, err)) }
	}
	if len(r.Records) == 0 || len(r.Timers) == 0 {
		return r
	}
	timers := r.Timers
	r.Timers = nil
	return coordinator.Result{Scope: r.Scope, Timers: timers, Then: func(time.Time, error) coordinator.Result { return r }}
}

func (m *Machine) handle(now time.Time, e coordinator.Event, rnd *rand.Rand) coordinator.Result {
	switch e := e.(type) {
	case *coordinator.Pending:
		return m.request(now, e, rnd)
	case coordinator.TimerFired:
		return m.fired(now, e.Key, rnd)
	case coordinator.Loaded:
		m.image = e.Image
		m.newTopics = int64(e.Image.Offset()) // what came before is not known
		return m.loaded(now)
	case groupLoaded:
		return m.groupLoaded(now, e)
	case coordinator.ImageChanged:
		m.image = e.Image
		return m.imageChanged(now, e)
	case regexDue:
		return m.consumerRegexDue(e)
	case patternsEvaluated:
		return m.consumerRegexEvaluated(now, e)
	}
	return coordinator.Result{}
}

// groupLoaded has one group set up its timers and soft state after a load.
type groupLoaded struct{ id string }

// loaded sets up what the log does not hold. Groups get an event each, as they may have something to write.
func (m *Machine) loaded(now time.Time) coordinator.Result {
	r := coordinator.Result{Timers: []coordinator.Timer{m.nextSweep(now), m.sweepSoon(now)}}
	for _, id := range m.ids() {
		r.Next = append(r.Next, groupLoaded{id})
	}
	return r
}

func (m *Machine) groupLoaded(now time.Time, e groupLoaded) coordinator.Result {
	g := m.groups[e.id]
	if g == nil {
		return coordinator.Result{}
	}
	if m.consumerGroup(e.id) != nil {
		return coordinator.Result{Scope: e.id, Timers: m.consumerLoaded(now, g)}
	}
	return m.classicLoaded(now, g)
}

// imageChanged lets consumer groups see new topics and partitions, and drops the offsets of topics that went.
func (m *Machine) imageChanged(now time.Time, e coordinator.ImageChanged) coordinator.Result {
	m.consumerImageChanged(now, e)
	gone := false
	for c := range e.Diff.Topics() {
		if c.Removed() {
			gone = true
			m.removed(c.Old.Name)
		}
	}
	if !gone {
		return coordinator.Result{}
	}
	return coordinator.Result{Timers: []coordinator.Timer{m.sweepSoon(now)}}
}

func (m *Machine) request(now time.Time, p *coordinator.Pending, rnd *rand.Rand) coordinator.Result {
	switch r := p.Body.(type) {
	case *kmsg.JoinGroupRequest:
		if g := m.consumerGroup(r.Group); g != nil {
			return m.consumerClassicJoin(now, p, r, g, rnd)
		}
		return m.classicJoin(now, p, r, rnd)
	case *kmsg.SyncGroupRequest:
		if g := m.consumerGroup(r.Group); g != nil {
			return m.consumerClassicSync(now, p, r, g)
		}
		return m.classicSync(now, p, r)
	case *kmsg.HeartbeatRequest:
		if g := m.consumerGroup(r.Group); g != nil {
			return m.consumerClassicHeartbeat(now, p, r, g)
		}
		return m.classicHeartbeat(now, p, r)
	case *kmsg.LeaveGroupRequest:
		if g := m.consumerGroup(r.Group); g != nil {
			return m.consumerClassicLeave(now, p, r, g)
		}
		return m.classicLeave(now, p, r)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return m.consumerHeartbeat(now, p, r, rnd)
	case *kmsg.ConsumerGroupDescribeRequest:
		return m.consumerDescribe(p, r)
	case *kmsg.DescribeGroupsRequest:
		return m.classicDescribe(p, r)
	case *kmsg.OffsetCommitRequest:
		return m.offsetCommit(now, p, r)
	case *kmsg.TxnOffsetCommitRequest:
		return m.txnOffsetCommit(now, p, r)
	case *kmsg.OffsetFetchRequest:
		return m.offsetFetch(p, r)
	case *kmsg.OffsetDeleteRequest:
		return m.offsetDelete(p, r)
	case *kmsg.ListGroupsRequest:
		return m.listGroups(p, r)
	case *kmsg.DeleteGroupsRequest:
		return m.deleteGroup(p, r)
	}
	return coordinator.Result{Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Err: kafka.UnsupportedVersion}}}}
}

func (m *Machine) fired(now time.Time, k coordinator.TimerKey, rnd *rand.Rand) coordinator.Result {
	switch k.Kind {
	case timerJoin, timerSync, timerMember, timerPendingMember:
		return m.classicTimer(now, k, rnd)
	case timerSession, timerRevocation, timerRejoin, timerResync:
		return m.consumerTimer(now, k)
	case timerExpiry:
		return m.expire(now, k)
	}
	return coordinator.Result{}
}
