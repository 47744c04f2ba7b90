package quorum

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// voterChange is a change of the voter set under way at a leader: one voter at a time, and only from a set
// that is committed, so that old and new majorities always overlap (KIP-853).
type voterChange struct {
	message Message
	voter   Voter
	update  bool
	// ackWhenCommitted holds the answer back until the commit.
	ackWhenCommitted bool
	// request asks the voter for its versions; 0 once answered.
	request uint64
	// offset of the record, NoOffset while not appended.
	offset kafka.Offset
	until  time.Time
}

// caughtUpWithin is how fresh an observer's fetches have to be for it to become a voter.
const caughtUpWithin = time.Hour

// refusal is why a change is not made.
type refusal struct {
	code kafka.Code
	why  string
}

// changeCheck is what every change needs: leadership, no other change, and a committed voter set.
func (c *Core) changeCheck(cluster *string) refusal {
	switch {
	case c.wrongCluster(cluster):
		return refusal{kafka.InconsistentClusterID, "the request is for another cluster"}
	case c.role != Leader && c.shutdown:
		return refusal{kafka.BrokerNotAvailable, "the node is shutting down"}
	case c.role != Leader:
		return refusal{kafka.NotLeaderOrFollower, "the node does not lead"}
	}
	return refusal{}
}

func (c *Core) busyCheck() refusal {
	switch {
	case c.change != nil:
		return refusal{kafka.RequestTimedOut, "another change of the voters is under way"}
	case c.highWatermark == kafka.NoOffset:
		return refusal{kafka.RequestTimedOut, "nothing is committed in this epoch yet"}
	}
	return refusal{}
}

// stableCheck wants dynamic voters whose last change is committed.
func (c *Core) stableCheck() refusal {
	switch {
	case c.voters.KRaftVersion() == 0:
		return refusal{kafka.UnsupportedVersion, "kraft.version 0 has static voters"}
	case c.voters.LatestOffset() >= c.highWatermark:
		return refusal{kafka.RequestTimedOut, "the last change of the voters is not committed yet"}
	}
	return refusal{}
}

// first gives the first of some checks that refuses.
func first(checks ...refusal) refusal {
	for _, r := range checks {
		if r.code != kafka.None {
			return r
		}
	}
	return refusal{}
}

func (c *Core) onAddVoter(now time.Time, m Message, r *AddVoterRequest) {
	refused := c.changeCheck(r.ClusterID)
	peer, reachable := c.config.peer(r.Voter.ID, r.Endpoints)
	if refused.code == kafka.None && (r.Voter.ID < 0 || r.Voter.Directory.IsZero() || !reachable) {
		refused = refusal{kafka.InvalidRequest, "id, directory id and an endpoint of the leader's listener are needed"}
	}
	if refused = first(refused, c.busyCheck(), c.stableCheck()); refused.code == kafka.None {
		if _, ok := c.voters.Latest().Find(r.Voter.ID); ok {
			refused = refusal{kafka.DuplicateVoter, "the voter set has this id already"}
		} else if !r.AckWhenCommitted && !c.mayJoin(now, r.Voter) {
			refused = refusal{kafka.RequestTimedOut, "two voters are weaker than one; a third node has to join and catch up first"}
		}
	}
	if refused.code != kafka.None {
		c.answer(m, &ChangeVoterResponse{refused.code, refused.why})
		return
	}
	c.change = &voterChange{message: m, voter: Voter{Key: r.Voter, Endpoints: normalised(r.Endpoints)},
		ackWhenCommitted: r.AckWhenCommitted}
	c.askVersions(now, peer)
}

// joiner is a node that asks by itself to become a voter (KIP-1186).
type joiner struct {
	key ReplicaKey
	at  time.Time // when it asked last
}

// mayJoin says whether a node that asks by itself becomes a voter now. Beside a sole voter that waits for a second one which
// asks too and has caught up: of two voters none can be spared. An administrator's request is not held up.
func (c *Core) mayJoin(now time.Time, key ReplicaKey) bool {
	if len(c.voters.Latest()) != 1 {
		return true
	}
	l, ready := c.leading, 0
	l.joiners = slices.DeleteFunc(l.joiners, func(j joiner) bool { return j.key == key || now.Sub(j.at) > 5*c.config.FetchTimeout })
	l.joiners = append(l.joiners, joiner{key, now})
	for _, j := range l.joiners {
		if c.caughtUp(now, j.key) {
			ready++
		}
	}
	return ready > 1
}

