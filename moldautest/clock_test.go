package moldautest

import (
	"testing"
	"time"
)

// TestClock: a clock that is set tells another time of day, and measures as before.
func TestClock(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour} {
		var c clock
		before := c.now()
		c.skew.Store(int64(by))
		after := c.now()
		if moved := time.Duration(after.UnixNano() - before.UnixNano()); moved < by || moved > by+time.Minute {
			t.Errorf("set by %v, the time of day moved by %v", by, moved)
		}
		if passed := after.Sub(before); passed < 0 || passed > time.Minute {
			t.Errorf("set by %v, %v passed", by, passed)
		}
		if passed := c.now().Sub(after); passed < 0 || passed > time.Minute {
			t.Errorf("set by %v, %v passed", by, passed)
		}
	}
}
