package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// Role is what this node does for a partition.
type Role int8

// The roles. Offline is a replica whose log directory failed or is missing; Gone one that is no longer this node's.
const (
	Idle Role = iota // known, but neither leading nor following yet
	Leader
	Follower
	Offline
	Gone
)

// String names the role.
func (r Role) String() string {
	return [...]string{"idle", "leader", "follower", "offline", "gone"}[r]
}

// Partition is one replica of one partition on this node. Its methods are safe for concurrent use.
type Partition struct {
	tp      kafka.TopicPartition
	topicID kafka.UUID
	self    kafka.NodeID
	limits  *Limits

	published atomic.Pointer[state]
	watchers  watchers
	reads     suspicion

	mu             sync.Mutex
	log            *log.Log // nil when offline without ever having been opened
	role           Role
	leader         kafka.NodeID
	leaderEpoch    kafka.LeaderEpoch
	partitionEpoch kafka.PartitionEpoch
	epochStart     kafka.Offset // log end when this node became leader
	replicas       []kafka.NodeID
	directories    []kafka.UUID   // of the replicas, as the image says
	isr            []kafka.NodeID // as the image says
	proposed       []kafka.NodeID // ISR proposed and not decided; nil: nothing is in flight
	highWatermark  kafka.Offset
	remotes        map[kafka.NodeID]*progress // leader only, without self
	byDisk         waitQueue                  // acks=1: wait for this node's disk
	byReplicas     waitQueue                  // acks=all: wait for the high watermark
	flushFrom      time.Time                  // when the oldest unflushed record was appended, for flush.ms
	producers      int                        // this partition's share of Limits.Producers
	unverified     map[kafka.ProducerID][]*verification
	guards         uint64       // verifications so far, and times one became worthless
	rotten         kafka.Offset // of the first damaged batch that is known, NoOffset for none
	lost           bool         // recovery found less than was durable: not to be counted on before the leader's end is reached
	behind         atomic.Int64
	move           atomic.Pointer[Move] // into another log directory; nil: none is under way
	flushesHeld    bool                 // a move is about to end: nothing is synced, and so acknowledged, for a moment
	flushAsked     bool                 // meanwhile
}

// state is what readers see: immutable, replaced as a whole.
type state struct {
	role           Role
	leader         kafka.NodeID
	leaderEpoch    kafka.LeaderEpoch
	epochStart     kafka.Offset
	highWatermark  kafka.Offset
	lastStable     kafka.Offset
	view           *log.View // nil when offline
	underMinISR    bool
	atMinISR       bool
	isr            []kafka.NodeID
	partitionEpoch kafka.PartitionEpoch
	remotes        map[kafka.NodeID]*progress // of a leader; the map is never changed
}

// Limits are the broker-wide bounds partitions share. The zero value limits nothing.
type Limits struct {
	// Producers is the number of producer ids that all partitions remember together, kept up to date with every change;
	// nil: nobody counts.
	Producers *atomic.Int64
	// RefuseNewProducers says that the broker's limit on producer ids is reached (moldau.producer.ids.max); nil: never.
	RefuseNewProducers func() bool
	// ReadFailed is told that the disk of a directory could not be read (EIO), with no lock held; nil: nobody is.
	ReadFailed func(d *log.Dir, err error)
	// ReplicaLag is replica.lag.time.max.ms: how long a follower outside of the in-sync set counts as about to join it.
	ReplicaLag time.Duration

	// eligible says of a broker whether the newest image lets it into an in-sync set, and its epoch; nil: nobody knows.
	eligible func(kafka.NodeID) (kafka.BrokerEpoch, bool)
}

// Info describes a replica for listings and metrics.
type Info struct {
	Partition      kafka.TopicPartition
	TopicID        kafka.UUID
	Role           Role
	Leader         kafka.NodeID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	Replicas, ISR  []kafka.NodeID
	Start, End     kafka.Offset
	Durable        kafka.Offset
	HighWatermark  kafka.Offset
	LastStable     kafka.Offset
	SizeBytes      int64
	UnderMinISR    bool
	AtMinISR       bool
}

// newPartition makes a replica over l, which may be nil for one that is offline. highWatermark is the checkpointed one.
func newPartition(self kafka.NodeID, tp kafka.TopicPartition, id kafka.UUID, l *log.Log, highWatermark kafka.Offset,
	limits *Limits) *Partition {
	p := &Partition{tp: tp, topicID: id, self: self, log: l, limits: limits, leader: kafka.NoNode,
		leaderEpoch: kafka.NoEpoch, partitionEpoch: -1, rotten: kafka.NoOffset}
	if l == nil {
		p.role = Offline
	} else {
		v := l.View()
		p.highWatermark = min(max(highWatermark, v.Start), v.End)
	}
	p.publish()
	return p
}

// TopicPartition names the partition.
func (p *Partition) TopicPartition() kafka.TopicPartition { return p.tp }

// TopicID is the topic's id.
func (p *Partition) TopicID() kafka.UUID { return p.topicID }

