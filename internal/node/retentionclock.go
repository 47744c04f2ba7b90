package node

import (
	"log/slog"
	"time"
)

// jump is how far a machine's clock may be ahead of a retentionClock before somebody is told.
const jump = time.Hour

// retentionClock is the time of day by which data is judged too old to keep. A machine's clock that is set wrong must not
// delete what is young: this one follows it at no more than twice the pace at which time passes, so that there is time to
// put it right, and is never ahead of it. A start takes the machine's clock as it is. One goroutine owns it.
type retentionClock struct {
	at   time.Time // what it shows
	read time.Time // the machine's clock when it was asked last, with its monotonic reading
	told bool      // of the jump that is being made up for
}

// now gives the time, from the machine's.
func (c *retentionClock) now(machine time.Time, l *slog.Logger) time.Time {
	day := machine.Round(0) // what has no monotonic reading is compared by the time of day
	next := c.at.Add(2 * machine.Sub(c.read))
	if c.read.IsZero() || next.After(day) {
		next = day
	}
	c.at, c.read = next, machine
	switch ahead := day.Sub(next); {
	case ahead <= jump:
		c.told = false
	case !c.told:
		c.told = true
		l.Error("the clock of this machine jumped ahead; retention follows slowly", "ahead", ahead)
	}
	return next
}
