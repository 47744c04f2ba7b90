package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/edge/api"
	"moldau/internal/edge/peer"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// How long a request to the controller waits after a failure before it is sent again, while nobody else takes office.
const (
	firstErrandRetry = 20 * time.Millisecond
	lastErrandRetry  = 500 * time.Millisecond
)

// maxErrands bounds the requests on their way to the active controller.
const maxErrands = maxControlQueue

// The lanes to the active controller. What waits for commits must not stand before what keeps the broker alive.
const (
	lifeLane    = "life"    // registration and heartbeats
	ownLane     = "own"     // what else the node asks of the controller
	forwardLane = "forward" // clients' requests
)

// relay takes requests to the active controller, wherever that is, through changes of office (KIP-500, KIP-590). On a lone
// node it is not used.
type relay struct {
	n       *Node
	office  *exchange
	pool    *peer.Pool
	timeout time.Duration // request.timeout.ms: how long a request is carried about

	errands atomic.Int64

	mu      sync.Mutex
	unseen  []unseen
	shown   kafka.Offset // what the image that partitions have caught up with holds
	stopped bool
}

// unseen is an answer that waits until this node's image shows what it tells of.
type unseen struct {
	offset kafka.Offset
	tell   func()
}

// errand is one request on its way.
type errand struct {
	r controller.Request
	// client, when not nil, is whom the request is forwarded for.
	client *server.Call
	// once says that a failure is the end: the sender comes again by itself.
	once  bool
	until time.Time
	retry time.Duration
	out   *promise.Promise[api.ControlReply]
}

func newRelay(n *Node, office *exchange, pool *peer.Pool) *relay {
	return &relay{n: n, office: office, pool: pool, shown: kafka.NoOffset,
		timeout: time.Duration(n.config.Int64("request.timeout.ms")) * time.Millisecond}
}

// submit takes a request of the node itself, or with client one that it forwards, to the active controller and gives its
// answer: REQUEST_TIMED_OUT when none was found that would answer in time, NOT_CONTROLLER when the node stops.
func (l *relay) submit(r controller.Request, client *server.Call, once bool) *promise.Promise[api.ControlReply] {
	out := &promise.Promise[api.ControlReply]{}
	if l.errands.Add(1) > maxErrands {
		l.errands.Add(-1)
		out.Set(api.ControlReply{Err: kafka.RequestTimedOut})
		return out
	}
	out.OnDone(func(api.ControlReply) { l.errands.Add(-1) })
	l.run(&errand{r: r, client: client, once: once, until: l.n.o.Now().Add(l.timeout), retry: firstErrandRetry, out: out})
	return out
}

// run asks whoever is in office.
func (l *relay) run(e *errand) {
	left := e.until.Sub(l.n.o.Now())
	if left <= 0 {
		e.out.Set(api.ControlReply{Err: kafka.RequestTimedOut})
		return
	}
	at := l.office.inOffice()
	switch at.leader {
	case kafka.NoNode:
		l.again(e, at)
	case l.n.self.ID:
		l.here(e, at)
	default:
		l.send(e, at, left)
	}
}

// here asks this node's own controller.
func (l *relay) here(e *errand, at office) {
	if !controller.Handles(e.r.Body.Key()) {
		l.n.raft(e.r.Body).OnDone(func(body kmsg.Response) {
			if body == nil {
				l.again(e, at)
				return
			}
			e.out.Set(api.ControlReply{Body: body})
		})
		return
	}
	l.n.control.Submit(e.r).OnDone(func(r api.ControlReply) {
		if kafka.CodeOf(r.Err) == kafka.NotController {
			l.again(e, at)
			return
		}
		e.out.Set(r)
	})
}

