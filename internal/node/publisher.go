package node

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
)

// publisher brings committed images to the node's partitions, one after the other on one goroutine, and lets replies
// leave that waited for it. When it cannot keep up it merges what waits.
type publisher struct {
	manager *replica.Manager
	host    replica.Host
	log     *slog.Logger
	now     func() time.Time
	// onRoles is told what the partitions have followed, once roles are taken up, before anybody sees the image.
	onRoles func(image *metadata.Image, diff *metadata.Diff)
	// follow has replicas copied from their leaders; diff is nil when any role may have changed.
	follow func(image *metadata.Image, diff *metadata.Diff)
	// onImage is told of an image that was applied, and how long that took.
	onImage  func(image *metadata.Image, diff *metadata.Diff, took time.Duration)
	onReport func(reports []replica.DirReport)
	// onMoves is given the moves between log directories that an earlier run began.
	onMoves func([]*replica.Move)

	image atomic.Pointer[metadata.Image]

	mu      sync.Mutex
	next    published
	wake    chan struct{}
	closed  bool
	changed chan struct{} // closed and replaced with every image

	active bool // roles are taken up; the loop's own
}

func newPublisher() *publisher {
	p := &publisher{wake: make(chan struct{}, 1), changed: make(chan struct{})}
	p.image.Store(metadata.New())
	return p
}

// publish hands an image over. It never blocks.
func (p *publisher) publish(n published) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.image != nil {
		p.next.image = n.image
	}
	if n.diff != nil {
		p.next.diff = p.next.diff.Merge(n.diff)
	}
	p.next.replies = append(p.next.replies, n.replies...)
	p.poke()
}

func (p *publisher) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Image is what the partitions have caught up with.
func (p *publisher) Image() *metadata.Image { return p.image.Load() }

// Changed gives a channel that is closed with the next image. Take it before looking at Image.
func (p *publisher) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// activate makes the node take up its roles, now and with every later image. It is called once, when the image shows the
// node's own registration: before that, roles are memories of earlier runs.
func (p *publisher) activate() {
	done := make(chan struct{})
	p.publish(published{replies: []func(){func() {
		p.active = true
		p.report(p.manager.Activate(p.now(), p.Image(), p.host))
		p.onRoles(p.Image(), nil)
		p.follow(p.Image(), nil)
		close(done)
	}}})
	<-done
}

// remake makes the replicas for which there was no space, between two images.
func (p *publisher) remake() {
	p.publish(published{replies: []func(){func() {
		p.report(p.manager.Remake(p.now(), p.Image(), p.host))
		p.follow(p.Image(), nil)
	}}})
}

// run applies until close, then lets what is left go.
func (p *publisher) run() {
	for {
		<-p.wake
		p.mu.Lock()
		n, closed := p.next, p.closed
		p.next = published{}
		p.mu.Unlock()
		p.apply(n)
		if closed {
			return
		}
	}
}

func (p *publisher) apply(n published) {
	if n.image != nil {
		began := p.now()
		if n.diff != nil {
			p.report(p.manager.Apply(p.now(), n.image, n.diff, p.active, p.host))
		}
		if p.active {
			p.onRoles(n.image, n.diff)
		}
		p.image.Store(n.image)
		if p.active {
			p.follow(n.image, n.diff)
		}
		p.mu.Lock()
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		p.onImage(n.image, n.diff, p.now().Sub(began))
	}
	for _, f := range n.replies {
		f()
	}
}

func (p *publisher) report(a replica.Applied) {
	for _, f := range a.Failed {
		p.log.Error("a replica is not what the metadata says", "partition", f.Partition.String(), "error", f.Err)
	}
	for _, tp := range a.Kept {
		p.log.Error("a replica lost records and serves what it has, because no other is in sync", "partition", tp.String())
	}
	for _, tp := range a.Emptied {
		p.log.Error("a partition has lost all its records: an operator had this replica elected, whose log is gone, and it begins empty",
			"partition", tp.String())
	}
	for _, tp := range a.Rebuilt {
		p.log.Warn("a replica whose log directory is gone is copied from its leader anew", "partition", tp.String())
	}
	if len(a.Resumed) > 0 {
		p.onMoves(a.Resumed)
	}
	if len(a.Directories) > 0 {
		p.onReport(a.Directories)
	}
}

func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.poke()
}
