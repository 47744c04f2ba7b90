package server

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfileMax is the most that one sendfile call is asked for: often enough to see progress, seldom enough to
// cost nothing.
const sendfileMax = 4 << 20

// newTransport chooses sendfile for TCP connections.
func newTransport(nc net.Conn, m *meter) transport {
	plain := &copyTransport{nc, m}
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return plain
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return plain
	}
	s := &socketTransport{raw: raw, m: m}
	s.step = s.send
	return s
}

// socketTransport writes to a TCP socket with system calls of its own: send with MSG_MORE, so that a head and
// the file range behind it share packets, and sendfile. Waiting for room in the socket is left to the runtime
// (RawConn.Write calls step again when there is some). Only the writer goroutine uses it.
type socketTransport struct {
	raw  syscall.RawConn
	m    *meter
	step func(fd uintptr) bool

	// What step has to send: b, or n bytes from pos of file.
	b     []byte
	flags int
	src   int
	pos   int64
	n     int
	err   error
}

// errUnsupported means that this file cannot be sent by the kernel.
var errUnsupported = errors.New("sendfile is not supported for this file")

func (t *socketTransport) run() error {
	t.err = nil
	t.m.sending.Store(true)
	err := t.raw.Write(t.step)
	t.m.sending.Store(false)
	t.b = nil
	if err != nil {
		return err
	}
	return t.err
}

// send makes progress until all is sent or the socket is full; false asks to be called again.
func (t *socketTransport) send(fd uintptr) bool {
	for {
		n, err := t.once(int(fd))
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil:
			t.err = err
			return true
		}
		t.m.tx.Add(int64(n))
		if len(t.b) == 0 && t.n == 0 {
			return true
		}
	}
}

func (t *socketTransport) once(fd int) (int, error) {
	if len(t.b) > 0 {
		n, err := unix.SendmsgN(fd, t.b, nil, nil, t.flags)
		if err == nil {
			t.b = t.b[n:]
		}
		return n, err
	}
	pos := t.pos
	n, err := unix.Sendfile(fd, t.src, &pos, min(t.n, sendfileMax))
	switch {
	case err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP:
		return 0, errUnsupported
	case err != nil:
		return 0, err
	case n == 0:
		return 0, errShortFile
	}
	t.pos += int64(n)
	t.n -= n
	return n, nil
}

func (t *socketTransport) write(b []byte, more bool) error {
	if len(b) == 0 {
		return nil
	}
	t.b, t.n, t.flags = b, 0, unix.MSG_NOSIGNAL
	if more {
		t.flags |= unix.MSG_MORE
	}
	return t.run()
}

func (t *socketTransport) file(fd uintptr, pos int64, n int) (bool, error) {
	t.b, t.src, t.pos, t.n = nil, int(fd), pos, n
	err := t.run()
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errUnsupported) && t.n == n:
		return false, nil
	case peerFailed(err):
		return true, errPeer
	}
	return true, err
}

// peerFailed tells the errors of the socket from those of the file.
func peerFailed(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	switch err {
	case unix.EPIPE, unix.ECONNRESET, unix.ECONNABORTED, unix.ENOTCONN, unix.ETIMEDOUT, unix.EHOSTUNREACH,
		unix.ENETUNREACH, unix.ENETDOWN:
		return true
	}
	return false
}

func (t *socketTransport) cork(on bool) {
	v := 0
	if on {
		v = 1
	}
	// Failing costs packets, not correctness.
	_ = t.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, v) })
}
