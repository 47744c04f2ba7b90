package quorum

import (
	"time"

	"moldau/internal/kafka"
)

// State is what a replica may tell about itself: everything in it is durable where it has to be.
type State struct {
	Role            Role
	Epoch           kafka.LeaderEpoch
	Leader          kafka.NodeID
	LeaderEndpoints []Endpoint
	Voters          VoterSet
	KRaftVersion    int16
	// HighWatermark is the end of what is committed, NoOffset while not known.
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	LogEnd        kafka.Offset
	Durable       kafka.Offset
	// LeaderHighWatermark is, on a follower, the highest that its leader told; NoOffset before its first answer.
	LeaderHighWatermark kafka.Offset
	// EpochStart is, on a leader, the offset of the batch that opened its epoch.
	EpochStart kafka.Offset
	// Late says that the replica does not vote yet, see Config.Late.
	Late bool
}

// State gives the state as of the last step.
func (p *Pump) State() State {
	s := p.published
	s.LogStart, s.LogEnd, s.Durable = p.store.Start(), p.store.End(), p.store.log.Durable()
	return s
}

// InOffice gives the epoch in which this replica's controller may act: it leads, and Next has delivered
// everything that earlier leaders left, up to and including the batch that opened the epoch.
func (p *Pump) InOffice() (kafka.LeaderEpoch, bool) {
	s := p.published
	ok := p.err == nil && p.held == nil && s.Role == Leader && p.reader.at.Offset > s.EpochStart
	return s.Epoch, ok
}

func (p *Pump) state() State {
	c := p.core
	s := State{Role: c.role, Epoch: c.epoch, Leader: c.leader, LeaderEndpoints: c.leaderEndpoints,
		Voters: c.voters.Latest(), KRaftVersion: c.voters.KRaftVersion(), HighWatermark: c.highWatermark,
		LogStart: p.store.Start(), LogEnd: p.store.End(), Durable: p.store.log.Durable(), EpochStart: kafka.NoOffset,
		LeaderHighWatermark: kafka.NoOffset, Late: c.late != nil}
	switch c.role {
	case Leader:
		s.EpochStart = c.leading.epochStart
	case Follower:
		s.LeaderHighWatermark = c.following.leaderHighWatermark
	}
	return s
}

// Description is what DescribeQuorum (KIP-595, 836, 853) tells. Only a leader can give it.
type Description struct {
	Leader        kafka.NodeID
	Epoch         kafka.LeaderEpoch
	HighWatermark kafka.Offset
	Voters        []ReplicaDescription
	Observers     []ReplicaDescription
	// Nodes are the voters with their endpoints.
	Nodes []Voter
}

// ReplicaDescription is how far one replica is. Times are in milliseconds, -1: never.
type ReplicaDescription struct {
	Key            ReplicaKey
	LogEnd         kafka.Offset // NoOffset: not known
	LastFetchMs    int64
	LastCaughtUpMs int64
}

// Describe describes the quorum; NotLeaderOrFollower when this replica does not lead.
func (p *Pump) Describe(now time.Time) (Description, error) {
	if p.err != nil || p.held != nil || p.published.Role != Leader {
		return Description{}, kafka.NotLeaderOrFollower
	}
	c, s := p.core, p.published
	d := Description{Leader: s.Leader, Epoch: s.Epoch, HighWatermark: s.HighWatermark, Nodes: s.Voters}
	for _, v := range s.Voters {
		d.Voters = append(d.Voters, c.describe(now, v.Key))
	}
	for _, r := range c.leading.replicas {
		if !s.Voters.Contains(r.key) {
			d.Observers = append(d.Observers, c.describe(now, r.key))
		}
	}
	return d, nil
}

func (c *Core) describe(now time.Time, key ReplicaKey) ReplicaDescription {
	if key.matches(c.config.Self) {
		ms := now.UnixMilli()
		return ReplicaDescription{Key: key, LogEnd: c.log.End(), LastFetchMs: ms, LastCaughtUpMs: ms}
	}
	out := ReplicaDescription{Key: key, LogEnd: kafka.NoOffset, LastFetchMs: -1, LastCaughtUpMs: -1}
	for _, r := range c.leading.replicas {
		if r.key != key {
			continue
		}
		out.LogEnd, out.LastFetchMs = r.end, r.fetchedAt.UnixMilli()
		if !r.caughtUpAt.IsZero() {
			out.LastCaughtUpMs = r.caughtUpAt.UnixMilli()
		}
	}
	return out
}
