package coordinator

import (
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// phase is where a shard is in its life. A closed shard stays closed: leading again takes a new one.
type phase uint8

const (
	loading phase = iota
	failed        // the load could not read; it is tried again
	active
	closed
)

func (p phase) String() string { return [...]string{"loading", "failed", "active", "closed"}[p] }

// shard is one partition of the topic while this node leads it.
type shard struct {
	r       *Runtime
	tp      kafka.TopicPartition
	topicID kafka.UUID

	mu      sync.Mutex // guards what follows, but for the machine of a shard that is loading: that is the load's
	phase   phase
	tries   int // loads that failed one after the other
	part    *replica.Partition
	machine Machine
	image   *metadata.Image
	epoch   kafka.LeaderEpoch // in which the shard was loaded
	rnd     *rand.Rand
	parked  line                 // what the machine keeps
	verify  replica.Verification // of the request that is being handled
	guard   uint64
	queue   []Event // events to handle, last first; empty between events
	builder record.Builder
	buffer  []byte // for the next batch

	writes  writes
	timers  timers
	armed   time.Time // when the timer fires; zero: there is none
	cancel  func()
	loadEnd *loadEnd // while what was loaded is not all committed
}

func newShard(r *Runtime, topicID kafka.UUID, partition int32) *shard {
	return &shard{r: r, tp: partitionName(r.o.Topic, partition), topicID: topicID}
}

// request handles a client's request, unless there is a reason not to.
func (s *shard) request(p *Pending) {
	now := s.r.o.Now()
	var out outbox
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		p.answer.Set(Answer{Err: err})
		return
	}
	s.handle(now, p, &out)
	s.arm(now)
	s.mu.Unlock()
	out.run(s.r.o.Host)
}

// refusal is why the shard takes no request. The caller holds s.mu, as with all that follows unless it says otherwise.
func (s *shard) refusal() error {
	switch s.phase {
	case loading:
		return kafka.CoordinatorLoadInProgress
	case active:
		return nil
	}
	return kafka.NotCoordinator
}

// imageChanged tells the machine of newer metadata. Without s.mu.
func (s *shard) imageChanged(image *metadata.Image, diff *metadata.Diff) {
	now := s.r.o.Now()
	var out outbox
	s.mu.Lock()
	if s.phase == active && s.image != image {
		s.image = image
		s.handle(now, ImageChanged{Image: image, Diff: diff}, &out)
		s.arm(now)
	}
	s.mu.Unlock()
	out.run(s.r.o.Host)
}

// event gives the machine an event of its own, which some work has brought. What comes after the shard has gone is of
// nobody's interest. Without s.mu.
func (s *shard) event(e Event) {
	now := s.r.o.Now()
	var out outbox
	s.mu.Lock()
	if s.phase == active {
		s.handle(now, e, &out)
		s.arm(now)
	}
	s.mu.Unlock()
	out.run(s.r.o.Host)
}

// alive says whether an event would be heard. Without s.mu.
func (s *shard) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == active
}

// inspect shows the machine. Without s.mu.
func (s *shard) inspect(f func(Machine)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusal(); err != nil {
		return err
	}
	f(s.machine)
	return nil
}

// info describes the shard. Without s.mu.
func (s *shard) info() ShardInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ShardInfo{Partition: s.tp.Partition, State: s.phase.String(), Parked: s.parked.size, Waiting: s.writes.waiting.size}
}

// handle lets the machine handle e and what follows from it.
func (s *shard) handle(now time.Time, e Event, out *outbox) {
	var p *Pending
	defer func() {
		if x := recover(); x != nil {
			s.broke(x, p, out)
		}
	}()
	s.queue = append(s.queue, e)
	for n := len(s.queue); n > 0; n = len(s.queue) {
		e := s.queue[n-1]
		s.queue[n-1] = nil
		s.queue = s.queue[:n-1]
		var ok bool
		if p, ok = e.(*Pending); ok {
			s.verify, s.guard = p.Verify, p.Guard
		}
		s.carryOut(now, s.machine.Handle(now, e, s.rnd), out)
		s.verify, s.guard = replica.Unverified, 0
		if ok && p.stay.at == arrived {
			p.stay.at = parked
			s.parked.push(p)
		}
		s.r.o.Metrics.Events.Inc()
	}
}

