package peer

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// Limits and times of a pool.
const (
	defaultMaxFrame       = 100 << 20
	defaultDialTimeout    = 10 * time.Second // socket.connection.setup.timeout.ms
	defaultMaxDialTimeout = 30 * time.Second // socket.connection.setup.timeout.max.ms
	firstRedial           = 20 * time.Millisecond
	lastRedial            = time.Second
	// maxWaiting is how many requests of one link may wait for their turn on the connection.
	maxWaiting = 1 << 12
	// maxLinks is how many links are remembered before those without a connection are forgotten.
	maxLinks = 256
)

// Options are what a pool needs from outside.
type Options struct {
	// ClientID goes into every request's header, with the lane: "broker-1-quorum".
	ClientID string
	// Dial opens connections; nil dials TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Log  *slog.Logger
	// DialTimeout bounds the dial together with the exchange of versions. It doubles with every failure in a row up to
	// MaxDialTimeout (KIP-601). 0: 10 s and 30 s.
	DialTimeout, MaxDialTimeout time.Duration
	// MaxFrameBytes is the largest answer; a peer that announces more loses its connection. 0: 100 MiB.
	MaxFrameBytes int
}

// Address is where a peer listens.
type Address struct {
	Host string
	Port int
}

// String gives host:port.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Answer is what became of a request: a body or an *Error.
type Answer struct {
	Body kmsg.Response
	Err  error

	frame *frame // nil: nothing to give back
}

// Release gives the memory of a large answer back for the next one: nothing may use the bytes in Body any more
// (records; strings are copies). It is never wrong not to call it.
func (a Answer) Release() { a.frame.release() }

// Floor is a request that loses its meaning below a version: where the peer has no newer one it is not sent, and ends
// with UNSUPPORTED_VERSION.
type Floor interface{ LowestVersion() int16 }

// Pool keeps the connections to peers. It is safe for concurrent use.
type Pool struct {
	o      Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	loops  sync.WaitGroup
	frames frames

	mu     sync.Mutex
	closed bool
	links  map[linkKey]*link
}

type linkKey struct {
	to   Address
	lane string
}

// NewPool makes a pool without connections. Close it.
func NewPool(o Options) *Pool {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.MaxDialTimeout == 0 {
		o.MaxDialTimeout = max(defaultMaxDialTimeout, o.DialTimeout)
	}
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = defaultMaxFrame
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{o: o, ctx: ctx, cancel: cancel, links: map[linkKey]*link{}}
}

// Close breaks all connections, ends all requests and waits for the goroutines that served them. Callbacks of promises
// may still run on timers for a moment.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	links := p.links
	p.links = nil
	p.mu.Unlock()
	p.cancel()
	for _, l := range links {
		l.close()
	}
	p.loops.Wait()
}

// Rename changes the client id that connections of lanes not used yet will give.
func (p *Pool) Rename(clientID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.o.ClientID = clientID
}

// Send asks a peer. The request goes out at the version it has, or the newest that the peer knows if that is older
// (SetVersion is called then); it belongs to the pool until it is answered. A request without an answer (acks=0) cannot
// be sent. Requests of one lane reach the peer in the order of the calls as long as the connection holds.
//
// An answer that does not come within timeout breaks the connection, and with it all that is outstanding there: what
// was asked later could not be answered earlier. Send never blocks, but the promise may be set already.
func (p *Pool) Send(to Address, lane string, r kmsg.Request, timeout time.Duration) *promise.Promise[Answer] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return promise.Done(Answer{Err: &Error{To: to, Lane: lane, Code: kafka.NetworkException, Err: errClosed}})
	}
	return p.link(to, lane).send(r, timeout)
}

// link gives the way to an address, a new one if need be. Needs mu.
func (p *Pool) link(to Address, lane string) *link {
	key := linkKey{to, lane}
	l, ok := p.links[key]
	if !ok {
		p.forgetDormant()
		l = &link{p: p, to: to, lane: lane, clientID: p.o.ClientID + "-" + lane, wake: make(chan struct{}, 1)}
		p.links[key] = l
	}
	return l
}

// forgetDormant makes room when there are many links, most of them to brokers of long ago. Needs mu.
func (p *Pool) forgetDormant() {
	if len(p.links) < maxLinks {
		return
	}
	for key, l := range p.links {
		if l.dormant() {
			delete(p.links, key)
		}
	}
}
