//go:build unix

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long an orderly stop may take.
const stopLimit = 60 * time.Second

// Node is one process of a cluster. Its methods may be called by one goroutine at a time; Running by any.
type Node struct {
	ID     int
	Data   string // its log directory
	Output string // file that collects what it prints
	Binary string // what the next start runs

	cluster *Cluster
	entries []*entry // for clients and brokers; for controllers
	args    []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	done    chan error
	gone    chan struct{} // closed when the process is being killed, or has ended
	stopped bool          // by SIGSTOP
	from    int64         // where in the output the last start begins
}

// Start starts the process and does not wait until it serves.
func (n *Node) Start() error {
	out, err := os.OpenFile(n.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	n.from, _ = out.Seek(0, io.SeekEnd)
	fmt.Fprintf(out, "-- start of %s at %s\n", filepath.Base(n.Binary), time.Now().Format("15:04:05.000"))
	cmd, done := exec.Command(n.Binary, n.args...), make(chan error, 1)
	cmd.Dir = filepath.Dir(n.Output)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "MOLDAU_") })
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { done <- cmd.Wait() }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd, n.done, n.stopped, n.gone = cmd, done, false, make(chan struct{})
	for _, e := range n.entries {
		gone := n.gone
		n.cluster.Links.loops.Go(func() { e.follow(gone) })
	}
	return nil
}

// Running says whether the process was started and not ended by a method.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}

// Serving says whether the process has come so far since it was started last that clients are served.
func (n *Node) Serving() bool {
	if !n.Running() {
		return false
	}
	f, err := os.Open(n.Output)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, n.from, 1<<20))
	return err == nil && bytes.Contains(b, []byte("moldau serves on "))
}

// Kill ends the process at once and waits until it is gone.
func (n *Node) Kill() { _ = n.end(syscall.SIGKILL) }

// Stop ends it in good order; an error says that it did not, in time or with status 0.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Pause stops the process with SIGSTOP; Resume lets it go on.
func (n *Node) Pause() { n.signal(syscall.SIGSTOP, true) }

// Resume lets a paused process go on.
func (n *Node) Resume() { n.signal(syscall.SIGCONT, false) }

// askToStop sends SIGTERM and does not wait.
func (n *Node) askToStop() {
	n.Resume()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
	}
}

func (n *Node) signal(s syscall.Signal, stopped bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil && n.stopped != stopped {
		_ = n.cmd.Process.Signal(s)
		n.stopped = stopped
	}
}

func (n *Node) end(s syscall.Signal) error {
	n.Resume()
	served := n.Serving()
	n.mu.Lock()
	cmd, done, gone := n.cmd, n.done, n.gone
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	refuse := func() {
		close(gone)
		for _, e := range n.entries {
			e.shut()
		}
	}
	if s == syscall.SIGKILL {
		refuse()
	} else {
		defer refuse()
	}
	_ = cmd.Process.Signal(s)
	var err error
	select {
	case err = <-done:
	case <-time.After(stopLimit):
		_ = cmd.Process.Kill()
		<-done
		err = fmt.Errorf("it did not end within %v", stopLimit)
	}
	var status *exec.ExitError
	if errors.As(err, &status) && !served && status.ExitCode() == 130 {
		err = nil // a start that is interrupted says so
	}
	if err != nil && s != syscall.SIGKILL {
		return fmt.Errorf("node %d, stopped by %v: %w", n.ID, s, err)
	}
	return nil
}

// Ended says that the process ended by itself, and how; a process that does not run has not.
func (n *Node) Ended() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	select {
	case err := <-n.done:
		n.done <- err
		return fmt.Errorf("node %d ended by itself: %v", n.ID, err)
	default:
		return nil
	}
}

// Tail gives the last lines that the process printed, from all its starts.
func (n *Node) Tail(lines int) string {
	b, _ := os.ReadFile(n.Output)
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
