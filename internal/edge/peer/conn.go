package peer

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// conn is one connection after the exchange of versions. One goroutine writes, one reads.
type conn struct {
	nc       net.Conn
	in       *bufio.Reader
	format   *kmsg.RequestFormatter
	maxFrame int
	frames   *frames
	versions versions
	broken   func() // called once, when the connection is given up

	next int32  // correlation id; the writer's
	out  []byte // the writer's

	mu       sync.Mutex
	cause    error       // why the connection was given up
	inflight []*exchange // in the order in which they were written
	first    int32       // correlation id of inflight[0]
}

// keepOut bounds the write buffer that is kept between writes.
const keepOut = 64 << 10

// connect dials and asks for the peer's versions, until ctx ends.
func connect(ctx context.Context, o Options, f *frames, to Address, clientID string) (*conn, error) {
	nc, err := o.Dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, dialError(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // what the dial has left of its time goes to the versions
	c := &conn{nc: nc, in: bufio.NewReaderSize(nc, 16<<10), maxFrame: o.MaxFrameBytes, frames: f,
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)), broken: func() {}}
	c.versions, err = c.ask()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	c.first = c.next
	return c, nil
}

func (c *conn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// fail gives the connection up. Only the first cause counts.
func (c *conn) fail(cause error) {
	c.mu.Lock()
	first := c.cause == nil
	if first {
		c.cause = cause
	}
	c.mu.Unlock()
	if first {
		_ = c.nc.Close()
		c.broken()
	}
}

func (c *conn) holds(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, y := range c.inflight {
		if x == y {
			return true
		}
	}
	return false
}

// abandon gives what will not be answered.
func (c *conn) abandon() []*exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.inflight
	c.inflight = nil
	return left
}

// write sends requests with one write. They count as sent from before the first byte leaves.
func (c *conn) write(batch []*exchange) {
	c.mu.Lock()
	c.inflight = append(c.inflight, batch...)
	c.mu.Unlock()
	c.out = c.out[:0]
	for _, x := range batch {
		c.append(x.request)
	}
	if _, err := c.nc.Write(c.out); err != nil {
		c.fail(err)
	}
	if cap(c.out) > keepOut {
		c.out = nil
	}
}

// append puts a request behind what is to be written. The formatter writes a frame's length to the beginning of the
// slice that it is given.
func (c *conn) append(r kmsg.Request) {
	at := len(c.out)
	c.out = append(c.out, c.format.AppendRequest(c.out[at:at], r, c.next)...)
	c.next++
}

// read takes answers until the connection breaks, and says whether there were any.
func (c *conn) read() (answered bool) {
	for {
		frame, err := c.frames.read(c.in, c.maxFrame)
		if err != nil {
			c.fail(err)
			return answered
		}
		if err := c.answer(frame); err != nil {
			c.fail(err)
			return answered
		}
		answered = true
	}
}

// answer gives a frame to the request that is next. One that cannot be read ends the connection, and the request with
// it.
func (c *conn) answer(frame []byte) error {
	c.mu.Lock()
	if len(c.inflight) == 0 {
		c.mu.Unlock()
		return kafka.Errorf(kafka.CorruptMessage, "an answer that nobody asked for")
	}
	x, id := c.inflight[0], c.first
	c.mu.Unlock()
	body := x.request.ResponseKind()
	tagged := body.IsFlexible() && x.request.Key() != int16(kmsg.ApiVersions)
	if err := decode(frame, id, body, tagged); err != nil {
		return fmt.Errorf("answer to %s v%d: %w", kmsg.NameForKey(x.request.Key()), x.request.GetVersion(), err)
	}
	c.mu.Lock()
	if len(c.inflight) == 0 || c.inflight[0] != x {
		c.mu.Unlock()
		return c.err()
	}
	c.inflight[0] = nil
	c.inflight = c.inflight[1:]
	c.first++
	c.mu.Unlock()
	x.settle(Answer{Body: body, frame: c.frames.owned(frame)})
	return nil
}

// decode reads an answer: correlation id, the header's tags and the body. The header of ApiVersions never has tags, so
// that a peer too old for the version asked can be understood (KIP-511).
func decode(frame []byte, id int32, body kmsg.Response, tagged bool) error {
	r := kbin.Reader{Src: frame}
	if got := r.Int32(); !r.Ok() || got != id {
		return kafka.Errorf(kafka.CorruptMessage, "correlation id %d instead of %d", got, id)
	}
	if tagged {
		kmsg.SkipTags(&r)
	}
	if err := r.Complete(); err != nil {
		return err
	}
	return body.ReadFrom(r.Src)
}
