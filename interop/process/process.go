// Package process runs one server process of a test: it starts it, waits until it answers as a Kafka broker, and ends
// it in good order or by SIGKILL, always by its own process id. Both brokers the suites know (Moldau and Apache Kafka)
// are a Node, so a suite cannot tell which one it talks to.
package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	startLimit = 3 * time.Minute
	stopLimit  = 60 * time.Second
)

// Node is one broker process with a directory of its own. Not safe for use by several goroutines.
type Node struct {
	Name   string
	Addr   string // host:port clients connect to
	LogDir string // where it keeps its partitions
	Output string // file that collects what it prints

	command func() *exec.Cmd
	cmd     *exec.Cmd
	done    chan error
}

// New describes a node; command builds the process afresh for each start.
func New(name, addr, logDir, output string, command func() *exec.Cmd) *Node {
	return &Node{Name: name, Addr: addr, LogDir: logDir, Output: output, command: command}
}

// Start runs the process and waits until it serves metadata. It is ended with the test at the latest.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	if err := n.TryStart(t); err != nil {
		t.Fatalf("%v\n%s", err, n.Tail())
	}
}

// TryStart is Start for tests that expect a refusal: the error says that the process ended or was not ready in time.
func (n *Node) TryStart(t testing.TB) error {
	t.Helper()
	out, err := os.OpenFile(n.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	n.cmd, n.done = n.command(), make(chan error, 1)
	n.cmd.Stdout, n.cmd.Stderr = out, out
	if err := n.cmd.Start(); err != nil {
		n.cmd = nil
		return err
	}
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(n.cmd, n.done)
	t.Cleanup(func() { n.end(syscall.SIGKILL) })
	return n.waitReady()
}

// PID of the running process; 0 when it does not run.
func (n *Node) PID() int {
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Stop ends the process in good order and fails the test if it does not end or ends with an error.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	err, ended := n.end(syscall.SIGTERM)
	if !ended {
		t.Fatalf("%s did not end within %v of SIGTERM\n%s", n.Name, stopLimit, n.Tail())
	}
	// A JVM ends with 143 on SIGTERM.
	if ee, ok := err.(*exec.ExitError); ok && ee.ExitCode() != 143 {
		t.Fatalf("%s ended with %v\n%s", n.Name, err, n.Tail())
	}
}

// Kill ends the process at once, as a crash would.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Tail returns the last lines the process printed.
func (n *Node) Tail() string {
	b, _ := os.ReadFile(n.Output)
	return string(b[max(0, len(b)-4000):])
}

func (n *Node) end(sig syscall.Signal) (err error, ended bool) {
	if n.cmd == nil {
		return nil, true
	}
	defer func() { n.cmd = nil }()
	_ = n.cmd.Process.Signal(sig)
	select {
	case err = <-n.done:
		return err, true
	case <-time.After(stopLimit):
		_ = n.cmd.Process.Kill()
		return <-n.done, false
	}
}

func (n *Node) waitReady() error {
	deadline := time.Now().Add(startLimit)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	for time.Now().Before(deadline) {
		select {
		case err := <-n.done:
			n.cmd = nil
			return fmt.Errorf("%s ended while starting: %v", n.Name, err)
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		cancel()
		if err == nil && len(resp.Brokers) > 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	n.end(syscall.SIGKILL)
	return fmt.Errorf("%s was not ready within %v", n.Name, startLimit)
}

// FreePort returns a loopback port nobody listens on now.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Root returns the directory of the project, found from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "moldau")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no cmd/moldau in any directory above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}
