package server

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"
)

// Options is what a server is built from. The zero value of a field takes the default that its comment names.
type Options struct {
	// Table has the APIs; required.
	Table *Table
	// Log receives what an operator should see (accept errors, panics) and, at debug level, why connections
	// were closed. Default: slog.Default().
	Log *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Observer is told of connections and finished requests; nil: nobody is.
	Observer Observer
	// Authorizer decides what rows ask for; nil: everything is allowed and Authorize is not called.
	Authorizer Authorizer
	// Budget bounds the memory of requests and may be shared by several servers. Default: one of its own with
	// the defaults of BudgetOptions.
	Budget *Budget

	// MaxFrameBytes is the longest request accepted (socket.request.max.bytes). Default 100 MiB.
	MaxFrameBytes int
	// MaxQueuedRequests is how many requests of one connection may be unanswered before reading pauses
	// (moldau.connection.max.queued.requests). Default 64.
	MaxQueuedRequests int
	// MaxArrayElements is the longest array in a request; a longer one closes the connection. Default
	// 1,000,000, as in Apache Kafka 4.4.
	MaxArrayElements int
	// MaxTags is the largest number of tagged fields in one struct. Default 10,000, as in Apache Kafka 4.4.
	MaxTags int
	// MaxDecodedBytes bounds the heap that decoding one request may take beyond the request's own bytes.
	// Default 256 MiB: more than any request of MaxArrayElements that a client sends.
	MaxDecodedBytes int64
	// SendBufferBytes and ReceiveBufferBytes set the sockets' kernel buffers (socket.send.buffer.bytes,
	// socket.receive.buffer.bytes). 0 or -1 leaves the operating system's choice, which adapts.
	SendBufferBytes, ReceiveBufferBytes int
	// Limits is the starting value of what SetLimits changes.
	Limits Limits
}

// Limits are the bounds that may change while the server runs. The zero value of a field takes its default.
type Limits struct {
	// MaxIdle closes a connection without unanswered requests and without traffic (connections.max.idle.ms).
	// Default 10 minutes; negative: never.
	MaxIdle time.Duration
	// ReadWindow and MinReadRate judge slow senders: once the first byte of a frame has arrived, every window
	// must bring the rest of the frame or MinReadRate bytes per second, else the connection is closed. Time
	// that the server itself spends not reading does not count. Defaults 30 s and 1,024.
	ReadWindow  time.Duration
	MinReadRate int
	// PressedReadWindow and PressedReadRate replace them while requests of other connections wait for memory.
	// Defaults 5 s and 65,536.
	PressedReadWindow time.Duration
	PressedReadRate   int
	// WriteStall closes a connection whose reply made no progress for so long. Default 30 s.
	WriteStall time.Duration
	// MaxConnections pauses accepting on ordinary listeners at so many connections of the server; an internal
	// listener goes on and the longest idle connection of another listener makes room (max.connections).
	// Default: no limit.
	MaxConnections int
	// MaxConnectionsPerIP closes a new connection of an address that has so many (max.connections.per.ip).
	// Default: no limit; negative: none are allowed but those of PerIP.
	MaxConnectionsPerIP int
	// PerIP overrides MaxConnectionsPerIP for addresses (max.connections.per.ip.overrides).
	PerIP map[netip.Addr]int
	// ConnectionRate delays accepting beyond so many new connections per second
	// (max.connection.creation.rate). Default: no limit.
	ConnectionRate float64
}

// DefaultMaxFrameBytes is Kafka's default of socket.request.max.bytes.
const DefaultMaxFrameBytes = 100 << 20

// Defaults of the limits of one request.
const (
	defaultArrayElements = 1_000_000
	defaultTags          = 10_000
	defaultDecodedBytes  = 256 << 20
)

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o Options) withDefaults() (Options, error) {
	if o.Table == nil {
		return o, errors.New("server: no API table")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Budget == nil {
		o.Budget = NewBudget(BudgetOptions{})
	}
	orDefault(&o.MaxFrameBytes, DefaultMaxFrameBytes)
	orDefault(&o.MaxQueuedRequests, 64)
	orDefault(&o.MaxArrayElements, defaultArrayElements)
	orDefault(&o.MaxTags, defaultTags)
	orDefault(&o.MaxDecodedBytes, defaultDecodedBytes)
	if min(o.MaxFrameBytes, o.MaxQueuedRequests, o.MaxArrayElements, o.MaxTags) < 0 || o.MaxDecodedBytes < 0 {
		return o, errors.New("server: a limit is negative")
	}
	return o, nil
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.MaxIdle, 10*time.Minute)
	orDefault(&l.ReadWindow, 30*time.Second)
	orDefault(&l.MinReadRate, 1024)
	orDefault(&l.PressedReadWindow, 5*time.Second)
	orDefault(&l.PressedReadRate, 64<<10)
	orDefault(&l.WriteStall, 30*time.Second)
	return l
}

// maxFrom gives the number of connections allowed from ip; ok false: no limit.
func (l *Limits) maxFrom(ip netip.Addr) (n int, ok bool) {
	if n, ok := l.PerIP[ip]; ok {
		return n, true
	}
	if l.MaxConnectionsPerIP == 0 {
		return 0, false
	}
	return max(l.MaxConnectionsPerIP, 0), true
}
