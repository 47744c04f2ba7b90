package server

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBacklog(t *testing.T) {
	s := newHarness(t).startMemory().s
	for _, want := range []int{0, 7} {
		l, err := s.Listen(ListenerOptions{Name: "PLAINTEXT", Address: "127.0.0.1:0", Backlog: want})
		if err != nil {
			t.Fatal(err)
		}
		if got := backlogOf(t, l.ln); (want > 0 && got != want) || got < 7 {
			t.Errorf("asked for %d, got %d", want, got)
		}
	}
}

// backlogOf asks the kernel, which tells of a listening socket the length of its queue in the place of the segments that
// were acknowledged selectively.
func backlogOf(t *testing.T, l net.Listener) int {
	t.Helper()
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var asked error
	if err := raw.Control(func(fd uintptr) { info, asked = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) }); err != nil {
		t.Fatal(err)
	}
	if asked != nil {
		t.Skip("the kernel does not tell:", asked)
	}
	return int(info.Sacked)
}
