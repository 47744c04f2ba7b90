package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau"
)

// TestCrash runs the program, lets it crash in the middle of a transaction, and runs it again: every payment of the three
// runs is booked once.
func TestCrash(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "balances.sqlite")
	for _, step := range []struct {
		crash bool
		want  string
	}{
		{false, "alice has 12\nbob has 9\n"},
		{true, ""},
		{false, "alice has 36\nbob has 27\n"},
	} {
		var out strings.Builder
		err := run(ctx, &out, []string{n.Address()}, "payments", file, step.crash)
		if (err != nil) != step.crash || out.String() != step.want {
			t.Fatalf("crash %v: %v\n%s", step.crash, err, out.String())
		}
	}
}
