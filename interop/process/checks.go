package process

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Checks runs a client's script, which prints "ok NAME" or "FAIL NAME: reason" per check, and makes a subtest of each.
// Fewer than want checks are a failure: the script ended early.
func Checks(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	limited := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	limited.Dir, limited.Env = cmd.Dir, cmd.Env
	out, err := limited.CombinedOutput()
	seen := 0
	for line := range strings.Lines(string(out)) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verdict != "ok" && verdict != "FAIL" {
			continue
		}
		name, reason, _ := strings.Cut(rest, ": ")
		seen++
		t.Run(name, func(t *testing.T) {
			if verdict == "FAIL" {
				t.Error(reason)
			}
		})
	}
	if err != nil || seen < want {
		t.Errorf("the script ended with %v after %d of %d checks\n%s", err, seen, want, out)
	}
}
