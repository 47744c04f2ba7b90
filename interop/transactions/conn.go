package transactions

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn sends requests of chosen versions, one at a time.
type conn struct {
	c    net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
}

func dial(t testing.TB, addr, clientID string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{c: c, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

func (c *conn) send(t testing.TB, req kmsg.Request) kmsg.Response {
	t.Helper()
	c.corr++
	if _, err := c.c.Write(c.fmt.AppendRequest(nil, req, c.corr)); err != nil {
		t.Fatal(err)
	}
	_ = c.c.SetReadDeadline(time.Now().Add(40 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		t.Fatalf("%T v%d: %v", req, req.GetVersion(), err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, body); err != nil {
		t.Fatal(err)
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp
}
