package moldautest

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// clock is the clock of a machine. As with a real one, setting it changes the time of day and not how time passes: what is
// measured with the monotonic reading of time.Time notices nothing.
type clock struct{ skew atomic.Int64 } // nanoseconds, whole seconds

func (c *clock) now() time.Time {
	now := time.Now()
	skew := time.Duration(c.skew.Load())
	if skew == 0 {
		return now
	}
	return shift(now, skew)
}

// shift moves the time of day by whole seconds and leaves the monotonic reading alone, which package time has no call
// for. It knows how time.Time is laid out; where it is not so, both move.
func shift(t time.Time, by time.Duration) time.Time {
	const hasMonotonic, secondsShift = 1 << 63, 30
	out := t
	if wall := (*uint64)(unsafe.Pointer(&out)); *wall&hasMonotonic != 0 {
		*wall += uint64(by/time.Second) << secondsShift
	}
	if out.Unix()-t.Unix() == int64(by/time.Second) && out.Sub(t) == 0 {
		return out
	}
	return t.Add(by)
}