// broke contains a mistake of ours in handling an event, of p if it was a request: what the machine has in memory cannot be
// trusted any more, but its log can, so the shard is loaded anew. Everything else goes on: a lock that stays behind would
// stop whoever tells shards of commits, and with it all partitions.
func (s *shard) broke(why any, p *Pending, out *outbox) {
	s.r.o.Log.Error("a coordinator broke and is loaded anew", "partition", s.tp.String(), "panic", why,
		"stack", string(debug.Stack()))
	s.phase, s.queue, out.broken = failed, nil, s
	if p != nil && p.stay.at == arrived {
		p.stay.answer = Answer{Err: kafka.UnknownServerError}
		out.send(p)
	}
}

// carryOut does what a result says, and what its Then says after it.
func (s *shard) carryOut(now time.Time, res Result, out *outbox) {
	for {
		var w *write
		var err error
		if len(res.Records) > 0 {
			w, err = s.write(now, &res, out)
		}
		s.reply(now, &res, w, err, out)
		if err == nil {
			s.follow(&res, w, out)
		}
		if res.Then == nil {
			return
		}
		res = res.Then(now, err)
	}
}

// follow does what a result entails beside its records and replies. w is what was written, nil when nothing was to be.
func (s *shard) follow(res *Result, w *write, out *outbox) {
	for _, t := range res.Timers {
		s.timers.set(t)
	}
	for i := len(res.Next) - 1; i >= 0; i-- {
		s.queue = append(s.queue, res.Next[i])
	}
	if len(res.Outgoing) == 0 {
		return
	}
	if w == nil {
		w = s.writes.lastOf(res)
	}
	if w == nil {
		out.hand(s, res.Outgoing)
	} else {
		w.outgoing = append(w.outgoing, res.Outgoing...)
	}
}

// reply lets replies go when what they tell is committed, or with err, which is why it was not even appended.
func (s *shard) reply(now time.Time, res *Result, w *write, err error, out *outbox) {
	if len(res.Replies) == 0 {
		return
	}
	if w == nil && err == nil {
		w = s.writes.lastOf(res)
	}
	for i := range res.Replies {
		p := res.Replies[i].To
		if p == nil || p.stay.at >= waits {
			continue // answered before
		}
		if p.stay.at == parked {
			s.parked.remove(p)
		}
		p.stay.answer = res.Replies[i].Answer
		if err != nil {
			p.stay.answer = Answer{Err: err}
		}
		if w == nil || flaw.In(flaw.ReplyEarly) {
			out.send(p)
		} else {
			s.writes.hold(p, w, now.Add(s.r.o.CommitTimeout()))
		}
	}
}

// close ends the shard. What is parked is answered; what waits for a commit is answered by the partition, which no longer
// leads or will. Without s.mu.
func (s *shard) close() {
	var out outbox
	s.mu.Lock()
	if m, ok := s.machine.(interface{ Close() }); ok {
		m.Close()
	}
	s.phase, s.machine = closed, nil
	s.disarm()
	for p := s.parked.first; p != nil; p = s.parked.first {
		s.parked.remove(p)
		p.stay.answer = Answer{Err: kafka.NotCoordinator}
		out.send(p)
	}
	end := s.loadEnd
	s.mu.Unlock()
	out.run(s.r.o.Host)
	if end != nil {
		end.settle(kafka.NotCoordinator)
	}
}

// outbox is what an event leaves to be done once the lock is released.
type outbox struct {
	effects    replica.Effects
	more       []replica.Effects
	used       bool
	head, tail *Pending
	shard      *shard // whose work is handed out
	work       []Work
	broken     *shard // to be loaded anew
}

// add takes the effects of an append.
func (o *outbox) add(e replica.Effects) {
	if !o.used {
		o.effects, o.used = e, true
		return
	}
	o.more = append(o.more, e)
}

// hand takes work of a shard that may be handed out now.
func (o *outbox) hand(s *shard, work []Work) {
	o.shard = s
	o.work = append(o.work, work...)
}

// send takes a request whose answer is decided. The caller holds the shard's lock.
func (o *outbox) send(p *Pending) {
	p.stay.at, p.stay.next = answered, nil
	if o.tail == nil {
		o.head = p
	} else {
		o.tail.stay.next = p
	}
	o.tail = p
}

// run does it.
func (o *outbox) run(h replica.Host) {
	if o.used {
		o.effects.Run(h)
		for i := range o.more {
			o.more[i].Run(h)
		}
	}
	for p := o.head; p != nil; {
		next := p.stay.next
		p.stay.next = nil
		p.answer.Set(p.stay.answer)
		p = next
	}
	for _, w := range o.work {
		s := o.shard
		s.r.o.Work(w, ShardID{Partition: s.tp.Partition, LeaderEpoch: s.epoch}, s.alive, s.event)
	}
	if o.broken != nil {
		o.broken.close()
		o.broken.r.restart(o.broken, 1)
	}
}
