package api

import (
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// Session epochs with a meaning of their own (KIP-227).
const (
	newSessionEpoch int32 = 0  // a full request that asks for a session
	noSessionEpoch  int32 = -1 // a full request without one; ends the session that it names
)

// sessionEviction is how long a session must be unused to make room for anybody, and how old it must be to
// make room for a larger one.
const sessionEviction = 2 * time.Minute

// fetchSession is an incremental fetch session: a set that outlives its requests. Its epoch and set are
// under set.session, the rest under fetchSessions.mu.
type fetchSession struct {
	id    int32
	epoch int32 // that the next request must have
	set   *fetchSet

	follower   bool
	created    time.Time
	used       time.Time
	size       int // partitions, as the cache counts them
	prev, next *fetchSession
	cached     bool
}

// fetchSessions is the cache of sessions. A full cache makes room as Kafka's does: the session that was
// unused longest goes when that is more than two minutes ago; else a session that is smaller than the new
// one, if it is more than two minutes old or a consumer's that stands in a follower's way.
type fetchSessions struct {
	b             *Broker
	slots         int // max.incremental.fetch.session.cache.slots
	maxPartitions int // moldau.fetch.session.partitions.max

	mu         sync.Mutex
	byID       map[int32]*fetchSession
	oldest     *fetchSession // list by time of use
	newest     *fetchSession
	forAll     btree.BTreeG[*fetchSession] // what makes room for anybody, the least valuable first
	forReplica btree.BTreeG[*fetchSession] // what makes room for followers
	partitions int
}

func newFetchSessions(b *Broker) *fetchSessions {
	return &fetchSessions{
		b: b, slots: b.Config.Int("max.incremental.fetch.session.cache.slots"),
		maxPartitions: b.Config.Int("moldau.fetch.session.partitions.max"), byID: make(map[int32]*fetchSession),
		forAll:     *btree.NewBTreeGOptions(lessValuable, btree.Options{NoLocks: true}),
		forReplica: *btree.NewBTreeGOptions(lessValuable, btree.Options{NoLocks: true}),
	}
}

// lessValuable orders sessions: followers' above consumers', large above small.
func lessValuable(a, b *fetchSession) bool {
	if a.follower != b.follower {
		return b.follower
	}
	if a.size != b.size {
		return a.size < b.size
	}
	return a.id < b.id
}

// attach gives op the partitions that its request means: those of a session, brought up to date, or a set
// of its own.
func (c *fetchSessions) attach(op *fetchOp, req *kmsg.FetchRequest) kafka.Code {
	if req.SessionEpoch != newSessionEpoch && req.SessionEpoch != noSessionEpoch {
		return c.resume(op, req)
	}
	if req.SessionID != 0 {
		c.end(req.SessionID)
	}
	op.full = true
	op.set = newFetchSet(req.Version >= 13, op.replica != kafka.NoNode)
	op.set.watcher.Watermark = op.h.near
	op.set.entries = c.entries(req)
	if req.SessionEpoch == newSessionEpoch {
		c.create(op)
	}
	return 0
}

// resume takes up a session with the request that follows its last one.
func (c *fetchSessions) resume(op *fetchOp, req *kmsg.FetchRequest) kafka.Code {
	c.mu.Lock()
	s := c.byID[req.SessionID]
	c.mu.Unlock()
	if s == nil {
		return kafka.FetchSessionIDNotFound
	}
	set := s.set
	set.session.Lock()
	code := s.accept(req)
	var size int
	var before *fetchOp
	if code == 0 {
		set.update(c.b.Image(), req)
		set.entries = nil
		size = len(set.byKey)
		before = set.parkedOp()
	}
	set.session.Unlock()
	if code != 0 {
		return code
	}
	if before != nil {
		before.finish() // it belongs to an epoch that is over, and says so
	}
	if !c.touch(s, size, op.call.Now) {
		c.end(s.id)
		return kafka.FetchSessionIDNotFound
	}
	op.set, op.session, op.sessionID, op.epoch = set, s, s.id, nextEpoch(req.SessionEpoch)
	if size == 0 { // a session without partitions ends; this request is answered without it
		c.end(s.id)
		op.session, op.sessionID = nil, 0
	}
	return 0
}

// accept checks a request against the session and moves the epoch on. The caller holds set.session.
func (s *fetchSession) accept(req *kmsg.FetchRequest) kafka.Code {
	switch {
	case s.set.closed:
		return kafka.FetchSessionIDNotFound
	case s.epoch != req.SessionEpoch:
		return kafka.InvalidFetchSessionEpoch
	case s.set.byID != (req.Version >= 13):
		return kafka.FetchSessionTopicIDError
	}
	s.epoch = nextEpoch(s.epoch)
	return 0
}

// nextEpoch counts on, from the largest value back to 1.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// create makes a session of a full request's set, if there is room.
func (c *fetchSessions) create(op *fetchOp) {
	set := op.set
	s := &fetchSession{set: set, epoch: 1, follower: op.replica != kafka.NoNode, created: op.call.Now,
		size: len(set.entries)}
	c.mu.Lock()
	evicted, ok := c.makeRoom(s, op.call.Now)
	if ok {
		for s.id == 0 || c.byID[s.id] != nil {
			u := c.b.NewUUID()
			s.id = int32(binary.BigEndian.Uint32(u[:4]) & math.MaxInt32)
		}
		c.insert(s, op.call.Now)
	}
	c.mu.Unlock()
	if evicted != nil {
		c.b.Metrics.Sessions.Evictions.Inc()
		evicted.close()
	}
	if !ok {
		return
	}
	set.keep()
	op.session, op.sessionID, op.epoch = s, s.id, 1
}

// makeRoom finds a slot for s; the session it takes out must be closed without c.mu. The caller holds c.mu.
func (c *fetchSessions) makeRoom(s *fetchSession, now time.Time) (evicted *fetchSession, ok bool) {
	if c.partitions+s.size > c.maxPartitions || c.slots <= 0 {
		return nil, false
	}
	if len(c.byID) < c.slots {
		return nil, true
	}
	if out := c.oldest; out != nil && now.Sub(out.used) > sessionEviction {
		c.take(out)
		return out, true
	}
	candidates := &c.forAll
	if s.follower {
		candidates = &c.forReplica
	}
	out, found := candidates.Min()
	if !found || lessValuable(s, out) { // s has id 0: of equals, the one that is there stays
		return nil, false
	}
	c.take(out)
	return out, true
}

// touch marks a session used and counts its partitions anew. It reports false when that is more than all
// may remember.
func (c *fetchSessions) touch(s *fetchSession, size int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.cached {
		return true // it was ended meanwhile; this request still has it
	}
	if size > s.size && c.partitions+size-s.size > c.maxPartitions {
		return false
	}
	c.take(s)
	s.size = size
	c.insert(s, now)
	return true
}

// insert puts a session into the cache as the newest. The caller holds c.mu.
func (c *fetchSessions) insert(s *fetchSession, now time.Time) {
	s.used, s.cached = now, true
	c.byID[s.id] = s
	c.partitions += s.size
	c.tell()
	if s.prev = c.newest; s.prev == nil {
		c.oldest = s
	} else {
		s.prev.next = s
	}
	c.newest = s
	old := now.Sub(s.created) > sessionEviction
	if old {
		c.forAll.Set(s)
	}
	if old || !s.follower {
		c.forReplica.Set(s)
	}
}

// take removes a session from the cache. The caller holds c.mu.
func (c *fetchSessions) take(s *fetchSession) {
	if !s.cached {
		return
	}
	s.cached = false
	delete(c.byID, s.id)
	c.partitions -= s.size
	c.tell()
	c.forAll.Delete(s)
	c.forReplica.Delete(s)
	if s.prev == nil {
		c.oldest = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		c.newest = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// tell publishes how full the cache is. The caller holds c.mu.
func (c *fetchSessions) tell() {
	c.b.Metrics.Sessions.Sessions.Set(int64(len(c.byID)))
	c.b.Metrics.Sessions.Partitions.Set(int64(c.partitions))
}

// end removes a session by id, if it is there.
func (c *fetchSessions) end(id int32) {
	c.mu.Lock()
	s := c.byID[id]
	if s != nil {
		c.take(s)
	}
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// close ends the session's registrations. A fetch that waits in it is answered with what there is.
func (s *fetchSession) close() {
	set := s.set
	set.session.Lock()
	set.close()
	op := set.parkedOp()
	set.session.Unlock()
	if op != nil {
		op.finish()
	}
}

// entries makes the entries of a full request, each partition once: the last word about it counts, as in
// Kafka.
func (c *fetchSessions) entries(req *kmsg.FetchRequest) []*fetchEntry {
	image := c.b.Image()
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	out := make([]*fetchEntry, 0, n)
	var seen map[fetchKey]*fetchEntry
	if n > 1 {
		seen = make(map[fetchKey]*fetchEntry, n)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		name := fetchTopicName(image, req.Version, t)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := keyOf(req.Version, name, t.TopicID, p.Partition)
			if e := seen[key]; e != nil {
				e.update(p)
				continue
			}
			e := newEntry(name, t, p)
			out = append(out, e)
			if seen != nil {
				seen[key] = e
			}
		}
	}
	return out
}

// keyOf names a partition in the way of a version.
func keyOf(version int16, topic string, id kafka.UUID, partition int32) fetchKey {
	if version >= 13 {
		return fetchKey{id: id, partition: partition}
	}
	return fetchKey{topic: topic, partition: partition}
}

// fetchTopicName gives the name of a request's topic, to be kept; "" for an id that is not known.
func fetchTopicName(image *metadata.Image, version int16, t *kmsg.FetchRequestTopic) string {
	if version >= 13 {
		if known, ok := image.TopicByID(t.TopicID); ok {
			return known.Name
		}
		return ""
	}
	if known, ok := image.Topic(t.Topic); ok {
		return known.Name
	}
	return strings.Clone(t.Topic)
}
