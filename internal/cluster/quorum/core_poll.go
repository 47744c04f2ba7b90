package quorum

import "time"

// maxTransitions bounds the roles that a replica can pass through at one moment: Resigned, Unattached,
// Prospective, Candidate, Leader.
const maxTransitions = 6

// poll does what the time asks for: transitions first, until one role stays, then its requests.
func (c *Core) poll(now time.Time) {
	for range maxTransitions {
		c.wake = time.Time{}
		if !c.pollRole(now) {
			return
		}
	}
	c.wakeAt(now)
}

// pollRole lets the role act. It reports true when the role has changed.
func (c *Core) pollRole(now time.Time) bool {
	switch c.role {
	case Unattached:
		return c.pollUnattached(now)
	case Prospective:
		return c.pollProspective(now)
	case Candidate:
		return c.pollCandidate(now)
	case Leader:
		return c.pollLeader(now)
	case Follower:
		return c.pollFollower(now)
	case Resigned:
		return c.pollResigned(now)
	}
	return false
}

// pollUnattached looks for a leader; a voter stands for election when its timer ends.
func (c *Core) pollUnattached(now time.Time) bool {
	if c.shutdown {
		return false
	}
	if c.standsForElection() {
		if !now.Before(c.electionAt) {
			c.toProspective(now)
			return true
		}
		c.wakeAt(c.electionAt)
	}
	c.fetchFromAny(now)
	return false
}
