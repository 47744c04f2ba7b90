package peer

import (
	"errors"
	"fmt"
	"syscall"

	"moldau/internal/kafka"
)

// ErrRefused says that nobody listens at an address: the process there is gone, or not there yet. It is found in an
// *Error by errors.Is.
var ErrRefused = errors.New("connection refused")

// errClosed is why nothing is sent after Close.
var errClosed = errors.New("the pool is closed")

// Error is why a request has no answer. kafka.CodeOf of it is RequestTimedOut when there was no answer in time,
// UnsupportedVersion when the peer lacks the API or the version, and NetworkException otherwise.
type Error struct {
	To   Address
	Lane string
	// Sent says that the peer may have received the request, and acted on it. Otherwise it has not.
	Sent bool
	Code kafka.Code
	Err  error
}

// Error names the peer and the cause.
func (e *Error) Error() string {
	fate := "not sent"
	if e.Sent {
		fate = "sent, no answer"
	}
	return fmt.Sprintf("%s (%s): %s: %v", e.To, e.Lane, fate, e.Err)
}

// Unwrap gives the code and the cause.
func (e *Error) Unwrap() []error { return []error{e.Code, e.Err} }

// MayHaveArrived says whether the request that ended with err can have been received by the peer. A request that is
// not idempotent must not be repeated then.
func MayHaveArrived(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Sent
}

// dialError marks the refusal that operating systems report in words of their own.
func dialError(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
