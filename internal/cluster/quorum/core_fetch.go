package quorum

import (
	"slices"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// parkedFetch is a Fetch that waits for something to say.
type parkedFetch struct {
	message Message
	request *FetchRequest
	until   time.Time
}

// maxParked bounds the fetches that wait at a leader: one per replica it remembers.
const maxParked = maxReplicas

// onFetchRequest serves the log to a replica, or parks the request.
func (c *Core) onFetchRequest(now time.Time, m Message, r *FetchRequest) {
	if c.wrongCluster(r.ClusterID) {
		resp := c.emptyFetch(kafka.InconsistentClusterID)
		resp.Verdict = topError(kafka.InconsistentClusterID)
		c.answer(m, resp)
		return
	}
	resp := c.fetch(now, r)
	if r.MaxWaitMs == 0 || resp.says(r) {
		c.answer(m, resp)
		return
	}
	c.park(m, r, now.Add(time.Duration(r.MaxWaitMs)*time.Millisecond))
}

// says tells whether there is anything in an answer that the replica does not know.
func (r *FetchResponse) says(to *FetchRequest) bool {
	return r.Code != kafka.None || r.Diverging != nil || r.Snapshot != nil || r.From != kafka.NoOffset ||
		r.HighWatermark > to.HighWatermark
}

// park keeps a fetch. A replica has one at a time: an older one was given up by its sender and is answered
// empty.
func (c *Core) park(m Message, r *FetchRequest, until time.Time) {
	c.parked = slices.DeleteFunc(c.parked, func(p parkedFetch) bool {
		old := r.Replica.ID >= 0 && p.request.Replica == r.Replica
		if old {
			c.answer(p.message, c.emptyFetch(kafka.None))
		}
		return old
	})
	if len(c.parked) >= maxParked {
		c.answer(m, c.emptyFetch(kafka.None))
		return
	}
	c.parked = append(c.parked, parkedFetch{m, r, until})
	c.wakeAt(until)
}

// answerParked looks at every parked fetch again: the log or the high watermark has moved.
func (c *Core) answerParked(now time.Time) {
	again := c.parked
	c.parked = nil
	for _, p := range again {
		resp := c.fetch(now, p.request)
		if resp.says(p.request) {
			c.answer(p.message, resp)
		} else {
			c.parked = append(c.parked, p)
		}
	}
}

// expireParked answers the fetches that have waited long enough with what little there is to say.
func (c *Core) expireParked(now time.Time) {
	c.parked = slices.DeleteFunc(c.parked, func(p parkedFetch) bool {
		if now.Before(p.until) {
			c.wakeAt(p.until)
			return false
		}
		c.answer(p.message, c.emptyFetch(kafka.None))
		return true
	})
}

// failParked turns parked fetches away once this replica leads no more.
func (c *Core) failParked() {
	if c.role == Leader {
		return
	}
	for _, p := range c.parked {
		c.answer(p.message, c.emptyFetch(kafka.NotLeaderOrFollower))
	}
	c.parked = nil
}

func (c *Core) emptyFetch(code kafka.Code) *FetchResponse {
	resp := &FetchResponse{Verdict: c.verdict(code), HighWatermark: kafka.NoOffset, LogStart: kafka.NoOffset,
		From: kafka.NoOffset}
	if code == kafka.None {
		resp.HighWatermark, resp.LogStart = c.highWatermark, c.log.Start()
	}
	return resp
}

// fetch judges a fetch and says what to answer right now.
func (c *Core) fetch(now time.Time, r *FetchRequest) *FetchResponse {
	code := c.leaderCheck(r.Epoch)
	switch {
	case r.MaxWaitMs < 0 || r.Offset < 0 || r.LastEpoch < 0 || r.LastEpoch > r.Epoch:
		code = kafka.InvalidRequest
	case code == kafka.None && r.Replica.ID == c.config.Self.ID:
		code = kafka.UnknownServerError
	}
	if code != kafka.None {
		return c.emptyFetch(code)
	}
	resp := c.emptyFetch(kafka.None)
	if c.validate(r, resp) {
		c.observe(now, r.Replica, r.Offset)
		resp.HighWatermark = c.highWatermark
		if r.Offset < c.log.End() {
			resp.From, resp.MaxBytes = r.Offset, r.MaxBytes
		}
	}
	return resp
}

// leaderCheck is the check of every request that only the leader of the epoch may serve.
func (c *Core) leaderCheck(epoch kafka.LeaderEpoch) kafka.Code {
	switch {
	case epoch < c.epoch:
		return kafka.FencedLeaderEpoch
	case epoch > c.epoch:
		return kafka.UnknownLeaderEpoch
	case c.role != Leader && c.shutdown:
		return kafka.BrokerNotAvailable
	case c.role != Leader:
		return kafka.NotLeaderOrFollower
	}
	return kafka.None
}

// validate compares the replica's end with this log. If the replica has to load a snapshot or to truncate
// first, that is written into resp. An offset of 0 is always sent to the snapshot when there is one, even if
// the log still begins at 0.
func (c *Core) validate(r *FetchRequest, resp *FetchResponse) bool {
	snapshots := c.log.Snapshots()
	if r.Offset == 0 {
		if len(snapshots) == 0 {
			return true
		}
		resp.Snapshot = &snapshots[len(snapshots)-1]
		return false
	}
	start := c.log.Start()
	if len(snapshots) > 0 {
		otherBranch := r.Offset == start && start > 0 && r.LastEpoch != snapshots[0].Epoch
		if r.Offset < start || otherBranch || r.LastEpoch < c.oldestEpoch() {
			resp.Snapshot = &snapshots[len(snapshots)-1]
			return false
		}
	}
	end := c.endOffsetFor(r.LastEpoch)
	if (end.Epoch != r.LastEpoch || end.Offset < r.Offset) && !flaw.In(flaw.QuorumDivergence) {
		resp.Diverging = &end
		return false
	}
	return true
}

// oldestEpoch is the epoch below which this log cannot judge: that of the snapshot it starts at, 0 if it is
// whole.
func (c *Core) oldestEpoch() kafka.LeaderEpoch {
	if c.log.Start() == 0 {
		return 0
	}
	return c.log.Snapshots()[0].Epoch
}

// endOffsetFor is the log's answer, except for an epoch that ends where the oldest snapshot does: there the
// snapshot's own epoch is what a replica can go on from.
func (c *Core) endOffsetFor(epoch kafka.LeaderEpoch) OffsetAndEpoch {
	end := c.log.EndOffsetFor(epoch)
	if s := c.log.Snapshots(); len(s) > 0 && end.Offset == s[0].Offset && end.Epoch == epoch {
		return s[0]
	}
	return end
}

// onFetchSnapshotRequest serves a piece of a snapshot. Whether the snapshot exists is known here; its size,
// and so whether the position is in range, only to the pump.
func (c *Core) onFetchSnapshotRequest(now time.Time, m Message, r *FetchSnapshotRequest) {
	resp := &FetchSnapshotResponse{Snapshot: r.Snapshot, Position: r.Position, MaxBytes: r.MaxBytes}
	if c.wrongCluster(r.ClusterID) {
		resp.Verdict = topError(kafka.InconsistentClusterID)
		c.answer(m, resp)
		return
	}
	code := c.leaderCheck(r.Epoch)
	switch {
	case code != kafka.None:
	case r.Replica.ID == c.config.Self.ID || r.MaxBytes < 0:
		code = kafka.InvalidRequest
	case r.Snapshot == bootstrapID || !slices.Contains(c.log.Snapshots(), r.Snapshot):
		code = kafka.SnapshotNotFound
	}
	if code == kafka.None {
		if v, ok := c.voters.Latest().Find(r.Replica.ID); ok && v.Key.matches(r.Replica) {
			c.hear(now, v.Key.ID)
		}
	}
	resp.Verdict = c.verdict(code)
	c.answer(m, resp)
}
