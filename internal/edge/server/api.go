package server

import (
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// ListenerKind says what a listener serves; a row's Listener is the set of kinds that offer it.
type ListenerKind uint8

// The two kinds of Kafka listeners. A combined row is served on both.
const (
	BrokerListener     ListenerKind = 1 << iota // clients and brokers
	ControllerListener                          // the metadata quorum and what talks to it

	BothListeners = BrokerListener | ControllerListener
)

// API is one row of the table that is the server: one API key, the versions it accepts and the function that
// answers. ApiVersions is derived from the rows, so what has no row is not advertised and its requests close
// the connection.
type API struct {
	Key, Min, Max int16
	Listener      ListenerKind
	// Forward marks requests that a broker passes to the active controller. The server carries it for whoever
	// builds the handlers; Call.Frame has the bytes that an Envelope needs.
	Forward bool
	// Internal marks APIs that only nodes send. Their frames may draw on the budget's internal reserve, so
	// that work which other work waits for (replication, heartbeats) is not starved by clients.
	Internal bool
	// Authorize lists what the caller must be allowed to do, from the decoded request; nil: nothing is
	// needed. It runs only when the server has an Authorizer, and its answers are found by index in
	// Call.Allowed.
	Authorize func(*Call, kmsg.Request) []AccessCheck
	// Access says in words what Authorize asks for; it is for the reference page.
	Access string
	// Handle answers one request. It runs on the connection's reader goroutine, in the order of arrival, and
	// must not block: what has to wait is a promise that is set later. A panic closes the connection and
	// nothing else.
	Handle func(*Call, kmsg.Request) *promise.Promise[Reply]
	// New makes an empty request for decoding; nil means kmsg.RequestForKey.
	New func() kmsg.Request
}

// AccessCheck is one permission that a request needs.
type AccessCheck struct {
	Operation kmsg.ACLOperation
	Type      kmsg.ACLResourceType
	Name      string
}

// Authorizer decides on the checks of one request; the result has one answer per check. It must not block.
type Authorizer interface {
	Authorize(c *Call, checks []AccessCheck) []bool
}

// Reply is the answer to one request. Either Body or Segments carries the response body (both nil with None).
type Reply struct {
	// Body is encoded by the server at the version of the request. It must not change after the promise is
	// set, and may alias the request's bytes only if the handler leaves releasing the lease to the server.
	Body kmsg.Response
	// Segments is the response body in pieces, for responses with bytes that should not pass through the
	// heap: the pieces, one after the other, are exactly what Body.AppendTo would have written. The server
	// adds the frame length and the response header.
	Segments []Segment
	// None means that nothing is sent (Produce with acks=0).
	None bool
	// Close ends the connection after this reply and all before it have left.
	Close bool
	// ThrottleMs is the KIP-219 throttle: the reply leaves at once, then no request of this connection is
	// handled for so long. It is also stored in Body's throttle field, if Body has one.
	ThrottleMs int32
	// Code is the error that metrics count this request under; the wire is not touched.
	Code kafka.Code
	// Release, if set, is called exactly once when the reply has left or was dropped: the extents' files may
	// go.
	Release func()
}

// Segment is a piece of a response: either bytes or extents of files.
type Segment struct {
	Bytes   []byte
	Extents Extents
}

// Extents are ranges of files that are sent as they are; *log.Extents is one.
type Extents interface {
	// Size is the total length in bytes, fixed before the reply is given to the server.
	Size() int
	// Parts gives the ranges in order. A file that turns out shorter than its range closes the connection,
	// since the frame's length is already on the wire.
	Parts() iter.Seq2[vfs.File, log.Range]
}

var _ Extents = (*log.Extents)(nil)

// Allowed says whether the i-th check that the row's Authorize listed was granted.
func (c *Call) Allowed(i int) bool { return c.access == nil || c.access[i] }

// Denied says whether any check that the row's Authorize listed was refused.
func (c *Call) Denied() bool { return slices.Contains(c.access, false) }

// Call is what a handler knows about one request besides its body. It is valid until the reply has left; the
// request and everything that aliases its bytes only until the lease ends.
type Call struct {
	Conn          *ConnInfo
	Principal     kafka.Principal
	Key, Version  int16
	CorrelationID int32
	// ClientID is the client id of this request's header ("" for null); it is a copy and may be kept.
	ClientID string
	// Now is the time at which the request was completely read.
	Now time.Time
	// Lease holds the request's bytes and their charge. A handler that keeps the request longer than its own
	// work (a parked produce) releases it early; otherwise the server does when the reply is encoded. Nil in
	// tests.
	Lease *Lease

	frame  []byte
	access []bool
	cancel canceler
}

// Frame is the request as it arrived, header included and without the length: what an Envelope carries
// (KIP-590). It is valid until the lease ends.
func (c *Call) Frame() []byte { return c.frame }

// OnCancel registers f to be called once if the answer is no longer worth waiting for: the connection closed
// or the server drains. A parked read completes its promise then, with what it has; writes ignore it and go
// on, as in Kafka. If that has already happened f runs before OnCancel returns. f must not block; it runs
// without any lock held.
func (c *Call) OnCancel(f func()) { c.cancel.add(f) }

// Cancel runs what OnCancel registered, once. The server calls it; exported for tests of handlers.
func (c *Call) Cancel() { c.cancel.fire() }
