package quorum

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// This file holds the transitions between roles. Each sets everything that depends on the role; Step persists
// what has to be persisted.

// leaveRole drops what belongs to the role that ends.
func (c *Core) leaveRole() { c.ballot, c.leading, c.following, c.resigning = nil, nil, nil, nil }

// enterEpoch moves to an epoch; a later one voids the vote.
func (c *Core) enterEpoch(epoch kafka.LeaderEpoch) {
	if epoch != c.epoch {
		c.epoch, c.voted = epoch, NoReplica
	}
}

// toUnattached waits for a leader of the epoch. Unless the replica had a leader to follow, what is left of
// its election timer goes on running, so that a stream of higher epochs cannot keep it from ever standing for
// election.
func (c *Core) toUnattached(now time.Time, epoch kafka.LeaderEpoch, leader kafka.NodeID) {
	keep := c.role == Candidate || c.role == Unattached || c.role == Resigned ||
		c.role == Prospective && !c.ballot.rejected(c)
	if !keep || c.electionAt.IsZero() {
		c.electionAt = c.electionTimer(now)
	}
	c.leaveRole()
	c.enterEpoch(epoch)
	c.role, c.leader, c.leaderEndpoints = Unattached, leader, nil
}

// toProspective asks the voters whether they would vote for this replica, without disturbing anybody's epoch
// (KIP-996).
func (c *Core) toProspective(now time.Time) {
	c.leaveRole()
	c.role = Prospective
	c.ballot = &ballot{preVote: true}
	c.ballot.record(c.config.Self.ID, true)
	c.electionAt = c.electionTimer(now)
	if len(c.leaderEndpoints) > 0 {
		c.electionAt = c.soon(now)
	}
	if c.ballot.granted(c) {
		c.toCandidate(now, c.epoch+1)
	}
}

// toCandidate votes for itself in the epoch and asks the others.
func (c *Core) toCandidate(now time.Time, epoch kafka.LeaderEpoch) {
	c.leaveRole()
	c.enterEpoch(epoch)
	c.role, c.leader, c.leaderEndpoints = Candidate, kafka.NoNode, nil
	c.voted = c.config.Self
	c.ballot = &ballot{}
	c.ballot.record(c.config.Self.ID, true)
	c.electionAt = c.electionTimer(now)
	if c.ballot.granted(c) {
		c.toLeader(now)
	}
}

// toLeader opens the epoch with a control batch. The high watermark is unknown until that batch is on a
// majority: what earlier epochs left behind is committed only thereby.
func (c *Core) toLeader(now time.Time) {
	granting := c.ballot.grantedBy()
	c.leaveRole()
	c.role, c.leader, c.leaderEndpoints = Leader, c.config.Self.ID, c.config.Endpoints
	c.voted = NoReplica
	c.highWatermark = kafka.NoOffset
	c.leading = &leading{epochStart: c.log.End(), checkQuorumAt: now.Add(c.checkQuorumTimeout()), beginAt: now}
	c.out.Control = c.epochStartRecords(granting)
}

// epochStartRecords are the records of the batch that opens an epoch. A voter set that is not in the log yet
// (from the 0-0 checkpoint), or that has old words about this node, is written along.
func (c *Core) epochStartRecords(granting []kafka.NodeID) []ControlBody {
	set := c.voters.Latest()
	out := []ControlBody{LeaderChangeRecord{Leader: c.config.Self.ID, Voters: set.ids(), Granting: granting}}
	version := c.voters.KRaftVersion()
	if version == 0 {
		return out
	}
	updated := set
	if own, ok := set.Find(c.config.Self.ID); ok && len(c.config.Endpoints) > 0 {
		updated = set.With(Voter{Key: own.Key, Endpoints: c.config.Endpoints, KRaft: supportedKRaft})
	}
	if c.voters.LatestOffset() == bootstrapOffset || !updated.Equal(set) {
		out = append(out, KRaftVersionRecord{Version: version}, VotersRecord{Voters: updated})
	}
	return out
}

// toFollower follows a leader whose endpoints are known.
func (c *Core) toFollower(now time.Time, epoch kafka.LeaderEpoch, leader kafka.NodeID, at []Endpoint) {
	c.leaveRole()
	c.enterEpoch(epoch)
	c.role, c.leader, c.leaderEndpoints = Follower, leader, slices.Clone(at)
	c.following = &following{fetchBy: now.Add(c.config.FetchTimeout), leaderHighWatermark: kafka.NoOffset,
		announceAt: now.Add(2 * c.config.FetchTimeout)}
}

// toResigned is a leader that leads no more. It stays in its epoch until the others have another leader, or
// until its election timer sends it into the next epoch: it never leads the same epoch twice.
func (c *Core) toResigned(now time.Time) {
	c.resigning = &resigning{candidates: c.successors()}
	r := c.resigning
	c.leaveRole()
	c.resigning = r
	c.role, c.leader, c.leaderEndpoints = Resigned, c.config.Self.ID, c.config.Endpoints
	c.highWatermark = kafka.NoOffset
	c.electionAt = c.electionTimer(now)
}

// resign is toResigned for a leader; others have nothing to give up.
func (c *Core) resign(now time.Time) {
	if c.role == Leader {
		c.toResigned(now)
	}
}

// learn takes in what a message says about epoch and leader. It reports false for a contradiction: a second
// leader of the epoch, or this node named as a leader that it is not.
func (c *Core) learn(now time.Time, leader kafka.NodeID, epoch kafka.LeaderEpoch, at []Endpoint) bool {
	if leader == c.config.Self.ID && (epoch != c.epoch || c.leader != leader) {
		return false
	}
	if epoch == c.epoch && leader != kafka.NoNode && c.leader != kafka.NoNode && c.leader != leader {
		return false
	}
	if len(at) == 0 && leader != kafka.NoNode {
		at = c.endpointsOf(leader)
	}
	_, reachable := endpoint(c.config.listener(), at)
	switch {
	case epoch > c.epoch && leader != kafka.NoNode && reachable:
		c.toFollower(now, epoch, leader, at)
	case epoch > c.epoch:
		c.toUnattached(now, epoch, leader)
	case epoch < c.epoch || leader == kafka.NoNode || leader == c.config.Self.ID:
	case reachable && (c.leader == kafka.NoNode || len(c.leaderEndpoints) < len(at)):
		c.toFollower(now, epoch, leader, at)
	}
	return true
}
