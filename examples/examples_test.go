// Package examples runs the programs in the directories beside it against a node.
package examples

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"moldau"
)

// build compiles every program with one call and returns the directory of the binaries.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	// Without symbols linking takes half the time.
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "./...")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// program runs one program and returns what it printed, and whether it succeeded.
func program(t *testing.T, dir, name string, args ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := filepath.Join(dir, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir = t.TempDir()
	out, err := c.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && (!exited || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out), err == nil
}

func node(t *testing.T) *moldau.Node {
	t.Helper()
	n, err := moldau.Start(t.Context(), moldau.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }

func TestPrograms(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	dir, n := build(t), node(t)
	for name, want := range map[string]string{
		"at-most-once": lines("handled reading 0", "handled reading 1", "crashed; going on at offset 3",
			"handled reading 3", "handled reading 4"),
		"at-least-once": lines("handled order 0", "handled order 1", "handled order 2", "crashed; going on at offset 2",
			"handled order 2", "handled order 3", "handled order 4"),
		"partitioning": lines(`keyed: key "alice" went to partition 1`, `keyed: key "bob" went to partition 2`,
			`keyed: key "alice" went to partition 1`, `explicit: key "" went to partition 3`,
			`explicit: key "" went to partition 1`, `custom: key "urgent/1" went to partition 0`,
			`custom: key "urgent/2" went to partition 0`, `custom: key "other" went to partition 3`),
		"auto-commit": lines("first run: order 0", "first run: order 1", "first run: order 2", "second run: order 3",
			"second run: order 4", "second run: order 5"),
		"manual-commit": lines("partition 0: handled 4 records, committed offset 4",
			"partition 1: handled 4 records, committed offset 4", "partition 2: handled 4 records, committed offset 4"),
		"queue-and-pubsub": lines("workers: 2 members handled 40 different records",
			"audit: 1 members handled 40 different records", "billing: 1 members handled 40 different records"),
		"seek-by-time": lines("offset 3: written 2 hours ago", "offset 4: written 1 hours ago", "offset 5: written 0 hours ago"),
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := program(t, dir, name, "-brokers", n.Address(), "-topic", name)
			if !ok || got != want {
				t.Errorf("got (ok %v)\n%s\nwant\n%s", ok, got, want)
			}
		})
	}
	t.Run("idempotent", func(t *testing.T) {
		got, ok := program(t, dir, "idempotent", "-brokers", n.Address(), "-topic", "idempotent")
		if !ok || !regexp.MustCompile(`^sent 40 records, lost the answer [1-9]\d* times\nstored each once, in order\n$`).MatchString(got) {
			t.Errorf("got (ok %v)\n%s", ok, got)
		}
	})
	t.Run("rebalance-listener", func(t *testing.T) {
		got, ok := program(t, dir, "rebalance-listener", "-brokers", n.Address(), "-topic", "rebalance-listener")
		if !ok || !listenerOutput.MatchString(got) {
			t.Errorf("got (ok %v)\n%s", ok, got)
		}
	})
	t.Run("embed", func(t *testing.T) { embed(t, dir) })
	t.Run("killed", func(t *testing.T) { killedPrograms(t, dir, n) })
}

// listenerOutput: the first has everything, hands half over, and gets it back.
var listenerOutput = regexp.MustCompile(`^first has 0 1 2 3
first gave up (\d \d)
second has (\d \d)
(?:.*\n)*first has (\d \d)
(?:.*\n)*$`)

// embed runs the program twice on the same data.
func embed(t *testing.T, dir string) {
	data := filepath.Join(t.TempDir(), "data")
	for _, want := range []string{
		lines("stored at offset 0", "offset 0: hello"),
		lines("stored at offset 1", "offset 0: hello", "offset 1: hello"),
	} {
		if got, ok := program(t, dir, "embed", "-data-dir", data); !ok || got != want {
			t.Errorf("got (ok %v)\n%s\nwant\n%s", ok, got, want)
		}
	}
}
