package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRetentionClock: it follows the machine's clock, but for what that gains while no time passes. That less time passed
// than the time of day says is played by moving what was read last.
func TestRetentionClock(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(slog.NewTextHandler(&out, nil))
	var c retentionClock
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := c.now(start, l); !got.Equal(start) {
		t.Fatalf("%v at first, want %v", got, start)
	}
	// Time passes at the pace of the clock, or the machine slept: both are followed.
	at := start
	for range 3 {
		at = at.Add(5 * time.Minute)
		if got := c.now(at, l); !got.Equal(at) {
			t.Fatalf("%v, want %v", got, at)
		}
	}
	// The time of day jumps by ten years while hardly any time passes: what was read last lies a minute back.
	ahead := at.Add(10 * 365 * 24 * time.Hour)
	c.read = ahead.Add(-time.Minute)
	if got, want := c.now(ahead, l), at.Add(2*time.Minute); !got.Equal(want) {
		t.Errorf("after a jump %v, want %v", got, want)
	}
	c.read = ahead.Add(-time.Minute)
	c.now(ahead, l)
	if n := strings.Count(out.String(), "jumped ahead"); n != 1 {
		t.Errorf("told %d times: %s", n, out.String())
	}
	// It is set back, and behind what it was.
	for _, back := range []time.Time{at.Add(3 * time.Minute), at.Add(-time.Hour)} {
		if got := c.now(back, l); got.After(back) {
			t.Errorf("%v, ahead of %v", got, back)
		}
	}
}
