package server

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// setBacklog bounds the connections that wait to be accepted. Package net always asks for the system's limit; Linux lets a
// socket that listens be told otherwise.
func setBacklog(l net.Listener, n int) error {
	t, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var listening error
	err = raw.Control(func(fd uintptr) { listening = os.NewSyscallError("listen", unix.Listen(int(fd), n)) })
	return errors.Join(err, listening)
}
