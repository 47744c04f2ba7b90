package api

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// forward passes a request to the controller and answers with its response, or with what refuse makes of the reason
// why there is none: REQUEST_TIMED_OUT when the controller takes longer than timeout, NOT_CONTROLLER when it lost its
// office before the outcome was certain. Without any time to wait nothing is asked, as in Kafka.
func forward[R kmsg.Request](
	b *Broker, c *server.Call, req R, timeout time.Duration, refuse func(R, error) kmsg.Response,
) *promise.Promise[server.Reply] {
	if timeout <= 0 {
		return answer(server.Reply{Body: refuse(req, errNoTime), Code: kafka.RequestTimedOut})
	}
	body, err := own(req)
	if err != nil {
		return answer(server.Reply{Body: refuse(req, err), Code: kafka.CodeOf(err)})
	}
	c.Lease.Release()
	return promise.Map(b.controlWithin(c, body, timeout), func(r ControlReply) server.Reply {
		if r.Err != nil {
			return server.Reply{Body: refuse(body, r.Err), Code: kafka.CodeOf(r.Err)}
		}
		return server.Reply{Body: r.Body}
	})
}

// controlWithin asks the controller and gives up waiting after a time. Exactly one of Body and Err of the reply is set.
func (b *Broker) controlWithin(
	c *server.Call, body kmsg.Request, timeout time.Duration,
) *promise.Promise[ControlReply] {
	pending := b.Control(c, body)
	if _, ok := pending.Get(); ok {
		return promise.Map(pending, checked)
	}
	out := &promise.Promise[ControlReply]{}
	cancel := b.After(timeout, func() { out.Set(ControlReply{Err: errControllerLate}) })
	pending.OnDone(func(r ControlReply) {
		cancel()
		out.Set(checked(r))
	})
	return out
}

func checked(r ControlReply) ControlReply {
	if r.Err == nil && r.Body == nil {
		r.Err = kafka.UnknownServerError
	}
	return r
}

var errNoTime = kafka.Errorf(kafka.RequestTimedOut, "the request allows no time, so nothing was done")

var errControllerLate = kafka.Errorf(kafka.RequestTimedOut,
	"the controller did not answer in time; what was asked may still happen")

// millis is a timeout of a request.
func millis(ms int32) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// requestTimeout is how long requests without a timeout of their own may take.
func (b *Broker) requestTimeout() time.Duration {
	return time.Duration(b.Config.Int64("request.timeout.ms")) * time.Millisecond
}

// own copies a decoded request into memory of its own, so that it may outlive the lease of the bytes it came from.
func own[R kmsg.Request](r R) (R, error) {
	out := kmsg.RequestForKey(r.Key())
	out.SetVersion(r.GetVersion())
	if err := out.ReadFrom(r.AppendTo(nil)); err != nil {
		return r, fmt.Errorf("%s does not decode again: %w", kmsg.NameForKey(r.Key()), err)
	}
	return out.(R), nil
}

// codeAndMessage gives what error fields of responses hold for an error.
func codeAndMessage(err error) (int16, *string) { return int16(kafka.CodeOf(err)), messageOf(err) }