// Log is the replica's log; nil when it is offline and was never opened.
func (p *Partition) Log() *log.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log
}

// Config is the log's configuration, or nil without a log. Lock-free.
func (p *Partition) Config() *log.Config {
	if s := p.published.Load(); s.view != nil {
		return s.view.Log().Config()
	}
	return nil
}

// Role is the present role. Lock-free.
func (p *Partition) Role() Role { return p.published.Load().role }

// Leadership gives leader and leader epoch as this node last heard. Lock-free.
func (p *Partition) Leadership() (kafka.NodeID, kafka.LeaderEpoch) {
	s := p.published.Load()
	return s.leader, s.leaderEpoch
}

// HighWatermark is the end of what consumers may read. Lock-free.
func (p *Partition) HighWatermark() kafka.Offset { return p.published.Load().highWatermark }

// InSync says whether a broker is in the in-sync set as far as this node heard. Lock-free.
func (p *Partition) InSync(id kafka.NodeID) bool { return slices.Contains(p.published.Load().isr, id) }

// Info describes the replica.
func (p *Partition) Info() Info {
	p.mu.Lock()
	replicas, isr := slices.Clone(p.replicas), slices.Clone(p.isr)
	s := p.published.Load()
	p.mu.Unlock()
	out := Info{Partition: p.tp, TopicID: p.topicID, Role: s.role, Leader: s.leader, LeaderEpoch: s.leaderEpoch,
		PartitionEpoch: s.partitionEpoch, Replicas: replicas, ISR: isr, HighWatermark: s.highWatermark,
		LastStable: s.lastStable, UnderMinISR: s.underMinISR, AtMinISR: s.atMinISR}
	if s.view != nil {
		out.Start, out.End, out.Durable, out.SizeBytes = s.view.Start, s.view.End, s.view.Durable, s.view.Size()
	}
	return out
}

// Producers describes the producer ids known here (DescribeProducers); NotLeaderOrFollower unless this node leads.
func (p *Partition) Producers() ([]log.ProducerInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustLead(); err != nil {
		return nil, err
	}
	return p.log.Producers(), nil
}

// OpenTransactions describes the producers with an open transaction, the one that began first at the front;
// NotLeaderOrFollower unless this node leads.
func (p *Partition) OpenTransactions() ([]log.ProducerInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustLead(); err != nil {
		return nil, err
	}
	return p.log.OpenTransactions(), nil
}

// mustLead says why this node cannot act as leader. The caller holds p.mu.
func (p *Partition) mustLead() error {
	switch p.role {
	case Leader:
		return nil
	case Offline:
		return kafka.KafkaStorageError
	}
	return kafka.NotLeaderOrFollower
}

// publish makes the present state visible to readers and reports what moved. The caller holds p.mu (or owns p alone).
func (p *Partition) publish() moved {
	old := p.published.Load()
	s := &state{role: p.role, leader: p.leader, leaderEpoch: p.leaderEpoch, epochStart: p.epochStart,
		highWatermark: p.highWatermark, lastStable: p.highWatermark, isr: p.isr, partitionEpoch: p.partitionEpoch, remotes: p.remotes}
	if p.log != nil && p.role != Offline && p.role != Gone {
		s.view = p.log.View()
		if first := p.log.FirstUnstable(p.highWatermark); first != kafka.NoOffset {
			s.lastStable = min(s.lastStable, max(first, s.view.Start))
		}
		s.underMinISR = p.role == Leader && len(p.isr) < p.minISR()
		s.atMinISR = p.role == Leader && len(p.isr) == p.minISR()
	}
	p.countProducers(s.view != nil)
	p.published.Store(s)
	if old == nil {
		return 0
	}
	return old.compare(s)
}

// countProducers brings this partition's share of the node's producer ids up to date. The caller holds p.mu.
func (p *Partition) countProducers(serves bool) {
	n := 0
	if serves {
		n = p.log.ProducerCount()
	}
	if n != p.producers && p.limits.Producers != nil {
		p.limits.Producers.Add(int64(n - p.producers))
	}
	p.producers = n
}

// moved says what changed between two states.
type moved uint8

const (
	movedEnd       moved = 1 << iota // records for replicas
	movedWatermark                   // records for consumers
	movedRole                        // leadership, deletion, failure, log start
	movedDurable                     // what a follower has on its disk
)

func (s *state) compare(next *state) moved {
	var m moved
	if s.role != next.role || s.leaderEpoch != next.leaderEpoch {
		m |= movedRole
	}
	if s.highWatermark != next.highWatermark || s.lastStable != next.lastStable {
		m |= movedWatermark
	}
	if s.view != next.view && s.view != nil && next.view != nil {
		if s.view.End != next.view.End {
			m |= movedEnd
		}
		if s.view.Start != next.view.Start {
			m |= movedRole
		}
		if next.role == Follower && s.view.Durable != next.view.Durable {
			m |= movedDurable
		}
	}
	return m
}