// askVersions asks the voter what it supports before it is written down.
func (c *Core) askVersions(now time.Time, peer Peer) {
	c.change.offset, c.change.until = kafka.NoOffset, now.Add(c.config.RequestTimeout)
	if !c.request(now, peer, &ApiVersionsRequest{}) {
		c.refuseChange(kafka.RequestTimedOut, "the voter is busy")
		return
	}
	c.change.request = c.nextRequest
}

func (c *Core) onApiVersionsResponse(now time.Time, request uint64, r *ApiVersionsResponse) {
	if c.change == nil || c.change.request != request {
		return
	}
	ch, version := c.change, c.voters.KRaftVersion()
	ch.request = 0
	switch {
	case r.Top != kafka.None:
		c.refuseChange(kafka.RequestTimedOut, "the voter does not tell its versions")
	case version < r.KRaft.Min || version > r.KRaft.Max:
		c.refuseChange(kafka.InvalidRequest, "the voter does not support the finalized kraft.version")
	case ch.update && r.KRaft != ch.voter.KRaft:
		c.refuseChange(kafka.InvalidRequest, "the voter's versions differ from those of the request")
	case ch.update:
		c.updateVoter(now)
	case !c.caughtUp(now, ch.voter.Key):
		c.refuseChange(kafka.RequestTimedOut, "the new voter has not caught up")
	default:
		ch.voter.KRaft = r.KRaft
		c.appendVoters(now, c.voters.Latest().With(ch.voter))
	}
}

// caughtUp says whether an observer was seen at the log's end, and has fetched lately.
func (c *Core) caughtUp(now time.Time, key ReplicaKey) bool {
	return slices.ContainsFunc(c.leading.replicas, func(p progress) bool {
		return p.key == key && !p.caughtUpAt.IsZero() && now.Sub(p.fetchedAt) < caughtUpWithin
	})
}

func (c *Core) onRemoveVoter(now time.Time, m Message, r *RemoveVoterRequest) {
	refused := c.changeCheck(r.ClusterID)
	if refused.code == kafka.None && (r.Voter.ID < 0 || r.Voter.Directory.IsZero()) {
		refused = refusal{kafka.InvalidRequest, "id and directory id are needed"}
	}
	refused = first(refused, c.busyCheck(), c.stableCheck())
	set := c.voters.Latest()
	v, ok := set.Find(r.Voter.ID)
	if refused.code == kafka.None && (!ok || v.Key != r.Voter || len(set) == 1) {
		refused = refusal{kafka.VoterNotFound, "no such voter, or the last one"}
	}
	if refused.code != kafka.None {
		c.answer(m, &ChangeVoterResponse{refused.code, refused.why})
		return
	}
	c.change = &voterChange{message: m, voter: v, ackWhenCommitted: true}
	c.appendVoters(now, set.Without(r.Voter.ID))
}

func (c *Core) onUpdateVoter(now time.Time, m Message, r *UpdateVoterRequest) {
	code := c.leaderCheck(r.Epoch)
	peer, reachable := c.config.peer(r.Voter.Key.ID, r.Voter.Endpoints)
	valid := r.Voter.Key.ID >= 0 && !r.Voter.Key.Directory.IsZero() && r.Voter.KRaft.Min >= 0 &&
		r.Voter.KRaft.Max >= r.Voter.KRaft.Min && reachable
	switch {
	case c.wrongCluster(r.ClusterID):
		code = kafka.InconsistentClusterID
	case code == kafka.None && !valid:
		code = kafka.InvalidRequest
	case code == kafka.None:
		code = c.busyCheck().code
	}
	if code != kafka.None {
		c.answer(m, &UpdateVoterResponse{c.verdict(code)})
		return
	}
	if c.voters.Latest().Contains(r.Voter.Key) {
		c.hear(now, r.Voter.Key.ID)
	}
	r.Voter.Endpoints = normalised(r.Voter.Endpoints)
	c.change = &voterChange{message: m, voter: r.Voter, update: true}
	c.askVersions(now, peer)
}

