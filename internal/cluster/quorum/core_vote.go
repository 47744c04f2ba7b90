package quorum

import (
	"slices"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// ballot counts the answers of one election, or of one round of asking before it.
type ballot struct {
	preVote bool
	// plain is set when a peer does not know pre-votes: then the election is held at once.
	plain bool
	votes []vote
}

type vote struct {
	voter   kafka.NodeID
	granted bool
}

func (b *ballot) record(voter kafka.NodeID, granted bool) {
	b.votes = slices.DeleteFunc(b.votes, func(v vote) bool { return v.voter == voter })
	b.votes = append(b.votes, vote{voter, granted})
}

func (b *ballot) answered(voter kafka.NodeID) bool {
	return slices.ContainsFunc(b.votes, func(v vote) bool { return v.voter == voter })
}

// count gives the answers of those who are voters now.
func (b *ballot) count(set VoterSet) (granted, refused int) {
	for _, v := range b.votes {
		if _, ok := set.Find(v.voter); !ok {
			continue
		}
		if v.granted {
			granted++
		} else {
			refused++
		}
	}
	return granted, refused
}

func (b *ballot) granted(c *Core) bool {
	set := c.voters.Latest()
	granted, _ := b.count(set)
	return granted >= set.majority()
}

func (b *ballot) rejected(c *Core) bool {
	set := c.voters.Latest()
	_, refused := b.count(set)
	return len(set)-refused < set.majority()
}

func (b *ballot) grantedBy() []kafka.NodeID {
	var out []kafka.NodeID
	for _, v := range b.votes {
		if v.granted {
			out = append(out, v.voter)
		}
	}
	slices.Sort(out)
	return out
}

// askForVotes sends Vote to every voter that has not answered yet.
func (c *Core) askForVotes(now time.Time) {
	epoch := c.epoch
	for _, v := range c.others() {
		if c.ballot.answered(v.Key.ID) {
			continue
		}
		if peer, ok := c.config.peer(v.Key.ID, v.Endpoints); ok {
			c.request(now, peer, &VoteRequest{ClusterID: &c.config.ClusterID, Voter: v.Key, Candidate: c.config.Self,
				Epoch: epoch, Last: c.position(), PreVote: c.ballot.preVote})
		}
	}
}

// onVoteRequest answers a request for a vote, in Kafka's order of checks.
func (c *Core) onVoteRequest(now time.Time, m Message, r *VoteRequest) {
	if c.wrongCluster(r.ClusterID) {
		c.answer(m, &VoteResponse{Verdict: topError(kafka.InconsistentClusterID)})
		return
	}
	code := kafka.None
	switch {
	case r.Last.Offset < 0 || r.Last.Epoch < 0 || r.Last.Epoch > r.Epoch || r.Last.Epoch == r.Epoch && !r.PreVote:
		code = kafka.InvalidRequest
	case r.Epoch < c.epoch:
		code = kafka.FencedLeaderEpoch
	case r.Candidate.ID < 0:
		code = kafka.InvalidRequest
	}
	if code != kafka.None {
		c.answer(m, &VoteResponse{Verdict: c.verdict(code)})
		return
	}
	if r.Epoch > c.epoch {
		c.toUnattached(now, r.Epoch, kafka.NoNode)
	}
	if !c.isMe(r.Voter) {
		c.answer(m, &VoteResponse{Verdict: c.verdict(kafka.InvalidVoterKey)})
		return
	}
	granted := c.mayVote() && c.grants(r)
	if granted && !r.PreVote {
		c.voted = r.Candidate
		if c.role == Prospective {
			c.toProspective(now)
		} else {
			c.electionAt = c.electionTimer(now)
		}
	}
	c.answer(m, &VoteResponse{Verdict: c.verdict(kafka.None), Granted: granted})
}

// grants decides about a vote. Nothing asks whether the candidate is a voter: voter sets may differ while one
// changes.
func (c *Core) grants(r *VoteRequest) bool {
	upToDate := r.Last.Compare(c.position()) >= 0 || flaw.In(flaw.VoteForShorterLog)
	if r.PreVote {
		switch c.role {
		case Leader:
			return false
		case Follower:
			// A follower that has heard its leader does not help to depose it (a leader lost to a minority
			// only).
			return upToDate && !c.following.fetched
		}
		return upToDate
	}
	if c.role != Unattached && c.role != Prospective {
		return false
	}
	if c.voted.ID != kafka.NoNode {
		return c.voted.matches(r.Candidate)
	}
	return c.leader == kafka.NoNode && upToDate
}

func (c *Core) onVoteResponse(now time.Time, peer kafka.NodeID, asked *VoteRequest, r *VoteResponse) {
	if r.Top == kafka.UnsupportedVersion && asked.PreVote {
		if c.role == Prospective && asked.Epoch == c.epoch {
			c.ballot.plain = true
		}
		return
	}
	if !c.accept(now, peer, r.Verdict) {
		return
	}
	if c.ballot == nil || asked.Epoch != c.epoch || asked.PreVote != c.ballot.preVote {
		return
	}
	if r.Code == kafka.None {
		c.ballot.record(peer, r.Granted)
	}
}

// pollProspective goes on when the round of asking is decided.
func (c *Core) pollProspective(now time.Time) bool {
	switch {
	case c.ballot.granted(c) || c.ballot.plain:
		c.toCandidate(now, c.epoch+1)
	case c.ballot.rejected(c) || !now.Before(c.electionAt):
		if len(c.leaderEndpoints) > 0 {
			c.toFollower(now, c.epoch, c.leader, c.leaderEndpoints)
			c.following.fetchBy = c.soon(now)
		} else {
			c.toUnattached(now, c.epoch, c.leader)
		}
	default:
		c.wakeAt(c.electionAt)
		c.askForVotes(now)
		return false
	}
	return true
}

// pollCandidate waits for votes; after a defeat it sits out its timer.
func (c *Core) pollCandidate(now time.Time) bool {
	switch {
	case c.ballot.granted(c):
		c.toLeader(now)
	case !now.Before(c.electionAt):
		c.toProspective(now)
	default:
		c.wakeAt(c.electionAt)
		if !c.ballot.rejected(c) {
			c.askForVotes(now)
		}
		return false
	}
	return true
}

// isMe says whether a request is meant for this replica. Old versions do not say.
func (c *Core) isMe(k ReplicaKey) bool {
	if k.ID >= 0 && k.ID != c.config.Self.ID {
		return false
	}
	return k.Directory.IsZero() || k.Directory == c.config.Self.Directory
}

func (c *Core) wrongCluster(id *string) bool { return id != nil && *id != c.config.ClusterID }

// verdict is an error, or none, with what this replica knows about the leader.
func (c *Core) verdict(code kafka.Code) Verdict {
	return Verdict{Code: code, Leader: c.leader, Epoch: c.epoch, LeaderEndpoints: c.leaderEndpoints}
}

func topError(code kafka.Code) Verdict {
	return Verdict{Top: code, Leader: kafka.NoNode, Epoch: kafka.NoEpoch}
}
