package quorum

import (
	"slices"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// leading is what a leader knows beyond its epoch.
type leading struct {
	// epochStart is the offset of the batch that opened the epoch: nothing is committed before that is.
	epochStart kafka.Offset
	// replicas are the voters and observers that fetched in this epoch, in key order, without this node.
	replicas []progress
	// heard are the voters that fetched since the check-quorum timer was last set; it ends at checkQuorumAt.
	heard         []kafka.NodeID
	checkQuorumAt time.Time
	// beginAt is when BeginQuorumEpoch goes out again.
	beginAt time.Time
	// joiners are those that asked to join a sole voter.
	joiners []joiner
}

// progress is how far a replica has come, as its last valid Fetch says.
type progress struct {
	key          ReplicaKey
	end          kafka.Offset
	fetchedAt    time.Time
	caughtUpAt   time.Time    // zero: never
	leaderEndOld kafka.Offset // the leader's end at the fetch before
}

func (p progress) compare(k ReplicaKey) int { return compareKeys(p.key, k) }

// maxReplicas bounds the replicas whose progress a leader remembers.
const maxReplicas = 4096

// checkQuorumTimeout is how long a leader goes on without hearing from a majority.
func (c *Core) checkQuorumTimeout() time.Duration { return c.config.FetchTimeout * 3 / 2 }

// observe records a valid fetch. The key of a voter is the one that the voter set has for it.
func (c *Core) observe(now time.Time, replica ReplicaKey, offset kafka.Offset) {
	if replica.ID < 0 || replica.ID == c.config.Self.ID {
		return
	}
	l, set := c.leading, c.voters.Latest()
	if v, ok := set.Find(replica.ID); ok && v.Key.matches(replica) {
		replica = v.Key
		c.hear(now, replica.ID)
	}
	i, ok := slices.BinarySearchFunc(l.replicas, replica, progress.compare)
	if !ok {
		if len(l.replicas) >= maxReplicas {
			return
		}
		unknown := progress{key: replica, end: kafka.NoOffset, leaderEndOld: kafka.NoOffset}
		l.replicas = slices.Insert(l.replicas, i, unknown)
	}
	p := &l.replicas[i]
	end := c.log.End()
	switch {
	case offset >= end:
		p.caughtUpAt = now
	case p.leaderEndOld >= 0 && offset >= p.leaderEndOld && p.fetchedAt.After(p.caughtUpAt):
		p.caughtUpAt = p.fetchedAt // it had all that there was when it asked the last time
	}
	p.end, p.fetchedAt, p.leaderEndOld = max(p.end, offset), now, end
	c.raiseHighWatermark(now)
}

// hear notes a sign of life of a voter. A majority of them, this leader included, winds the check-quorum
// timer up.
func (c *Core) hear(now time.Time, voter kafka.NodeID) {
	l := c.leading
	if !slices.Contains(l.heard, voter) {
		l.heard = append(l.heard, voter)
	}
	if len(l.heard) >= c.neededOthers() {
		l.heard, l.checkQuorumAt = nil, now.Add(c.checkQuorumTimeout())
	}
}

// neededOthers is how many other voters make a majority together with this node.
func (c *Core) neededOthers() int {
	set := c.voters.Latest()
	if set.Contains(c.config.Self) {
		return set.majority() - 1
	}
	return set.majority()
}

// raiseHighWatermark computes what a majority of the voters holds. This node counts with what it has synced,
// the others with what they fetch from, which they synced before asking. Parked fetches hear of a rise.
func (c *Core) raiseHighWatermark(now time.Time) {
	set := c.voters.Latest()
	ends := make([]kafka.Offset, 0, len(set))
	for _, v := range set {
		ends = append(ends, c.endOf(v))
	}
	if len(ends) == 0 {
		return
	}
	slices.SortFunc(ends, func(a, b kafka.Offset) int { return int(min(1, max(-1, b-a))) })
	if o := ends[len(ends)/2]; o > c.leading.epochStart && c.setHighWatermark(o) {
		c.answerParked(now)
		c.changeCommitted()
	}
}

func (c *Core) endOf(v Voter) kafka.Offset {
	if v.Key.matches(c.config.Self) {
		if flaw.In(flaw.CommitUnsynced) {
			return c.log.End()
		}
		return c.log.Durable()
	}
	for _, p := range c.leading.replicas {
		if p.key == v.Key {
			return p.end
		}
	}
	return kafka.NoOffset
}

// successors are the other voters, the one with the longest log first.
func (c *Core) successors() []ReplicaKey {
	others := c.others()
	if c.leading != nil {
		slices.SortStableFunc(others, func(a, b Voter) int {
			return int(min(1, max(-1, c.endOf(b)-c.endOf(a))))
		})
	}
	var out []ReplicaKey
	for _, v := range others {
		out = append(out, v.Key)
	}
	return out
}

// pollLeader resigns when no majority is heard of, or when this node was voted out and that is committed.
func (c *Core) pollLeader(now time.Time) bool {
	l := c.leading
	removed := !c.voters.Latest().Contains(c.config.Self) && c.highWatermark > c.voters.LatestOffset()
	if c.neededOthers() > 0 {
		if !now.Before(l.checkQuorumAt) {
			removed = true
		}
		c.wakeAt(l.checkQuorumAt)
	}
	if removed {
		c.resign(now)
		return true
	}
	if !now.Before(l.beginAt) {
		l.beginAt = now.Add(c.config.FetchTimeout / 2)
		c.announce(now)
	}
	if len(c.others()) > 0 {
		c.wakeAt(l.beginAt)
	}
	l.replicas = slices.DeleteFunc(l.replicas, func(p progress) bool {
		return !c.voters.Latest().Contains(p.key) && now.Sub(p.fetchedAt) >= observerLifetime
	})
	c.expireParked(now)
	c.pollChange(now)
	return false
}

// announce sends BeginQuorumEpoch to the voters that have not fetched lately.
func (c *Core) announce(now time.Time) {
	for _, v := range c.others() {
		i := slices.IndexFunc(c.leading.replicas, func(p progress) bool { return p.key == v.Key })
		if i >= 0 && now.Sub(c.leading.replicas[i].fetchedAt) < c.config.FetchTimeout/2 {
			continue
		}
		if peer, ok := c.config.peer(v.Key.ID, v.Endpoints); ok {
			c.request(now, peer, &BeginQuorumEpochRequest{ClusterID: &c.config.ClusterID, Voter: v.Key,
				Leader: c.config.Self.ID, Epoch: c.epoch, LeaderEndpoints: c.config.Endpoints})
		}
	}
}

// resigning is what a leader that steps down still has to do: tell the voters.
type resigning struct {
	candidates []ReplicaKey
	// acknowledged are the voters that know, or, during a shutdown, could not be told.
	acknowledged []kafka.NodeID
}

// pollResigned tells the voters until each has answered, then waits out its timer.
func (c *Core) pollResigned(now time.Time) bool {
	if !now.Before(c.electionAt) && !c.shutdown {
		c.toUnattached(now, c.epoch+1, kafka.NoNode)
		return true
	}
	if !c.shutdown {
		c.wakeAt(c.electionAt)
	}
	for _, v := range c.others() {
		if slices.Contains(c.resigning.acknowledged, v.Key.ID) {
			continue
		}
		if peer, ok := c.config.peer(v.Key.ID, v.Endpoints); ok {
			c.request(now, peer, &EndQuorumEpochRequest{ClusterID: &c.config.ClusterID, Leader: c.config.Self.ID,
				Epoch: c.epoch, Candidates: c.resigning.candidates})
		}
	}
	return false
}

// handedOver says whether a replica that is shutting down has told everybody.
func (c *Core) handedOver() bool {
	return c.role != Resigned || len(c.resigning.acknowledged) >= len(c.others())
}

func (c *Core) onEndResponse(now time.Time, peer kafka.NodeID, asked *EndQuorumEpochRequest,
	r *EndQuorumEpochResponse) {
	if c.accept(now, peer, r.Verdict) && c.role == Resigned && asked.Epoch == c.epoch {
		c.resigning.acknowledged = append(c.resigning.acknowledged, peer)
	}
}
