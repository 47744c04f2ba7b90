package quorum

import (
	"time"

	"moldau/internal/kafka"
)

// late is what a replica knows that came to its quorum late, with an empty disk in the place of one that may have been lost.
// As a voter it could elect a leader that lacks what it had acknowledged itself, or vote twice in one epoch. Under dynamic
// voters (KIP-853) the directory id keeps such a replica out; the voters of the settings have none.
type late struct {
	since time.Time
	// epoch and end say where the log of a leader ended when it had nothing more for this replica; NoOffset: not yet.
	epoch kafka.LeaderEpoch
	end   kafka.Offset
}

// mayVote says whether this replica may vote and stand for election.
func (c *Core) mayVote() bool { return c.config.CanVote && c.late == nil }

// mayEndLateness makes the replica a voter like any other once it has nothing to forget: it has all that its leader had
// after it began to ask, which is everything it ever acknowledged; the same leader has committed more since; and elections
// that it may have taken part in before are over. It is called when the leader has nothing more to send.
func (c *Core) mayEndLateness(now time.Time) {
	switch l := c.late; {
	case l == nil:
	case l.end == kafka.NoOffset || l.epoch != c.epoch:
		l.epoch, l.end = c.epoch, c.log.End()
	case c.following.leaderHighWatermark > l.end && now.Sub(l.since) >= 2*c.config.ElectionTimeout:
		c.late = nil
	}
}
