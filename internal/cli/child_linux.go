package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's ctrl-C from a child, whose parent tells it what to do, and lets it end when the thread that
// starts it does.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// endInOrder asks a process to stop in good order.
func endInOrder(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // it may have ended just now
