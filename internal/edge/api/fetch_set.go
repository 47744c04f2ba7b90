package api

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// fetchEntry is one partition of a fetch: where its reader stands, and what the reader was told last.
type fetchEntry struct {
	topic       string // "" while a topic id is not known
	id          kafka.UUID
	partition   int32
	offset      kafka.Offset
	logStart    kafka.Offset // of a follower
	maxBytes    int32
	leaderEpoch kafka.LeaderEpoch
	lastEpoch   kafka.LeaderEpoch

	// What the last answer of a session said; an incremental answer tells only what changed.
	sentHighWatermark kafka.Offset
	sentLogStart      kafka.Offset

	watched *replica.Partition // registered with the set's watcher
	ready   bool               // in fetchSet.ready; under fetchSet.mu
	gone    bool               // forgotten by its session
}

// fetchKey finds a session's entries: by name up to version 12, by id from 13 on.
type fetchKey struct {
	topic     string
	id        kafka.UUID
	partition int32
}

// fetchSet is the partitions of a session, or of one request without a session. Of its two locks, session
// is held while the entries are looked at or changed, and mu, a leaf, while the ready list is. A partition
// that moves only takes mu.
type fetchSet struct {
	session sync.Mutex
	byID    bool // partitions are named by topic id (KIP-516)
	// entries are those of a full request, in its order; a session has them only until its next request.
	entries []*fetchEntry
	byKey   map[fetchKey]*fetchEntry // nil without a session
	closed  bool                     // the session is over: nothing is registered any more
	effects []replica.Effects        // of followers' progress, to be run without any lock

	watcher replica.Watcher
	mu      sync.Mutex
	ready   []*fetchEntry // in the order in which they are to be looked at
	moving  map[*replica.Partition]*fetchEntry
	parked  *fetchOp // waits for one of the entries to move
}

// kept says that the set belongs to a session: it is registered with its partitions for good, and its ready
// list holds whatever could have something to tell.
func (s *fetchSet) kept() bool { return s.byKey != nil }

// keep makes the set a session's.
func (s *fetchSet) keep() {
	s.session.Lock()
	defer s.session.Unlock()
	s.byKey = make(map[fetchKey]*fetchEntry, len(s.entries))
	for _, e := range s.entries {
		s.byKey[s.key(e)] = e
	}
}

func (s *fetchSet) key(e *fetchEntry) fetchKey {
	if s.byID {
		return fetchKey{id: e.id, partition: e.partition}
	}
	return fetchKey{topic: e.topic, partition: e.partition}
}

func newFetchSet(byID, replica bool) *fetchSet {
	s := &fetchSet{byID: byID}
	s.watcher.Replica = replica
	s.watcher.OnMove = s.moved
	return s
}

// moved is told that a partition has something new. It runs on whichever goroutine moved it.
func (s *fetchSet) moved(p *replica.Partition) {
	s.mu.Lock()
	if e := s.moving[p]; e != nil {
		s.push(e)
	}
	op := s.parked
	s.mu.Unlock()
	if op != nil {
		op.poke()
	}
}

// push puts an entry at the end of the ready list. The caller holds s.mu.
func (s *fetchSet) push(e *fetchEntry) {
	if !e.ready && !e.gone {
		e.ready = true
		s.ready = append(s.ready, e)
	}
}

// take empties the ready list. What moves from now on is in the next one.
func (s *fetchSet) take() []*fetchEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.ready
	s.ready = nil
	for _, e := range out {
		e.ready = false
	}
	return slices.DeleteFunc(out, func(e *fetchEntry) bool { return e.gone })
}

// putBack returns entries to the ready list: first before what moved meanwhile, last after it.
func (s *fetchSet) putBack(first, last []*fetchEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := s.ready
	s.ready = make([]*fetchEntry, 0, len(first)+len(moved)+len(last))
	for _, e := range moved {
		e.ready = false
	}
	for _, list := range [...][]*fetchEntry{first, moved, last} {
		for _, e := range list {
			s.push(e)
		}
	}
}

// size is the number of partitions.
func (s *fetchSet) size() int { return max(len(s.entries), len(s.byKey)) }

