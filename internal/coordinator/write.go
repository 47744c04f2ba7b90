package coordinator

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// standing is where a request is.
type standing uint8

const (
	arrived  standing = iota
	parked            // the machine keeps it
	waits             // its answer waits for a commit
	answered          // its answer is on its way
)

// stay is a request's time in a shard, guarded by the shard's lock until it is answered.
type stay struct {
	at         standing
	answer     Answer // once the machine has given it
	deadline   time.Time
	prev, next *Pending // in the line of those who are parked, or who wait; then next is the outbox's
	sibling    *Pending // the next one that waits for the same write
}

// line is a queue of requests that any of them may leave. A request stands in one line at most.
type line struct {
	first, last *Pending
	size        int
}

func (l *line) push(p *Pending) {
	p.stay.prev, p.stay.next = l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.stay.next = p
	}
	l.last = p
	l.size++
}

func (l *line) remove(p *Pending) {
	if p.stay.prev == nil {
		l.first = p.stay.next
	} else {
		p.stay.prev.stay.next = p.stay.next
	}
	if p.stay.next == nil {
		l.last = p.stay.prev
	} else {
		p.stay.next.stay.prev = p.stay.prev
	}
	p.stay.prev, p.stay.next = nil, nil
	l.size--
}

// write is one batch on its way to being committed, or what was found in the log and is not yet.
type write struct {
	replica.AppendWaiter
	s           *shard
	scope       string
	wide        bool   // it may concern every scope
	seq         uint64 // rises with the offset
	at          time.Time
	first, last *Pending // who waits for it
	marker      *promise.Promise[error]
	outgoing    []Work // handed out when the batch is committed
}

// writes are the writes of a shard that are not committed, and who waits for them.
type writes struct {
	seq     uint64
	byScope map[string]*write // the last one of each scope
	barrier *write            // the last wide one
	newest  *write

	waiting line // by deadline
}

// add notes a batch that was appended.
func (ws *writes) add(w *write) {
	ws.seq++
	w.seq = ws.seq
	ws.newest = w
	if w.wide {
		ws.barrier = w
		return
	}
	if ws.byScope == nil {
		ws.byScope = map[string]*write{}
	}
	ws.byScope[w.scope] = w
}

// lastOf gives the write that an answer must wait for; nil when everything it may tell of is committed.
func (ws *writes) lastOf(res *Result) *write {
	switch {
	case res.WholeShard && ws.newest != nil:
		return ws.newest
	case res.WholeShard:
		return ws.barrier
	case res.Scope == "":
		return nil
	}
	w := ws.byScope[res.Scope]
	if w == nil || (ws.barrier != nil && ws.barrier.seq > w.seq) {
		return ws.barrier
	}
	return w
}

// hold makes p wait for w until a deadline.
func (ws *writes) hold(p *Pending, w *write, deadline time.Time) {
	p.stay.at, p.stay.deadline, p.stay.sibling = waits, deadline, nil
	if w.last == nil {
		w.first = p
	} else {
		w.last.stay.sibling = p
	}
	w.last = p
	ws.waiting.push(p)
}

// done ends w: who waits for it is answered, with err if there is one.
func (ws *writes) done(w *write, err error, out *outbox) {
	if ws.newest == w {
		ws.newest = nil
	}
	if ws.barrier == w {
		ws.barrier = nil
	}
	if !w.wide && ws.byScope[w.scope] == w {
		delete(ws.byScope, w.scope)
	}
	for p := w.first; p != nil; {
		next := p.stay.sibling
		p.stay.sibling = nil
		if p.stay.at == waits { // and was not given up
			ws.waiting.remove(p)
			if err != nil {
				p.stay.answer = Answer{Err: err}
			}
			out.send(p)
		}
		p = next
	}
	w.first, w.last = nil, nil
}

// expire gives up waiting at a deadline. What was appended stays: whoever asks later waits for it anew.
func (ws *writes) expire(now time.Time, out *outbox) (expired int) {
	for p := ws.waiting.first; p != nil && !p.stay.deadline.After(now); p = ws.waiting.first {
		ws.waiting.remove(p)
		p.stay.answer = Answer{Err: refusalOf(kafka.RequestTimedOut)}
		out.send(p)
		expired++
	}
	return expired
}

// committed is called by the partition when the batch is committed, or never will be.
func (w *write) committed() {
	s, err := w.s, w.Result.Err
	now := s.r.o.Now()
	var out outbox
	s.mu.Lock()
	s.writes.done(w, refusalOf(err), &out)
	lost := isLost(err) && s.phase == active
	if !isLost(err) && s.phase == active {
		out.hand(s, w.outgoing) // what follows from a batch that stays, even if its clients were told of too few replicas
	}
	s.mu.Unlock()
	marker := w.marker
	s.r.o.Metrics.CommitSeconds.Observe(now.Sub(w.at))
	s.r.putWrite(w)
	out.run(s.r.o.Host)
	if marker != nil {
		marker.Set(refusalOf(err))
	}
	if lost {
		s.lose(err)
	}
}

// lose drops what was built on records that may be gone, and loads anew if this node goes on leading.
func (s *shard) lose(err error) {
	s.r.o.Log.Warn("a coordinator lost its log", "partition", s.tp.String(), "error", err)
	s.close()
	s.r.restart(s, 0)
}

func (r *Runtime) newWrite(s *shard, res *Result, now time.Time) *write {
	w := r.writes.Get().(*write)
	w.s, w.scope, w.at = s, res.Scope, now
	w.wide = res.WholeShard || res.Scope == ""
	return w
}

func (r *Runtime) putWrite(w *write) {
	*w = write{AppendWaiter: replica.AppendWaiter{Done: w.Done}}
	r.writes.Put(w)
}
