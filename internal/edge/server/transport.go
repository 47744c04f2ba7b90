package server

import (
	"errors"
	"net"
)

// errPeer means that the peer does not take what is sent; it is not worth a log line.
var errPeer = errors.New("the connection failed")

// writeChunk is how much a portable transport writes at once: progress shows after each chunk.
const writeChunk = 32 << 10

// copyTransport writes to any net.Conn.
type copyTransport struct {
	nc net.Conn
	m  *meter
}

func (t *copyTransport) write(b []byte, _ bool) error {
	t.m.sending.Store(true)
	defer t.m.sending.Store(false)
	for len(b) > 0 {
		n, err := t.nc.Write(b[:min(len(b), writeChunk)])
		t.m.tx.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (t *copyTransport) cork(bool) {}

func (t *copyTransport) file(uintptr, int64, int) (bool, error) { return false, nil }