func (l *relay) send(e *errand, at office, left time.Duration) {
	request, lane := e.r.Body, ownLane
	switch {
	case e.client != nil:
		request, lane = api.NewEnvelope(e.client, e.r.Body), forwardLane
	case request.Key() == int16(kmsg.BrokerHeartbeat) || request.Key() == int16(kmsg.BrokerRegistration):
		lane = lifeLane
	}
	to := peer.Address{Host: at.at.Host, Port: int(at.at.Port)}
	var once sync.Once
	answer := l.pool.Send(to, lane, request, left)
	forget := l.office.watch(at, func() {
		l.n.after(lastWord, func() { once.Do(func() { l.again(e, at) }) })
	})
	answer.OnDone(func(a peer.Answer) {
		forget()
		once.Do(func() { l.answered(e, at, a) })
	})
}

// lastWord is how long after the end of its office a controller's answer is still waited for. A node that hangs never
// gives one.
const lastWord = 50 * time.Millisecond

// answered takes what a controller answered, or tries again: like Kafka, even what may have been done already.
func (l *relay) answered(e *errand, at office, a peer.Answer) {
	if a.Err != nil {
		if kafka.CodeOf(a.Err) == kafka.UnsupportedVersion {
			e.out.Set(api.ControlReply{Err: a.Err})
			return
		}
		l.again(e, at)
		return
	}
	if e.client == nil {
		if deniesOffice(a.Body) {
			l.again(e, at)
			return
		}
		e.out.Set(api.ControlReply{Body: a.Body})
		return
	}
	enclosed := a.Body.(*kmsg.EnvelopeResponse)
	body, err := api.OpenEnvelope(e.r.Body, enclosed)
	switch {
	case kafka.CodeOf(err) == kafka.NotController:
		l.again(e, at)
	case err != nil:
		e.out.Set(api.ControlReply{Err: err})
	default:
		l.whenShown(api.EnvelopeOffset(enclosed), func() { e.out.Set(api.ControlReply{Body: body}) })
	}
}

// again tries once more, a little later or as soon as somebody else is in office.
func (l *relay) again(e *errand, seen office) {
	l.mu.Lock()
	stopped := l.stopped
	l.mu.Unlock()
	if e.once || stopped || l.n.isStopping() {
		e.out.Set(api.ControlReply{Err: kafka.NotController})
		return
	}
	wait := e.retry
	e.retry = min(2*e.retry, lastErrandRetry)
	var once sync.Once
	turn := func() { once.Do(func() { l.run(e) }) }
	if seen.leader != kafka.NoNode {
		l.n.after(wait, turn)
		return
	}
	forget := l.office.watch(seen, turn)
	l.n.after(wait, func() {
		forget()
		turn()
	})
}

// deniesOffice says whether the answer to a request of the node's own says NOT_CONTROLLER.
func deniesOffice(r kmsg.Response) bool {
	var code int16
	switch r := r.(type) {
	case *kmsg.BrokerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		code = r.ErrorCode
	case *kmsg.AlterPartitionResponse:
		code = r.ErrorCode
	case *kmsg.AssignReplicasToDirsResponse:
		code = r.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = r.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		code = r.ErrorCode
	}
	return kafka.Code(code) == kafka.NotController
}

// whenShown calls f once this node's image holds everything up to offset; NoOffset: at once.
func (l *relay) whenShown(offset kafka.Offset, f func()) {
	l.mu.Lock()
	if !l.stopped && offset > l.shown {
		l.unseen = append(l.unseen, unseen{offset, f})
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

// imageAt lets answers go whose matter the image shows now.
func (l *relay) imageAt(offset kafka.Offset) {
	l.mu.Lock()
	l.shown = max(l.shown, offset)
	var ready []func()
	rest := l.unseen[:0]
	for _, u := range l.unseen {
		if u.offset <= l.shown {
			ready = append(ready, u.tell)
		} else {
			rest = append(rest, u)
		}
	}
	clear(l.unseen[len(rest):])
	l.unseen = rest
	l.mu.Unlock()
	for _, f := range ready {
		f()
	}
}

// stop lets go of everything: what was answered is told, what was not is sent away.
func (l *relay) stop() {
	l.mu.Lock()
	l.stopped = true
	ready := l.unseen
	l.unseen = nil
	l.mu.Unlock()
	for _, u := range ready {
		u.tell()
	}
}
