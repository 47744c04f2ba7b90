package kafka

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed Shell.java
var shellSource []byte

// shell is the JVM that runs the tools of this test process (see Shell.java). It ends with its standard input, that
// is at the latest with the test process.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// shells holds the one running shell; a tool has it for itself.
var shells struct {
	sync.Mutex
	running *shell
}

// toolLimit is how long a tool may take before its JVM is killed and the test fails.
const toolLimit = 2 * time.Minute

// run runs one tool in the shell, starting that first if there is none.
func run(t testing.TB, words []string) Result {
	t.Helper()
	shells.Lock()
	defer shells.Unlock()
	if shells.running == nil {
		shells.running = startShell(t)
	}
	s := shells.running
	overdue := time.AfterFunc(toolLimit, func() { _ = s.cmd.Process.Kill() })
	defer overdue.Stop()
	r, err := s.exchange(words)
	if err != nil {
		shells.running = nil
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		t.Fatalf("the JVM that runs %q ended: %v", words, err)
	}
	return r
}

func startShell(t testing.TB) *shell {
	t.Helper()
	home, err := Home()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(home, "Shell.java")
	if err := os.WriteFile(source, shellSource, 0o644); err != nil {
		t.Fatal(err)
	}
	// The context outlives the test that happens to start the shell.
	cmd := java(context.Background(), t, Libs(t), smallJVM("-Xmx512m"), source)
	s := &shell{cmd: cmd}
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shell) exchange(words []string) (Result, error) {
	req := binary.BigEndian.AppendUint32(nil, uint32(len(words)))
	for _, w := range words {
		req = append(binary.BigEndian.AppendUint32(req, uint32(len(w))), w...)
	}
	if _, err := s.in.Write(req); err != nil {
		return Result{}, err
	}
	var code int32
	if err := binary.Read(s.out, binary.BigEndian, &code); err != nil {
		return Result{}, err
	}
	stdout, err := s.text()
	if err != nil {
		return Result{}, err
	}
	stderr, err := s.text()
	return Result{Stdout: stdout, Stderr: stderr, Code: int(code)}, err
}

func (s *shell) text() (string, error) {
	var n uint32
	if err := binary.Read(s.out, binary.BigEndian, &n); err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(s.out, b)
	return string(b), err
}
