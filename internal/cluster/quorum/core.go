package quorum

import (
	"math/rand/v2"
	"time"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// LogView is what the core asks about the local log. Answers are immediate and current: the pump has carried
// out every earlier action.
type LogView interface {
	Start() kafka.Offset
	End() kafka.Offset
	// Durable is the end of what the local disk holds for certain.
	Durable() kafka.Offset
	// LastEpoch is the epoch of the last batch, of the snapshot that the empty log stands on, or 0.
	LastEpoch() kafka.LeaderEpoch
	// EndOffsetFor gives the largest known epoch that is not above the asked one and the offset where it
	// ends. An epoch above all gives the log's end and last epoch.
	EndOffsetFor(kafka.LeaderEpoch) OffsetAndEpoch
	// Snapshots lists the complete snapshots in ascending order, without the 0-0 checkpoint.
	Snapshots() []OffsetAndEpoch
}

// Event is what happens to a replica: Started, Ticked, Arrived, Lost, Appended, AppendFailed, Truncated,
// Flushed, SnapshotLoaded, SnapshotDropped, ResignAsked or ShutdownAsked.
type Event interface{ isEvent() }

// Started is the first event, given once, after Load.
type Started struct{ Election ElectionState }

// Ticked says that time has passed; it may come at any time, and should come at the core's deadline.
type Ticked struct{}

// Arrived brings a request from a peer, or the answer to a request of ours.
type Arrived struct{ Message Message }

// Lost says that a request of ours will not be answered. Refused adds that nothing listens at the peer's address: its
// process is gone.
type Lost struct {
	Request uint64
	Refused bool
}

// Appended says that the log has grown, by an Append action or by a proposal of the controller. Controls are
// the control records among what was appended.
type Appended struct{ Controls []ControlRecord }

// AppendFailed says that an Append action could not be carried out for want of space; nothing was appended.
type AppendFailed struct{}

// Truncated says that a Truncate action was carried out.
type Truncated struct{}

// Flushed says that the log's durable end has moved.
type Flushed struct{}

// SnapshotLoaded says that a downloaded snapshot has replaced the log. Controls are its voters and
// kraft.version.
type SnapshotLoaded struct {
	Snapshot OffsetAndEpoch
	Controls []ControlRecord
}

// SnapshotDropped says that a downloaded snapshot is of no use.
type SnapshotDropped struct{ Snapshot OffsetAndEpoch }

// ResignAsked makes a leader step down: its controller failed.
type ResignAsked struct{}

// ShutdownAsked makes the replica hand over and fall silent.
type ShutdownAsked struct{}

func (Started) isEvent()         {}
func (Ticked) isEvent()          {}
func (Arrived) isEvent()         {}
func (Lost) isEvent()            {}
func (Appended) isEvent()        {}
func (AppendFailed) isEvent()    {}
func (Truncated) isEvent()       {}
func (Flushed) isEvent()         {}
func (SnapshotLoaded) isEvent()  {}
func (SnapshotDropped) isEvent() {}
func (ResignAsked) isEvent()     {}
func (ShutdownAsked) isEvent()   {}

// Actions are what a step asks for, to be carried out in the order of the fields.
type Actions struct {
	// Persist must be durable before anything below happens.
	Persist *ElectionState
	// Truncate, when not nil, cuts the log: the leader's parts from it there.
	Truncate *kafka.Offset
	// Control is a control batch that the leader appends at the log's end, in Epoch.
	Control []ControlBody
	// Fetched are batches from the leader to append as they are. The pump checks them first.
	Fetched []byte
	// Piece is a piece of a snapshot to keep.
	Piece *SnapshotPiece
	// Epoch is the epoch of Control and of Fetched.
	Epoch kafka.LeaderEpoch
	// Send leaves at once; SendSynced when everything the log holds now is durable.
	Send       []Message
	SendSynced []Message
	// Fatal, when not nil, is a state of affairs that a replica must not live on with: the node stops.
	Fatal error
}

// SnapshotPiece are bytes of a snapshot that is being downloaded.
type SnapshotPiece struct {
	Snapshot OffsetAndEpoch
	Position int64
	Size     int64 // of the whole file; the piece that reaches it completes the snapshot
	Bytes    []byte
}

// Core is one replica's state of the KRaft protocol. It is deterministic: the same events at the same times
// with the same random source give the same actions.
type Core struct {
	config Config
	log    LogView
	rnd    *rand.Rand
	voters *VoterHistory

	role  Role
	epoch kafka.LeaderEpoch
	// leader of the epoch as far as known, with its endpoints (empty while only the id is known).
	leader          kafka.NodeID
	leaderEndpoints []Endpoint
	// voted is whom this replica gave its vote of the epoch.
	voted ReplicaKey
	// heard is the last epoch whose leader gave this replica a good answer.
	heard kafka.LeaderEpoch
	// highWatermark is NoOffset until known.
	highWatermark kafka.Offset
	// electionAt ends the election timer of Unattached, Prospective, Candidate and Resigned.
	electionAt time.Time
	ballot     *ballot    // Prospective and Candidate
	leading    *leading   // Leader
	following  *following // Follower
	resigning  *resigning // Resigned

	links       links
	nextRequest uint64
	parked      []parkedFetch // of a leader; answered with an error when it leads no more
	change      *voterChange  // of a leader, one at a time
	late        *late         // of a replica that may not vote yet
	shutdown    bool          // the replica stops: it hands over and refuses to serve
	persisted   election
	wake        time.Time // earliest time at which a tick matters
	out         Actions
}

// NewCore makes a replica that has not started.
func NewCore(c Config, log LogView, voters *VoterHistory, rnd *rand.Rand) *Core {
	core := &Core{config: c.withDefaults(), log: log, rnd: rnd, voters: voters,
		leader: kafka.NoNode, voted: NoReplica, highWatermark: kafka.NoOffset}
	if c.Late {
		core.late = &late{end: kafka.NoOffset}
	}
	return core
}

// Step takes one event and gives what is to be done about it.
func (c *Core) Step(now time.Time, e Event) Actions {
	c.out = Actions{}
	switch e := e.(type) {
	case Started:
		c.start(now, e.Election)
	case Arrived:
		c.arrived(now, e.Message)
	case Lost:
		c.lost(now, e)
	case Appended:
		c.appended(now, e.Controls)
	case AppendFailed:
		c.appendFailed(now)
	case Truncated:
		c.truncated()
	case Flushed:
		if c.role == Leader {
			c.raiseHighWatermark(now)
		}
	case SnapshotLoaded:
		c.snapshotLoaded(now, e)
	case SnapshotDropped:
		c.snapshotDropped(now, e.Snapshot)
	case ResignAsked:
		c.resign(now)
	case ShutdownAsked:
		c.shutdown = true
		c.resign(now)
	}
	c.poll(now)
	c.failParked()
	c.failChange()
	if s := c.election(); s.election() != c.persisted {
		c.out.Persist = &s
		c.persisted = s.election()
	}
	c.out.Epoch = c.epoch
	return c.out
}

// Deadline is when the next Ticked is due; the zero time: only an event can change anything.
func (c *Core) Deadline() time.Time { return c.wake }

// election is what must be on disk now. Prospective and Resigned are not states of the disk: the first keeps
// the vote and leader it found, the second is the leader that it was.
func (c *Core) election() ElectionState {
	s := ElectionState{Epoch: c.epoch, Leader: c.leader, Voted: c.voted, Voters: c.voters.Latest().ids(),
		KRaftVersion: c.voters.KRaftVersion()}
	if s.KRaftVersion == 0 {
		s.Voted.Directory = kafka.UUID{}
	}
	return s
}

// standsForElection says whether this replica may lead: a voter, or one whose removal is not known to be
// committed. The latter may be the only one that has the record of its removal and everything before it: then
// nobody else can be elected, and it has to lead once more, outside of the majority, until the record is
// committed.
func (c *Core) standsForElection() bool {
	removed := c.voters.LatestOffset() >= c.highWatermark && c.voters.previous().Contains(c.config.Self)
	return c.mayVote() && (removed || c.voters.Latest().Contains(c.config.Self))
}

// others are the voters without this node.
func (c *Core) others() VoterSet { return c.voters.Latest().Without(c.config.Self.ID) }

// position is the end of the local log as votes compare it.
func (c *Core) position() OffsetAndEpoch {
	return OffsetAndEpoch{Offset: c.log.End(), Epoch: c.log.LastEpoch()}
}

// start takes up where the last run ended.
func (c *Core) start(now time.Time, s ElectionState) {
	c.persisted = s.election()
	if c.late != nil {
		c.late.since = now
	}
	c.epoch, c.leader, c.voted = s.Epoch, s.Leader, s.Voted
	last := c.log.LastEpoch()
	switch {
	case s.Epoch < last:
		// The log knows a later epoch than the file: the vote in it, if any, is not known.
		c.toUnattached(now, last, kafka.NoNode)
	case s.Leader == c.config.Self.ID:
		// What this node led and did not write to disk is lost: it must not lead the same epoch again.
		c.toResigned(now)
	case s.Voted.ID == c.config.Self.ID && s.Voted.matches(c.config.Self):
		c.toCandidate(now, s.Epoch)
	case s.Leader != kafka.NoNode && c.endpointsOf(s.Leader) != nil:
		c.toFollower(now, s.Epoch, s.Leader, c.endpointsOf(s.Leader))
	default:
		c.toUnattached(now, s.Epoch, s.Leader)
		if set := c.voters.Latest(); c.config.FirstAtOnce && s.Epoch == 0 && c.log.End() == 0 && len(set) > 0 &&
			set[0].Key.matches(c.config.Self) {
			c.electionAt = now
		}
	}
	if c.config.CanVote && c.voters.Latest().IsOnly(c.config.Self) && c.role != Leader {
		c.toProspective(now)
	}
}

func (c *Core) endpointsOf(id kafka.NodeID) []Endpoint {
	v, _ := c.voters.Latest().Find(id)
	if _, ok := endpoint(c.config.listener(), v.Endpoints); !ok {
		return nil
	}
	return v.Endpoints
}

// appended takes note of a longer log: control records count from now on, and parked fetches can be answered.
func (c *Core) appended(now time.Time, controls []ControlRecord) {
	c.voters.apply(controls)
	switch c.role {
	case Leader:
		c.raiseHighWatermark(now)
		c.answerParked(now)
	case Follower:
		c.caughtUpWith()
	}
}

// setHighWatermark raises it; it never falls within a run.
func (c *Core) setHighWatermark(o kafka.Offset) bool {
	if o <= c.highWatermark {
		return false
	}
	invariant.Check(o <= c.log.End(), "high watermark %d above the log's end %d", o, c.log.End())
	c.highWatermark = o
	return true
}

// wakeAt remembers the earliest time at which something is due.
func (c *Core) wakeAt(t time.Time) {
	if c.wake.IsZero() || t.Before(c.wake) {
		c.wake = t
	}
}

// electionTimer draws the time to stand for election: uniform in [timeout, 2 timeouts).
func (c *Core) electionTimer(now time.Time) time.Time {
	t := c.config.ElectionTimeout
	return now.Add(t + time.Duration(c.rnd.Int64N(int64(t))))
}

// soon is when a voter that has given its leader up goes on: asks again, if the others still heard the leader or the only
// one that answers is behind, or gives the leader another chance. Asking disturbs nobody, and waiting for a whole timer
// each time would add up while a leader hangs.
func (c *Core) soon(now time.Time) time.Time {
	t := max(c.config.FetchTimeout/8, 1)
	return now.Add(t + time.Duration(c.rnd.Int64N(int64(t))))
}
