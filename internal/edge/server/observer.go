package server

import (
	"time"

	"moldau/internal/kafka"
)

// Observer is told what the server does, for metrics and logs. Its methods are called on the connections'
// goroutines and must not block.
type Observer interface {
	ConnectionOpened(c *ConnInfo)
	ConnectionClosed(c *ConnInfo, why CloseReason)
	// ConnectionRefused tells of a connection closed at accept, before it was one.
	ConnectionRefused(listener string, why CloseReason)
	// RequestDone is called when a request's reply has left or was dropped.
	RequestDone(s Stats)
}

// Stats describes one finished request.
type Stats struct {
	Conn         *ConnInfo
	Key, Version int16
	Code         kafka.Code
	// Dropped means that the reply was not sent because its connection had closed.
	Dropped bool
	// RequestBytes and ReplyBytes count whole frames with their length field.
	RequestBytes, ReplyBytes int64
	// Memory is the time spent waiting for the budget, Receive that from the frame's first byte to its last
	// (with the server's own pauses: a mute, too many unanswered requests), Handle that inside Handle,
	// Pending that from its return until the promise was set, Queue the wait for earlier replies, Send the
	// time until the last byte was given to the kernel.
	Memory, Receive, Handle, Pending, Queue, Send time.Duration
}

// CloseReason says why a connection ended.
type CloseReason uint8

// The reasons. Only ClosedByPeer and ClosedByServer are ordinary.
const (
	ClosedByPeer   CloseReason = iota // the client closed, or the network failed
	ClosedByServer                    // drain, shutdown, or a handler asked for it
	ClosedMalformed
	ClosedUnsupported // unknown API key or version
	ClosedTooLarge    // a frame or what it decodes to
	ClosedIdle
	ClosedSlowSender
	ClosedSlowReceiver
	ClosedPanic
	ClosedSendFailed   // a file came up short, or its read failed
	ClosedEvicted      // made room for an internal connection
	RefusedTooManyByIP // never accepted
	numCloseReasons
)

var closeReasons = [numCloseReasons]string{
	"peer", "server", "malformed", "unsupported", "too-large", "idle", "slow-sender", "slow-receiver", "panic",
	"send-failed", "evicted", "too-many-by-ip",
}

// String gives the label used in metrics.
func (r CloseReason) String() string {
	if r < numCloseReasons {
		return closeReasons[r]
	}
	return "unknown"
}
