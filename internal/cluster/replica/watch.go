package replica

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Watcher is told when a partition it watches has something new. A fetch session keeps one for its whole life.
type Watcher struct {
	// OnMove runs after the change is published, without any lock of this package held, possibly on several goroutines
	// at once. It must not block.
	OnMove func(*Partition)
	// Replica says that the reader is a follower, which sees the whole log: new records wake it. A high watermark that
	// rose alone does not, it rides on the next answer.
	Replica bool
	// Watermark says that a follower is to hear of that too: consumers read from it.
	Watermark bool
	// Durable says that the watcher waits for this node's own disk and nothing else.
	Durable bool
}

// wants says whether a watcher is to be told of a change.
func (w *Watcher) wants(m moved) bool {
	switch {
	case m&movedRole != 0:
		return true
	case w.Durable:
		return m&movedDurable != 0
	case w.Replica:
		return m&movedEnd != 0 || w.Watermark && m&movedWatermark != 0
	}
	return m&movedWatermark != 0
}

// watchers is the set of a partition's watchers. The count lets appends skip the lock while nobody watches.
type watchers struct {
	count  atomic.Int32
	mu     sync.Mutex
	list   []*Watcher
	places map[*Watcher]*place
	// shown: a wake is going over the array of list, or was; it must not be changed in place any more.
	shown bool
}

// place is where a watcher stands in the list, and how often it is registered: thousands leave at once when their
// connections end, so leaving must not cost a look at all others.
type place struct{ at, times int }

// Watch registers w. Whoever parks must register first and then look at the partition again: a change between looking
// and registering would wake nobody. Each call needs an Unwatch.
func (p *Partition) Watch(w *Watcher) {
	s := &p.watchers
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.places[w]; known != nil {
		known.times++
		return
	}
	if s.places == nil {
		s.places = make(map[*Watcher]*place)
	}
	s.places[w] = &place{at: len(s.list), times: 1}
	s.list = append(s.list, w)
	s.count.Store(int32(len(s.list)))
}

// Unwatch takes the registration back. A call that is under way may still arrive.
func (p *Partition) Unwatch(w *Watcher) {
	s := &p.watchers
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.places[w]
	if known == nil {
		return
	}
	if known.times--; known.times > 0 {
		return
	}
	if s.shown {
		s.list, s.shown = slices.Clone(s.list), false
	}
	last := len(s.list) - 1
	s.list[known.at] = s.list[last]
	s.places[s.list[known.at]].at = known.at
	s.list[last] = nil
	s.list = s.list[:last]
	delete(s.places, w)
	if last == 0 {
		s.list, s.places = nil, nil
	}
	s.count.Store(int32(last))
}

// Watching is how many watchers are registered.
func (p *Partition) Watching() int { return int(p.watchers.count.Load()) }

func (s *watchers) wake(p *Partition, m moved) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	list := s.list[:len(s.list):len(s.list)]
	s.shown = true
	s.mu.Unlock()
	for _, w := range list {
		if w.wants(m) {
			w.OnMove(p)
		}
	}
}
