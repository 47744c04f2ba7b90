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
	// Replica says that the reader sees the whole log and not just what is below the high watermark.
	Replica bool
}

// watchers is the set of a partition's watchers. The count lets appends skip the lock while nobody watches.
type watchers struct {
	count atomic.Int32
	mu    sync.Mutex
	list  []*Watcher
}

// Watch registers w. Whoever parks must register first and then look at the partition again: a change between looking
// and registering would wake nobody.
func (p *Partition) Watch(w *Watcher) {
	p.watchers.mu.Lock()
	defer p.watchers.mu.Unlock()
	p.watchers.list = append(p.watchers.list, w)
	p.watchers.count.Store(int32(len(p.watchers.list)))
}

// Unwatch takes the registration back. A call that is under way may still arrive.
func (p *Partition) Unwatch(w *Watcher) {
	p.watchers.mu.Lock()
	defer p.watchers.mu.Unlock()
	// wake works on a snapshot of the slice, so it is replaced and never changed in place.
	if i := slices.Index(p.watchers.list, w); i >= 0 {
		next := make([]*Watcher, 0, len(p.watchers.list)-1)
		next = append(next, p.watchers.list[:i]...)
		p.watchers.list = append(next, p.watchers.list[i+1:]...)
	}
	if len(p.watchers.list) == 0 {
		p.watchers.list = nil
	}
	p.watchers.count.Store(int32(len(p.watchers.list)))
}

// Watching is how many watchers are registered.
func (p *Partition) Watching() int { return int(p.watchers.count.Load()) }

func (s *watchers) wake(p *Partition, m moved) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	list := s.list[:len(s.list):len(s.list)]
	s.mu.Unlock()
	for _, w := range list {
		if m&(movedRole|movedWatermark) != 0 || (w.Replica && m&movedEnd != 0) {
			w.OnMove(p)
		}
	}
}
