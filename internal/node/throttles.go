package node

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/config"
)

// throttles are the node's bounds on copying: as a leader to followers that are not in sync, and as such a follower.
type throttles struct{ leader, follower *replica.Quota }

func newThrottles(c *config.Static) *throttles {
	quota := func() *replica.Quota {
		return replica.NewQuota(c.Int("replication.quota.window.num"),
			time.Duration(c.Int64("replication.quota.window.size.seconds"))*time.Second)
	}
	return &throttles{leader: quota(), follower: quota()}
}

// follow takes over the rates that an image gives this broker.
func (t *throttles) follow(r *config.Resolver) {
	t.leader.SetRate(r.Broker("leader.replication.throttled.rate").Int64())
	t.follower.SetRate(r.Broker("follower.replication.throttled.rate").Int64())
}