// updateVoter writes a voter's new entry. Under kraft.version 0 there is no entry to write: the leader takes
// note only.
func (c *Core) updateVoter(now time.Time) {
	ch := c.change
	v, ok := c.voters.Latest().Find(ch.voter.Key.ID)
	switch {
	case !ok || !v.Key.matches(ch.voter.Key):
		c.refuseChange(kafka.VoterNotFound, "no such voter")
	case c.voters.KRaftVersion() == 0:
		c.finishChange(kafka.None, "")
	case c.stableCheck().code != kafka.None:
		c.refuseChange(kafka.RequestTimedOut, c.stableCheck().why)
	default:
		c.appendVoters(now, c.voters.Latest().With(ch.voter))
	}
}

// appendVoters writes the new set; it is in force as soon as it is appended.
func (c *Core) appendVoters(now time.Time, set VoterSet) {
	ch := c.change
	ch.offset, ch.until = c.log.End(), now.Add(c.config.RequestTimeout)
	c.out.Control = []ControlBody{VotersRecord{Voters: set}}
	if !ch.ackWhenCommitted {
		c.finishChange(kafka.None, "")
	}
}

// changeCommitted answers a change that is on a majority of the new voters now.
func (c *Core) changeCommitted() {
	if ch := c.change; ch != nil && ch.offset != kafka.NoOffset && ch.offset < c.highWatermark {
		c.finishChange(kafka.None, "")
	}
}

// pollChange gives a change up that takes too long. If it is appended it may yet be committed.
func (c *Core) pollChange(now time.Time) {
	if c.change == nil {
		return
	}
	if !now.Before(c.change.until) {
		c.refuseChange(kafka.RequestTimedOut, "the change was not committed in time")
		return
	}
	c.wakeAt(c.change.until)
}

// failChange turns a change away once this replica leads no more.
func (c *Core) failChange() {
	if c.change != nil && c.role != Leader {
		c.refuseChange(kafka.NotLeaderOrFollower, "the node leads no more")
	}
}

func (c *Core) refuseChange(code kafka.Code, why string) { c.finishChange(code, why) }

// finishChange answers and forgets the change.
func (c *Core) finishChange(code kafka.Code, why string) {
	ch := c.change
	c.change = nil
	if ch.update {
		c.answer(ch.message, &UpdateVoterResponse{c.verdict(code)})
		return
	}
	c.answer(ch.message, &ChangeVoterResponse{code, why})
}

// appendFailed: a leader that cannot open its epoch steps down and tries again later; a change of the voters
// is off.
func (c *Core) appendFailed(now time.Time) {
	if c.role == Leader && c.log.End() > c.leading.epochStart {
		if c.change != nil {
			c.refuseChange(kafka.KafkaStorageError, "the log's disk is full")
		}
		return
	}
	c.resign(now)
}

// announceSelf lets a voter tell the leader its endpoints and versions when the voter set has them wrong, and
// an observer that may join ask for it. It reports true when a request went out.
func (c *Core) announceSelf(now time.Time, leader Peer) bool {
	f := c.following
	if !c.config.CanVote || f.announced {
		return false
	}
	if now.Before(f.announceAt) {
		c.wakeAt(f.announceAt)
		return false
	}
	body := c.announcement()
	if body == nil || !c.request(now, leader, body) {
		return false
	}
	f.announceAt = now.Add(2 * c.config.FetchTimeout)
	f.announced = c.voters.KRaftVersion() == 0
	return true
}

// announcement is what this node has to say about itself, nil for nothing.
func (c *Core) announcement() Body {
	set := c.voters.Latest()
	own, listed := set.Find(c.config.Self.ID)
	self := Voter{Key: c.config.Self, Endpoints: c.config.Endpoints, KRaft: supportedKRaft}
	dynamic := c.voters.KRaftVersion() > 0
	switch {
	case listed && own.Key.matches(c.config.Self):
		if dynamic && own.equal(self) || len(c.config.Endpoints) == 0 {
			return nil
		}
		return &UpdateVoterRequest{ClusterID: &c.config.ClusterID, Epoch: c.epoch, Voter: self}
	case !dynamic || !c.config.AutoJoin:
		return nil
	case listed: // an entry of a disk that this node had before
		return &RemoveVoterRequest{ClusterID: &c.config.ClusterID, Voter: own.Key}
	}
	return &AddVoterRequest{ClusterID: &c.config.ClusterID, Voter: c.config.Self, Endpoints: c.config.Endpoints}
}

func (c *Core) onUpdateVoterResponse(now time.Time, peer kafka.NodeID, r *UpdateVoterResponse) {
	if c.accept(now, peer, r.Verdict) && c.role == Follower {
		c.following.fetchBy = now.Add(c.config.FetchTimeout)
	}
}
