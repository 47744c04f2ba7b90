package quorum

import (
	"fmt"
	"time"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// following is what a follower knows beyond its leader.
type following struct {
	// fetchBy is when a voter gives its leader up; every good answer moves it.
	fetchBy time.Time
	// fetched is set by the first good answer of this leader: from then on no pre-vote is granted.
	fetched bool
	// busy is set while an append, a truncation or a snapshot is being carried out: the log's end is about to
	// move.
	busy bool
	// leaderHighWatermark is the highest that the leader told.
	leaderHighWatermark kafka.Offset
	download            *download
	// announceAt is when the leader is told of this node again, if the voter set has it wrong.
	announceAt time.Time
	announced  bool // to this leader, under kraft.version 0
}

// download is a snapshot on its way.
type download struct {
	id       OffsetAndEpoch
	position int64
}

// pollFollower fetches from the leader; a voter that hears nothing of it for too long stands for election.
func (c *Core) pollFollower(now time.Time) bool {
	f := c.following
	if c.standsForElection() {
		if !now.Before(f.fetchBy) {
			c.toProspective(now)
			return true
		}
		c.wakeAt(f.fetchBy)
	}
	if f.busy {
		return false
	}
	leader, ok := c.config.peer(c.leader, c.leaderEndpoints)
	if !ok {
		return false
	}
	if f.download != nil {
		c.request(now, leader, &FetchSnapshotRequest{ClusterID: &c.config.ClusterID, Replica: c.config.Self,
			Epoch: c.epoch, Snapshot: f.download.id, Position: f.download.position,
			MaxBytes: c.config.FetchSnapshotMaxBytes})
		return false
	}
	if c.fetching(now) || c.announceSelf(now, leader) {
		return false
	}
	if c.ready(now, leader.ID) {
		c.sendFetch(now, leader)
	} else {
		c.fetchFromAny(now)
	}
	return false
}

// leaderIsGone ends the fetch timer of a voter that has heard this leader before: nothing listens at its address any more.
// Voters find that out at the same moment. So that they do not split the vote, each lets those with lower ids go first;
// all of them grant a pre-vote from now on.
func (c *Core) leaderIsGone(now time.Time) {
	f := c.following
	if c.heard != c.epoch || !c.standsForElection() {
		return
	}
	f.fetched = false
	wait := time.Duration(0)
	for _, v := range c.voters.Latest() {
		if v.Key.ID < c.config.Self.ID && v.Key.ID != c.leader {
			wait += electionTurn
		}
	}
	if at := now.Add(wait); at.Before(f.fetchBy) {
		f.fetchBy = at
	}
}

// fetching says whether a Fetch is under way anywhere: there is only ever one.
func (c *Core) fetching(now time.Time) bool {
	for _, l := range c.links {
		if _, ok := l.body.(*FetchRequest); ok && l.request != 0 && now.Before(l.until) {
			c.wakeAt(l.until)
			return true
		}
	}
	return false
}

// sendFetch asks for what follows the log's end. On a replica that counts for commitment the position says
// that all before it is on disk, so it leaves only when that is true.
func (c *Core) sendFetch(now time.Time, to Peer) {
	at := c.position()
	m := c.numbered(now, to, &FetchRequest{ClusterID: &c.config.ClusterID, Replica: c.config.Self, Epoch: c.epoch,
		Offset: at.Offset, LastEpoch: at.Epoch, HighWatermark: c.highWatermark,
		MaxWaitMs: int32(c.fetchWait().Milliseconds()), MaxBytes: c.config.FetchMaxBytes})
	if c.config.CanVote && at.Offset > c.log.Durable() && !flaw.In(flaw.FetchUnsynced) {
		c.out.SendSynced = append(c.out.SendSynced, m)
	} else {
		c.out.Send = append(c.out.Send, m)
	}
}

// fetchWait is how long the leader may park a Fetch. It has to be well within the time after which its silence means that
// it is gone: else an idle quorum would do nothing but elect.
func (c *Core) fetchWait() time.Duration { return min(fetchMaxWait, c.config.FetchTimeout/2) }

// fetchFromAny sends a Fetch to a bootstrap server, or to a voter if none is configured: it answers who
// leads.
func (c *Core) fetchFromAny(now time.Time) {
	if c.fetching(now) {
		return
	}
	peers := c.bootstrapPeers()
	if len(peers) == 0 {
		return
	}
	first := c.rnd.IntN(len(peers))
	for i := range peers {
		peer := peers[(first+i)%len(peers)]
		if c.ready(now, peer.ID) {
			c.sendFetch(now, peer)
			return
		}
	}
}

func (c *Core) bootstrapPeers() []Peer {
	var out []Peer
	own, _ := endpoint("", c.config.Endpoints)
	for i, e := range c.config.Bootstrap {
		if e.Host != own.Host || e.Port != own.Port {
			out = append(out, Peer{ID: firstBootstrapID - kafka.NodeID(i), Host: e.Host, Port: e.Port})
		}
	}
	if len(c.config.Bootstrap) > 0 {
		return out
	}
	for _, v := range c.others() {
		if peer, ok := c.config.peer(v.Key.ID, v.Endpoints); ok {
			out = append(out, peer)
		}
	}
	return out
}

// onFetchResponse appends what came, or truncates, or begins to load a snapshot.
func (c *Core) onFetchResponse(now time.Time, peer kafka.NodeID, asked *FetchRequest, r *FetchResponse) {
	if !c.accept(now, peer, r.Verdict) {
		return
	}
	f := c.following
	if c.role != Follower || f.busy || asked.Epoch != c.epoch || asked.Offset != c.log.End() {
		return
	}
	switch {
	case r.Diverging != nil:
		cut := c.truncationPoint(*r.Diverging)
		if cut < c.highWatermark {
			c.out.Fatal = fmt.Errorf("leader %d of epoch %d asks to truncate to %d, below the committed offset %d",
				c.leader, c.epoch, cut, c.highWatermark)
			return
		}
		f.busy, c.out.Truncate = true, &cut
	case r.Snapshot != nil:
		if r.Snapshot.Offset < 0 || r.Snapshot.Epoch < 0 {
			c.pause(now, peer)
			return
		}
		f.download = &download{id: *r.Snapshot}
	default:
		f.leaderHighWatermark = max(f.leaderHighWatermark, r.HighWatermark)
		if len(r.Records) > 0 {
			f.busy, c.out.Fetched = true, r.Records
		} else {
			c.caughtUpWith()
			c.mayEndLateness(now)
		}
	}
	f.fetched, f.fetchBy, c.heard = true, now.Add(c.config.FetchTimeout), c.epoch
}

// truncationPoint is where to cut for a diverging end of the leader's (KIP-595).
func (c *Core) truncationPoint(d OffsetAndEpoch) kafka.Offset {
	if d.Epoch == 0 {
		return min(d.Offset, c.log.End())
	}
	own := c.log.EndOffsetFor(d.Epoch)
	if own.Epoch == d.Epoch {
		return min(own.Offset, d.Offset)
	}
	return own.Offset
}

// truncated takes note of where the log really ends now: a batch goes whole.
func (c *Core) truncated() {
	c.voters.TruncateTo(c.log.End())
	if c.role == Follower {
		c.following.busy = false
	}
}

// caughtUpWith moves the high watermark after the leader's, as far as the log goes.
func (c *Core) caughtUpWith() {
	f := c.following
	f.busy = false
	c.setHighWatermark(min(f.leaderHighWatermark, c.log.End()))
}

func (c *Core) onFetchSnapshotResponse(now time.Time, peer kafka.NodeID, asked *FetchSnapshotRequest,
	r *FetchSnapshotResponse) {
	notFound := r.Top == kafka.None && (r.Code == kafka.SnapshotNotFound || r.Code == kafka.PositionOutOfRange)
	ok := c.accept(now, peer, r.Verdict)
	if c.role != Follower || asked.Epoch != c.epoch || c.following.download == nil {
		return
	}
	f := c.following
	if f.download.id != asked.Snapshot || f.download.position != asked.Position || f.busy {
		return
	}
	switch {
	case notFound:
		f.download = nil
	case !ok:
		return
	case r.Snapshot != asked.Snapshot || r.Position != asked.Position || r.Size <= 0 ||
		r.Position+int64(len(r.Bytes)) > r.Size || len(r.Bytes) == 0:
		f.download = nil
		c.pause(now, peer)
		return
	default:
		c.out.Piece = &SnapshotPiece{Snapshot: r.Snapshot, Position: r.Position, Size: r.Size, Bytes: r.Bytes}
		f.download.position += int64(len(r.Bytes))
		f.busy = f.download.position == r.Size
	}
	f.fetched, f.fetchBy, c.heard = true, now.Add(c.config.FetchTimeout), c.epoch
}

// awaits says whether the replica wants a snapshot to replace its log.
func (c *Core) awaits(id OffsetAndEpoch) bool {
	return c.role == Follower && c.following.download != nil && c.following.download.id == id
}

// snapshotLoaded goes on behind a snapshot that has replaced the log. It is committed, for a leader served
// it.
func (c *Core) snapshotLoaded(_ time.Time, e SnapshotLoaded) {
	c.voters.reset()
	c.voters.apply(e.Controls)
	c.setHighWatermark(e.Snapshot.Offset)
	if c.role == Follower {
		c.following.download, c.following.busy = nil, false
	}
}

// snapshotDropped fetches again; the leader will name a snapshot anew if one is needed.
func (c *Core) snapshotDropped(now time.Time, id OffsetAndEpoch) {
	if c.awaits(id) {
		c.following.download, c.following.busy = nil, false
		c.pause(now, c.leader)
	}
}

// onBeginRequest hears of a leader.
func (c *Core) onBeginRequest(now time.Time, m Message, r *BeginQuorumEpochRequest) {
	if c.wrongCluster(r.ClusterID) {
		c.answer(m, &BeginQuorumEpochResponse{topError(kafka.InconsistentClusterID)})
		return
	}
	code := c.adopt(now, r.Leader, r.Epoch, r.LeaderEndpoints)
	if code == kafka.None && !c.isMe(r.Voter) {
		code = kafka.InvalidVoterKey
	}
	c.answer(m, &BeginQuorumEpochResponse{c.verdict(code)})
}

// adopt checks what a leader says of itself in a request, and takes it in.
func (c *Core) adopt(now time.Time, leader kafka.NodeID, epoch kafka.LeaderEpoch, at []Endpoint) kafka.Code {
	switch {
	case epoch < c.epoch:
		return kafka.FencedLeaderEpoch
	case leader < 0:
		return kafka.InvalidRequest
	case !c.learn(now, leader, epoch, at):
		return kafka.UnknownServerError
	}
	return kafka.None
}

// onEndRequest hears that a leader steps down: its followers stand for election in the order it lists them.
func (c *Core) onEndRequest(now time.Time, m Message, r *EndQuorumEpochRequest) {
	if c.wrongCluster(r.ClusterID) {
		c.answer(m, &EndQuorumEpochResponse{topError(kafka.InconsistentClusterID)})
		return
	}
	code := c.adopt(now, r.Leader, r.Epoch, r.LeaderEndpoints)
	if code == kafka.None && c.role == Follower && c.leader == r.Leader {
		c.following.fetchBy = now.Add(c.electionDelay(r.Candidates))
		c.following.fetched = false // nothing speaks for this leader any more, and whoever stands may do so
	}
	c.answer(m, &EndQuorumEpochResponse{c.verdict(code)})
}

// electionDelay is how long this replica lets the better candidates go first.
func (c *Core) electionDelay(candidates []ReplicaKey) time.Duration {
	longest := c.config.ElectionBackoffMax
	for p, k := range candidates {
		if !k.matches(c.config.Self) {
			continue
		}
		if p == 0 {
			return 0
		}
		return min(longest, max(longest>>(len(candidates)-1), 1)<<(p-1))
	}
	if len(candidates) == 0 {
		return 0
	}
	return longest
}
