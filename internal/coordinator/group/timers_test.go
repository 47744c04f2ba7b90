package group

import (
	"errors"
	"testing"
	"time"

	"moldau/internal/coordinator"
)

// TestTimersComeBeforeRecords: a session goes on, and ends, whether or not what came with it could be written. The runtime
// drops the timers of a result whose records cannot be appended.
func TestTimersComeBeforeRecords(t *testing.T) {
	timers := func(n int) []coordinator.Timer { return make([]coordinator.Timer, n) }
	records := make([]coordinator.Record, 1)
	failure := errors.New("no space")
	var told error
	r := timersFirst(coordinator.Result{Scope: "g", Records: records, Timers: timers(1), Split: true,
		Then: func(_ time.Time, err error) coordinator.Result {
			told = err
			return coordinator.Result{Records: records, Timers: timers(2)}
		}})
	if len(r.Records) != 0 || len(r.Timers) != 1 || r.Scope != "g" {
		t.Fatalf("%+v", r)
	}
	r = r.Then(time.Time{}, nil)
	if len(r.Records) != 1 || len(r.Timers) != 0 || !r.Split || r.Scope != "g" {
		t.Fatalf("%+v", r)
	}
	r = r.Then(time.Time{}, failure)
	if told != failure || len(r.Records) != 0 || len(r.Timers) != 2 {
		t.Fatalf("%v, %+v", told, r)
	}
	if r = r.Then(time.Time{}, nil); len(r.Records) != 1 || r.Then != nil {
		t.Fatalf("%+v", r)
	}
	if r := timersFirst(coordinator.Result{Timers: timers(1)}); len(r.Timers) != 1 || r.Then != nil {
		t.Fatalf("%+v", r)
	}
}