// minISR is the effective min.insync.replicas: a topic with fewer replicas than it asks for is not unwritable.
func (p *Partition) minISR() int {
	return min(int(p.log.Config().MinInsyncReplicas), max(1, len(p.replicas)))
}

// Assignment is what the metadata image says about a replica.
type Assignment struct {
	State *metadata.Partition
	// Eligible says of each other broker whether it may be in the in-sync set (registered, not fenced, not shutting
	// down) and its epoch; nil means none may.
	Eligible func(kafka.NodeID) (kafka.BrokerEpoch, bool)
}

// Assign takes over what the image says: role, epochs, replicas and in-sync set (KIP-631). Older partition epochs are
// ignored. A new leader epoch starts a new term: the epoch is entered at the log end before anything is served.
func (p *Partition) Assign(now time.Time, a Assignment) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := a.State
	if p.role == Offline || p.role == Gone || s.PartitionEpoch < p.partitionEpoch {
		return Effects{}
	}
	newTerm := s.LeaderEpoch != p.leaderEpoch
	if newTerm || s.PartitionEpoch > p.partitionEpoch {
		p.proposed = nil // decided, or overtaken
	}
	p.leader, p.leaderEpoch, p.partitionEpoch = s.Leader, s.LeaderEpoch, s.PartitionEpoch
	p.replicas, p.directories, p.isr = s.Replicas, s.Directories, s.ISR
	e := Effects{p: p}
	switch {
	case s.Leader == p.self:
		p.lead(now, newTerm || p.role != Leader)
	case s.Leader == kafka.NoNode:
		p.stopLeading(&e, Idle)
	default:
		p.stopLeading(&e, Follower)
		if newTerm && flaw.In(flaw.TruncateToHighWatermark) {
			_ = p.cut(&e, p.highWatermark)
		}
		p.cutRot(s, &e)
	}
	p.settle(now, &e)
	return e
}

// lead makes this node the leader, or refreshes an ongoing term.
func (p *Partition) lead(now time.Time, newTerm bool) {
	if newTerm {
		p.log.AssignEpoch(p.leaderEpoch)
		p.epochStart = p.log.View().End
		p.remotes = nil
	}
	p.role = Leader
	p.trackRemotes(now)
}

// stopLeading fails those who wait for a leader that is none any more.
func (p *Partition) stopLeading(e *Effects, next Role) {
	if p.role == Leader {
		e.fail(&p.byDisk, kafka.NotLeaderOrFollower)
		e.fail(&p.byReplicas, kafka.NotLeaderOrFollower)
		p.refuseHeld(e, kafka.NotLeaderOrFollower)
	}
	p.role, p.remotes = next, nil
}

// settle raises the high watermark as far as it goes, completes who waited for it and publishes. The caller holds p.mu.
func (p *Partition) settle(now time.Time, e *Effects) {
	if p.role == Leader {
		p.raiseHighWatermark(now)
		p.complete(e)
	}
	e.p = p
	e.moved |= p.publish()
}

// complete answers the appends that are now safe.
func (p *Partition) complete(e *Effects) {
	ackable := p.ackable()
	for w := p.byDisk.head; w != nil && w.required <= ackable; w = p.byDisk.head {
		p.byDisk.pop()
		e.done(w, nil)
	}
	replicated := p.highWatermark
	if flaw.In(flaw.AckBeforeReplicas) {
		replicated = ackable
	}
	for w := p.byReplicas.head; w != nil && w.required <= replicated; w = p.byReplicas.head {
		p.byReplicas.pop()
		if len(p.isr) < p.minISR() {
			e.done(w, kafka.NotEnoughReplicasAfterAppend)
		} else {
			e.done(w, nil)
		}
	}
}

// ackable is the end up to which this node's own copy counts: what is on the disk, or all of it under
// moldau.flush=async.
func (p *Partition) ackable() kafka.Offset {
	v := p.log.View()
	if p.log.Config().FlushAsync || p.role == Leader && flaw.In(flaw.LeaderUnsynced) {
		return v.End
	}
	return v.Durable
}

// Fail takes the replica offline after its log directory failed: who waits is told KafkaStorageError, and nothing is
// served from now on.
func (p *Partition) Fail() Effects { return p.end(Offline, kafka.KafkaStorageError) }

// Remove ends the replica: it is no longer this node's. Its log is left to the Manager.
func (p *Partition) Remove() Effects { return p.end(Gone, kafka.NotLeaderOrFollower) }

func (p *Partition) end(role Role, cause kafka.Code) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	e.fail(&p.byDisk, cause)
	e.fail(&p.byReplicas, cause)
	p.refuseHeld(&e, cause)
	p.role = role
	e.moved |= p.publish() | movedRole
	return e
}

// Reconfigure replaces the log's configuration. Going back to moldau.flush=ack takes effect with the next flush.
func (p *Partition) Reconfigure(now time.Time, c *log.Config) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.log == nil {
		return e
	}
	wasAsync := p.log.Config().FlushAsync
	p.log.SetConfig(c)
	if wasAsync && !c.FlushAsync {
		e.flush = true
	}
	p.settle(now, &e)
	return e
}