// parkedOp is the fetch that waits in this set.
func (s *fetchSet) parkedOp() *fetchOp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked
}

// watch registers an entry with the partition it reads, if it is not yet.
func (s *fetchSet) watch(e *fetchEntry, p *replica.Partition) {
	if e.watched == p || s.closed || e.gone {
		return
	}
	s.unwatch(e)
	e.watched = p
	s.mu.Lock()
	if s.moving == nil {
		s.moving = make(map[*replica.Partition]*fetchEntry)
	}
	s.moving[p] = e
	s.mu.Unlock()
	p.Watch(&s.watcher)
}

func (s *fetchSet) unwatch(e *fetchEntry) {
	p := e.watched
	if p == nil {
		return
	}
	e.watched = nil
	s.mu.Lock()
	other := s.moving[p] != e // a second entry reads the same partition
	if !other {
		delete(s.moving, p)
	}
	s.mu.Unlock()
	p.Unwatch(&s.watcher)
}

// close takes all registrations back. The caller holds s.session.
func (s *fetchSet) close() {
	s.closed = true
	for _, e := range s.entries {
		s.unwatch(e)
	}
	for _, e := range s.byKey { // the order does not show
		s.unwatch(e)
	}
}

// update takes over what a session's request says: partitions that are new or read from elsewhere, then
// those to forget. The caller holds s.session.
func (s *fetchSet) update(image *metadata.Image, req *kmsg.FetchRequest) {
	var changed []*fetchEntry
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := keyOf(req.Version, t.Topic, t.TopicID, p.Partition)
			e := s.byKey[key]
			if e == nil {
				e = newEntry(fetchTopicName(image, req.Version, t), t, p)
				s.byKey[s.key(e)] = e
			} else {
				e.update(p)
			}
			changed = append(changed, e)
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, partition := range t.Partitions {
			key := keyOf(req.Version, t.Topic, t.TopicID, partition)
			if e := s.byKey[key]; e != nil {
				delete(s.byKey, key)
				s.unwatch(e)
				s.mu.Lock()
				e.gone = true
				s.mu.Unlock()
			}
		}
	}
	s.putBack(nil, changed)
}

// runEffects runs what followers' progress entails. The caller holds no lock.
func (s *fetchSet) runEffects(host replica.Host) {
	if s.effects == nil {
		return
	}
	s.session.Lock()
	effects := s.effects
	s.effects = nil
	s.session.Unlock()
	for i := range effects {
		effects[i].Run(host)
	}
}

// newEntry makes an entry of a request's partition. Strings are the image's or copies.
func newEntry(topic string, t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) *fetchEntry {
	e := &fetchEntry{topic: topic, id: t.TopicID, partition: p.Partition, sentHighWatermark: kafka.NoOffset,
		sentLogStart: kafka.NoOffset}
	e.update(p)
	return e
}

// update takes over what a request says of a partition.
func (e *fetchEntry) update(p *kmsg.FetchRequestTopicPartition) {
	e.offset, e.logStart = kafka.Offset(p.FetchOffset), kafka.Offset(p.LogStartOffset)
	e.maxBytes = p.PartitionMaxBytes
	e.leaderEpoch, e.lastEpoch = kafka.LeaderEpoch(p.CurrentLeaderEpoch), kafka.LeaderEpoch(p.LastFetchedEpoch)
}

// resolve finds the partition of an entry. A topic that was deleted and made anew under its name is another
// one.
func (s *fetchSet) resolve(b *Broker, image *metadata.Image, e *fetchEntry) (*replica.Partition, error) {
	if !s.byID {
		return b.partition(image, kafka.TopicPartition{Topic: e.topic, Partition: e.partition})
	}
	t, ok := image.TopicByID(e.id)
	if ok {
		e.topic = t.Name
		return b.partitionOf(t, e.partition)
	}
	if e.topic == "" {
		return nil, kafka.UnknownTopicID
	}
	if _, ok := image.Topic(e.topic); ok {
		return nil, kafka.InconsistentTopicID
	}
	return nil, kafka.UnknownTopicOrPartition
}
