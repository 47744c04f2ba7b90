package kafka

import (
	"errors"
	"fmt"
)

// Code is a Kafka protocol error code. It implements error, so cores return codes and errors.Is(err, NotLeaderOrFollower)
// works through wrapping.
type Code int16

type codeRow struct {
	name      string
	retriable bool
}

// Name gives the protocol's name, such as NOT_LEADER_OR_FOLLOWER.
func (c Code) Name() string {
	if row, ok := codes[c]; ok {
		return row.name
	}
	return fmt.Sprintf("UNKNOWN_CODE_%d", int16(c))
}

// Error gives the protocol's name.
func (c Code) Error() string { return c.Name() }

// Retriable says whether Kafka's clients send the request again on this code.
func (c Code) Retriable() bool { return codes[c].retriable }

// Codes lists every known code in ascending order.
func Codes() []Code {
	var out []Code
	for c := Code(-1); int(c) < len(codes)+10; c++ {
		if _, ok := codes[c]; ok {
			out = append(out, c)
		}
	}
	return out
}

// Error is a code with a message for the response's error message field.
type Error struct {
	Code    Code
	Message string
}

// Error gives the message alone: the code travels beside it.
func (e *Error) Error() string { return e.Message }

// Unwrap lets errors.Is find the code.
func (e *Error) Unwrap() error { return e.Code }

// Errorf makes an error that carries a code and a message meant for the client.
func Errorf(c Code, format string, args ...any) error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// CodeOf is the only mapping from errors to the wire: nil is None, a wrapped Code is itself, everything else is
// UnknownServerError.
func CodeOf(err error) Code {
	if err == nil {
		return None
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return UnknownServerError
}

// MessageOf gives the client message of err: the message of an *Error, nothing for a bare code or nil.
func MessageOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Message
	}
	return ""
}
