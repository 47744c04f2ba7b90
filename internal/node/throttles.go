package node

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/config"
)

// throttles are the node's bounds on copying: as a leader to followers that are not in sync, as such a follower, and
// between its own log directories.
type throttles struct{ leader, follower, moves *replica.Quota }

func newThrottles(c *config.Static) *throttles {
	quota := func(prefix string) *replica.Quota {
		return replica.NewQuota(c.Int(prefix+"replication.quota.window.num"),
			time.Duration(c.Int64(prefix+"replication.quota.window.size.seconds"))*time.Second)
	}
	return &throttles{leader: quota(""), follower: quota(""), moves: quota("alter.log.dirs.")}
}

// follow takes over the rates that an image gives this broker.
func (t *throttles) follow(r *config.Resolver) {
	t.leader.SetRate(r.Broker("leader.replication.throttled.rate").Int64())
	t.follower.SetRate(r.Broker("follower.replication.throttled.rate").Int64())
	t.moves.SetRate(r.Broker("replica.alter.log.dirs.io.max.bytes.per.second").Int64())
}
