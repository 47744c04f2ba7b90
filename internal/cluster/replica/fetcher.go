package replica

import (
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// FetcherOptions are what a Fetcher depends on.
type FetcherOptions struct {
	Self   kafka.NodeID
	Leader kafka.NodeID
	// Epoch gives the broker epoch of this node's present registration (KIP-903).
	Epoch func() kafka.BrokerEpoch
	// Wake is told, from any goroutine and with no lock held, that Next is worth a call. It must not block.
	Wake func()
	// Failed is told what keeps a replica from being copied, other than that one of two nodes has not seen the newest
	// metadata yet; nil: nobody is.
	Failed func(p *Partition, err error)
	// Copied is told how many bytes of records came; nil: nobody is.
	Copied func(bytes int)
	// Quota bounds what is copied for throttled replicas that are not in sync; nil: nothing does.
	Quota *Quota
	// MaxWait, MinBytes, MaxBytes and PartitionBytes are replica.fetch.wait.max.ms, replica.fetch.min.bytes,
	// replica.fetch.response.max.bytes and replica.fetch.max.bytes.
	MaxWait                            time.Duration
	MinBytes, MaxBytes, PartitionBytes int32
	// Backoff is replica.fetch.backoff.ms: the longest pause after an error. The first ones are shorter, since what is
	// wrong is mostly that one of two nodes has not seen the newest metadata yet.
	Backoff time.Duration
}

// firstPause is the pause after the first error in a row; each further one doubles it.
const firstPause = 20 * time.Millisecond

// Fetcher copies from one leader what it leads of the replicas of one log directory. It is the order of a follower's
// steps, for any shell to run: a request is sent, its whole answer appended, all of that synced, and only then does the
// next request leave, because its positions are the acknowledgement.
//
// The shell sends what Next gives, in that order over one connection, and hands what comes back, in the same order, to
// Answered. But for the wakings a Fetcher is not safe for concurrent use.
type Fetcher struct {
	o       FetcherOptions
	watcher Watcher

	followed map[partitionID]*followed
	session  followerSession
	flights  []flight // requests whose answers are awaited
	requests int      // sent so far
	failures int      // of requests, in a row
	resume   time.Time
	dirty    []*followed // whose next position is to be looked at
	paused   []*followed
	fresh    bool // a replica or term was taken up since the last request

	mu    sync.Mutex
	moved []*Partition
}

// flight is one request under way.
type flight struct {
	number int
	// lookUps are the replicas that a ListOffsets asks about; nil for a Fetch.
	lookUps []*followed
}

// followed is one replica in the eyes of its fetcher.
type followed struct {
	p         *Partition
	term      kafka.LeaderEpoch // taken up last
	state     followState
	next      Position // to be fetched from
	at        Position // what the leader was told last, by request number named
	named     int
	leaderEnd kafka.Offset // as looked up
	failures  int
	resume    time.Time
	dirty     bool // in Fetcher.dirty
	heard     bool // an answer of this term came, so that it is known how far behind it is
	gone      bool
}

// followState says what is to be done for a replica.
type followState int8

const (
	fetching    followState = iota
	pausing                 // after an error
	endWanted               // the leader does not have the position: where does its log end,
	startWanted             // and where does it begin?
)

// NewFetcher makes a Fetcher that follows nothing yet.
func NewFetcher(o FetcherOptions) *Fetcher {
	f := &Fetcher{o: o, followed: make(map[partitionID]*followed), session: newFollowerSession()}
	f.watcher = Watcher{Durable: true, OnMove: f.onMove}
	return f
}

// onMove runs wherever a replica's disk or role has moved.
func (f *Fetcher) onMove(p *Partition) {
	f.mu.Lock()
	f.moved = append(f.moved, p)
	f.mu.Unlock()
	f.o.Wake()
}

func idOf(p *Partition) partitionID { return partitionID{p.topicID, p.tp.Partition} }

// Follow begins to follow for a replica, or takes up a new term of the same leader. In a known term it changes nothing.
func (f *Fetcher) Follow(p *Partition) {
	_, term := p.Leadership()
	x := f.followed[idOf(p)]
	switch {
	case x != nil && x.p == p && x.term == term:
		return
	case x != nil && x.p != p:
		f.Drop(x.p)
		x = nil
	}
	if x == nil {
		x = &followed{p: p}
		f.followed[idOf(p)] = x
		p.Watch(&f.watcher)
	}
	x.term, x.state, x.failures, x.heard = term, fetching, 0, false
	f.fresh = true
	f.mark(x)
}

// Drop ends following for a replica. An answer that is under way is not applied to it any more.
func (f *Fetcher) Drop(p *Partition) {
	x := f.followed[idOf(p)]
	if x == nil || x.p != p {
		return
	}
	delete(f.followed, idOf(p))
	x.gone = true
	p.Unwatch(&f.watcher)
	f.session.forget(idOf(p))
}

// Close drops everything.
func (f *Fetcher) Close() {
	for _, x := range f.followed { // the order does not show
		f.Drop(x.p)
	}
}

// Len is the number of replicas that are followed.
func (f *Fetcher) Len() int { return len(f.followed) }

func (f *Fetcher) mark(x *followed) {
	if !x.dirty {
		x.dirty = true
		f.dirty = append(f.dirty, x)
	}
}

// Next gives the request to send now. Without one it should be called again at wake, the zero time if only Wake or an
// answer can bring something.
func (f *Fetcher) Next(now time.Time) (r kmsg.Request, wake time.Time) {
	f.takeMoved()
	wake = f.unpause(now)
	if !f.mayFly() {
		return nil, wake
	}
	if now.Before(f.resume) {
		return nil, f.resume
	}
	synced, lookUps := f.refresh()
	if f.throttle(now) {
		wake = f.unpause(now)
	}
	switch {
	case !synced:
		return nil, wake // the disk will wake us
	case len(lookUps) > 0:
		r = f.lookUp(lookUps)
	case len(f.session.members) == 0:
		return nil, wake
	default:
		r = f.fetch(now, wake)
	}
	return r, time.Time{}
}

// mayFly says whether a request may leave although another is under way. One that parks at the leader would keep new
// replicas, and new terms, waiting for its end: the session's next request overtakes it.
func (f *Fetcher) mayFly() bool {
	switch len(f.flights) {
	case 0:
		return true
	case 1:
		return f.fresh && f.session.open() && f.flights[0].lookUps == nil
	}
	return false
}

// takeMoved marks the replicas that have moved.
func (f *Fetcher) takeMoved() {
	f.mu.Lock()
	moved := f.moved
	f.moved = nil
	f.mu.Unlock()
	for _, p := range moved {
		if x := f.followed[idOf(p)]; x != nil && x.p == p && x.state == fetching {
			f.mark(x)
		}
	}
}

// unpause lets replicas go on whose pause is over, and says when the next one's ends.
func (f *Fetcher) unpause(now time.Time) (next time.Time) {
	f.paused = slices.DeleteFunc(f.paused, func(x *followed) bool {
		switch {
		case x.gone || x.state != pausing:
			return true
		case x.resume.After(now):
			if next.IsZero() || x.resume.Before(next) {
				next = x.resume
			}
			return false
		}
		x.state = fetching
		f.mark(x)
		return true
	})
	return next
}

// refresh brings the session up to date with the replicas that changed. synced is false while one of them has something
// that is not on the disk; lookUps are those that must learn where the leader's log ends or begins.
func (f *Fetcher) refresh() (synced bool, lookUps []*followed) {
	synced = true
	f.dirty = slices.DeleteFunc(f.dirty, func(x *followed) bool {
		at, onDisk, ok := x.p.FetchPosition()
		switch {
		case x.gone || x.state == pausing:
		case !ok || at.Leader != f.o.Leader: // the replica is offline, or an image on its way says more
			f.session.forget(idOf(x.p))
		case !onDisk:
			synced = false
			return false
		case x.state == fetching:
			x.next = at
			f.session.want(x)
		default:
			x.next = at
			lookUps = append(lookUps, x)
		}
		x.dirty = false
		return true
	})
	return synced, lookUps
}

// fetch makes the next Fetch. The leader holds it no longer than until another replica's pause ends.
func (f *Fetcher) fetch(now, due time.Time) kmsg.Request {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(r.MaxVersion())
	r.ReplicaState.ID, r.ReplicaState.Epoch = int32(f.o.Self), int64(f.o.Epoch())
	r.MinBytes, r.MaxBytes = f.o.MinBytes, f.o.MaxBytes
	wait := f.o.MaxWait
	if !due.IsZero() {
		wait = min(wait, max(due.Sub(now), time.Millisecond))
	}
	r.MaxWaitMillis = int32(wait.Milliseconds())
	f.session.fill(r, f.depart(nil), f.o.PartitionBytes)
	f.fresh = false
	return r
}

// depart notes a request that is about to leave.
func (f *Fetcher) depart(lookUps []*followed) (number int) {
	f.requests++
	f.flights = append(f.flights, flight{number: f.requests, lookUps: lookUps})
	return f.requests
}

// lookUp asks for one end of the leader's log for all replicas that want that one.
func (f *Fetcher) lookUp(xs []*followed) kmsg.Request {
	wanted, timestamp := endWanted, LatestOffset
	if !slices.ContainsFunc(xs, func(x *followed) bool { return x.state == endWanted }) {
		wanted, timestamp = startWanted, EarliestOffset
	}
	var asked []*followed
	for _, x := range xs {
		if x.state == wanted {
			asked = append(asked, x)
		} else {
			f.mark(x) // with the next request
		}
	}
	slices.SortFunc(asked, compareFollowed)
	r := kmsg.NewPtrListOffsetsRequest()
	r.SetVersion(r.MaxVersion())
	r.ReplicaID = int32(f.o.Self)
	number := f.depart(asked)
	for _, x := range asked {
		x.at, x.named = x.next, number
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = x.p.tp.Partition, int32(x.next.LeaderEpoch), timestamp
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != x.p.tp.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = x.p.tp.Topic
			r.Topics = append(r.Topics, t)
		}
		t := &r.Topics[len(r.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return r
}
