package replica

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// followerSession is a follower's side of an incremental fetch session (KIP-227): the leader remembers what was named,
// and a request names only what changed.
type followerSession struct {
	id    int32
	epoch int32 // of the next request; 0: it names everything and asks for a session
	asked bool  // for a session, by the request under way

	members   map[partitionID]*followed
	known     map[partitionID]bool // to the leader
	changed   map[partitionID]bool // members the next request must name
	forgotten map[partitionID]bool
}

func newFollowerSession() followerSession {
	s := followerSession{members: make(map[partitionID]*followed)}
	s.restart()
	return s
}

// restart makes the next request name everything. The leader drops the session of the old id.
func (s *followerSession) restart() {
	s.epoch, s.asked = 0, false
	s.known, s.changed, s.forgotten = map[partitionID]bool{}, map[partitionID]bool{}, map[partitionID]bool{}
}

// open says whether the leader has a session.
func (s *followerSession) open() bool { return s.epoch > 0 }

// want makes the next request fetch for x, from x.next on.
func (s *followerSession) want(x *followed) {
	id := idOf(x.p)
	s.members[id] = x
	if !s.known[id] || x.at != x.next {
		s.changed[id] = true
	}
	delete(s.forgotten, id)
}

// forget leaves a replica out from the next request on.
func (s *followerSession) forget(id partitionID) {
	delete(s.members, id)
	delete(s.changed, id)
	if s.known[id] {
		s.forgotten[id] = true
	}
}

// fill writes the session's part of a request.
func (s *followerSession) fill(r *kmsg.FetchRequest, number int, partitionBytes int32) {
	r.SessionID, r.SessionEpoch = s.id, s.epoch
	var named []*followed
	for id, x := range s.members { // sorted below
		if s.epoch == 0 || s.changed[id] {
			named = append(named, x)
		}
	}
	slices.SortFunc(named, compareFollowed)
	for _, x := range named {
		x.at, x.named = x.next, number
		s.known[idOf(x.p)] = true
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch = x.p.tp.Partition, int32(x.at.LeaderEpoch)
		p.FetchOffset, p.LogStartOffset = int64(x.at.Offset), int64(x.at.LogStart)
		p.LastFetchedEpoch, p.PartitionMaxBytes = int32(x.at.LastEpoch), partitionBytes
		if n := len(r.Topics); n == 0 || r.Topics[n-1].TopicID != x.p.topicID {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = x.p.tp.Topic, x.p.topicID
			r.Topics = append(r.Topics, t)
		}
		t := &r.Topics[len(r.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	s.fillForgotten(r)
	clear(s.changed)
	if s.epoch == 0 {
		s.asked = true
		return
	}
	s.epoch = max(s.epoch+1, 1) // from the largest value back to 1
}

func (s *followerSession) fillForgotten(r *kmsg.FetchRequest) {
	for _, id := range sortedIDs(s.forgotten) {
		delete(s.known, id)
		if n := len(r.ForgottenTopics); n == 0 || r.ForgottenTopics[n-1].TopicID != id.topic {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.TopicID = id.topic
			r.ForgottenTopics = append(r.ForgottenTopics, t)
		}
		t := &r.ForgottenTopics[len(r.ForgottenTopics)-1]
		t.Partitions = append(t.Partitions, id.partition)
	}
	clear(s.forgotten)
}

// answered takes over what the leader says of the session: id 0 is none.
func (s *followerSession) answered(id int32) {
	switch {
	case id == 0:
		s.id = 0
		s.restart()
	case s.asked:
		s.id, s.epoch, s.asked = id, 1, false
	}
}

func sortedIDs(set map[partitionID]bool) []partitionID {
	var out []partitionID
	for id := range set {
		out = append(out, id)
	}
	slices.SortFunc(out, compareIDs)
	return out
}

func compareIDs(a, b partitionID) int {
	return cmp.Or(slices.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
}

func compareFollowed(a, b *followed) int { return compareIDs(idOf(a.p), idOf(b.p)) }
