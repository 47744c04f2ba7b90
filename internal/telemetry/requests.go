package telemetry

import (
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
)

// Phases are the parts of a request's life.
type Phases struct {
	Memory, Receive, Handle, Pending, Queue, Send time.Duration
}

// Total is the time a client waits: everything from the last byte of the request.
func (p Phases) Total() time.Duration { return p.Handle + p.Pending + p.Queue + p.Send }

// Requests counts requests by API.
type Requests struct {
	r    *Registry
	apis []*api // by API key; nil: not served
}

type api struct {
	name                     string
	requests, dropped        Counter
	requestBytes, replyBytes Counter
	seconds                  Histogram
	phases                   [6]Counter
	errors                   [maxCode + 2]atomic.Pointer[Counter] // by code + 1, made when first needed
}

// maxCode is the highest code with a counter of its own; higher ones share it.
const maxCode = 255

// NewRequests makes the handles of the APIs that are served, by API key.
func NewRequests(r *Registry, names map[int16]string) *Requests {
	out := &Requests{r: r}
	for key, name := range names {
		for len(out.apis) <= int(key) {
			out.apis = append(out.apis, nil)
		}
		out.apis[key] = newAPI(r, name)
	}
	return out
}

func newAPI(r *Registry, name string) *api {
	a := &api{name: name,
		requests: r.Counter("moldau_requests_total", name), dropped: r.Counter("moldau_responses_dropped_total", name),
		requestBytes: r.Counter("moldau_request_bytes_total", name),
		replyBytes:   r.Counter("moldau_response_bytes_total", name),
		seconds:      r.Histogram("moldau_request_seconds", name)}
	for i, phase := range []string{"memory", "receive", "handle", "pending", "queue", "send"} {
		a.phases[i] = r.Counter("moldau_request_phase_seconds_total", name, phase)
	}
	return a
}

// Request is one finished request.
type Request struct {
	Key                      int16
	Code                     kafka.Code
	Dropped                  bool
	RequestBytes, ReplyBytes int64
	Phases                   Phases
}

// Done counts a finished request. A key that is not served is not counted.
func (q *Requests) Done(x Request) {
	if x.Key < 0 || int(x.Key) >= len(q.apis) || q.apis[x.Key] == nil {
		return
	}
	a := q.apis[x.Key]
	a.requests.Inc()
	a.requestBytes.Add(int(x.RequestBytes))
	a.replyBytes.Add(int(x.ReplyBytes))
	a.seconds.Observe(x.Phases.Total())
	for i, d := range [...]time.Duration{x.Phases.Memory, x.Phases.Receive, x.Phases.Handle, x.Phases.Pending,
		x.Phases.Queue, x.Phases.Send} {
		if d > 0 {
			a.phases[i].AddSeconds(d)
		}
	}
	if x.Dropped {
		a.dropped.Inc()
	}
	if x.Code != kafka.None {
		a.failed(q.r, x.Code)
	}
}

// failed counts a request by its code. Two goroutines may both make the counter: it is the same one.
func (a *api) failed(r *Registry, code kafka.Code) {
	slot := &a.errors[min(max(int(code), -1), maxCode)+1]
	c := slot.Load()
	if c == nil {
		made := r.Counter("moldau_request_errors_total", a.name, code.Name())
		c = &made
		slot.Store(c)
	}
	c.Inc()
}

// Connections counts the connections of one listener.
type Connections struct {
	r        *Registry
	listener string
	open     Gauge
	opened   Counter
}

// NewConnections makes the handles of a listener.
func NewConnections(r *Registry, listener string) *Connections {
	return &Connections{r: r, listener: listener, open: r.Gauge("moldau_connections", listener),
		opened: r.Counter("moldau_connections_opened_total", listener)}
}

// Opened counts an accepted connection.
func (c *Connections) Opened() { c.opened.Inc(); c.open.Add(1) }

// Closed counts the end of an accepted connection.
func (c *Connections) Closed(reason string) {
	c.open.Add(-1)
	c.r.Counter("moldau_connections_closed_total", c.listener, reason).Inc()
}

// Refused counts a connection that was closed at once.
func (c *Connections) Refused(reason string) {
	c.r.Counter("moldau_connections_refused_total", c.listener, reason).Inc()
}

// Memory are the gauges of one pool of request memory. Use and waiters are asked for when metrics are read.
type Memory struct {
	Pool  string
	Limit int64
	Used  func() int64
}

// WatchMemory publishes the pools of the request memory and the number of connections that wait for it.
func WatchMemory(r *Registry, pools []Memory, waiting func() int) {
	for _, p := range pools {
		r.Gauge("moldau_memory_limit_bytes", p.Pool).Set(p.Limit)
		r.GaugeFunc(func() float64 { return float64(p.Used()) }, "moldau_memory_used_bytes", p.Pool)
	}
	r.GaugeFunc(func() float64 { return float64(waiting()) }, "moldau_memory_waiting_connections")
}

// Waiting counts the requests of one kind (fetch or produce) that wait.
type Waiting struct {
	Now     Gauge
	Expired Counter
}

// NewWaiting makes the handles of a kind.
func NewWaiting(r *Registry, kind string) Waiting {
	return Waiting{r.Gauge("moldau_waiting_requests", kind), r.Counter("moldau_waiting_expired_total", kind)}
}

// FetchSessions are the handles of the cache of fetch sessions.
type FetchSessions struct {
	Sessions, Partitions Gauge
	Evictions            Counter
}

// NewFetchSessions makes the handles.
func NewFetchSessions(r *Registry) FetchSessions {
	return FetchSessions{r.Gauge("moldau_fetch_sessions"), r.Gauge("moldau_fetch_session_partitions"),
		r.Counter("moldau_fetch_session_evictions_total")}
}
