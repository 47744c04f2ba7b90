package node

import (
	"testing"
	"time"
)

// TestThrottle: bytes taken in bursts are paid for at the rate, by all takers together.
func TestThrottle(t *testing.T) {
	var x throttle
	now := time.UnixMilli(1_700_000_000_000)
	if got := x.take(now, 1000, 1000); got != time.Second {
		t.Fatalf("first: %v", got)
	}
	if got := x.take(now, 500, 1000); got != 1500*time.Millisecond {
		t.Fatalf("second: %v", got)
	}
	now = now.Add(time.Minute)
	if got := x.take(now, 100, 1000); got != 100*time.Millisecond {
		t.Fatalf("what was not used is not saved up: %v", got)
	}
	for _, rate := range []float64{0, 1.7976931348623157e308} {
		if got := x.take(now, 1<<40, rate); got != 0 {
			t.Fatalf("rate %v: %v", rate, got)
		}
	}
}
