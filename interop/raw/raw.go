// Package raw sends single requests of chosen versions, good or bad, to a broker, for suites that compare its answers
// with recorded ones. Start reading at Conn.Send.
package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerLimit is how long an answer may take before it counts as none.
const answerLimit = 15 * time.Second

// ErrNoAnswer says that the connection stayed open without an answer.
var ErrNoAnswer = errors.New("no answer")

// Conn sends one request at a time over a connection that it opens again when the broker closed it.
type Conn struct {
	addr string
	c    net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
}

// New describes a connection that is opened with the first request.
func New(addr, clientID string) *Conn {
	return &Conn{addr: addr, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

// Send returns the answer; io.EOF when the broker closed the connection, ErrNoAnswer after answerLimit. A produce
// request without acknowledgement has neither: it returns nil at once.
func (c *Conn) Send(req kmsg.Request) (kmsg.Response, error) {
	if c.c == nil {
		var err error
		if c.c, err = net.Dial("tcp", c.addr); err != nil {
			return nil, err
		}
	}
	c.corr++
	if _, err := c.c.Write(c.fmt.AppendRequest(nil, req, c.corr)); err != nil {
		c.Close()
		return nil, io.EOF
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil, nil
	}
	return c.receive(req)
}

func (c *Conn) receive(req kmsg.Request) (kmsg.Response, error) {
	_ = c.c.SetReadDeadline(time.Now().Add(answerLimit))
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		c.Close()
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return nil, ErrNoAnswer
		}
		return nil, io.EOF
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, body); err != nil {
		c.Close()
		return nil, io.EOF
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != c.corr {
		return nil, fmt.Errorf("correlation id %d, want %d", got, c.corr)
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		body = body[1:] // no tags in the header
	}
	if resp.Key() == apiVersionsKey && len(body) >= 2 && binary.BigEndian.Uint16(body) == unsupportedVersion {
		resp.SetVersion(0) // an unsupported version is answered with version 0
	}
	return resp, resp.ReadFrom(body)
}

const (
	apiVersionsKey     = 18
	unsupportedVersion = 35
)

// Close closes it; the next request opens it again.
func (c *Conn) Close() {
	if c.c != nil {
		_ = c.c.Close()
		c.c = nil
	}
}
