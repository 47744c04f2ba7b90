package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// programLimit is how long a program may take to end in good order.
const programLimit = 60 * time.Second

// Program is a process of a test that is not a broker and is started again and again. Not safe for use by several
// goroutines.
type Program struct {
	t       testing.TB
	command func() *exec.Cmd
	dir     string

	cmd    *exec.Cmd
	ended  chan error
	starts int
}

// NewProgram describes a program; command builds the process afresh for each start. What it prints goes to files in dir.
// It ends with the test at the latest.
func NewProgram(t testing.TB, dir string, command func() *exec.Cmd) *Program {
	p := &Program{t: t, command: command, dir: dir}
	t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

// Start starts it.
func (p *Program) Start() {
	p.t.Helper()
	p.starts++
	out, err := os.Create(p.output())
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd, ended := p.command(), make(chan error, 1)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	p.cmd, p.ended = cmd, ended
}

// MustRun fails the test if the program ended by itself.
func (p *Program) MustRun() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.cmd = nil
		p.t.Fatalf("the program ended by itself: %v\n%s", err, p.Tail())
	default:
	}
}

// End ends it if it runs: in good order with SIGTERM, at once with SIGKILL.
func (p *Program) End(sig syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(programLimit):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("the program did not end within %v of signal %v\n%s", programLimit, sig, p.Tail())
	}
	p.cmd = nil
}

// Tail is the end of what it printed since it was started last.
func (p *Program) Tail() string {
	b, _ := os.ReadFile(p.output())
	return string(b[max(0, len(b)-4000):])
}

func (p *Program) output() string { return filepath.Join(p.dir, fmt.Sprint("out-", p.starts)) }
