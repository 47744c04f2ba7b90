package log

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// TestCleanBesideReaders compacts again and again while readers consume under read_committed through whatever view they
// have, and the log is appended to, idled and its trash emptied. A reader may be told that a segment is gone, but never
// given a record that was aborted or that nobody wrote.
func TestCleanBesideReaders(t *testing.T) {
	x := startCleanRun(t, cleanConfig(), 21)
	var owner sync.Mutex
	var known sync.Map // by plain, for everything committed
	note := func() {
		for _, r := range x.committedHistory(x.stable()) {
			known.Store(r, true)
		}
	}
	var stable atomic.Int64
	grow := func() {
		owner.Lock()
		defer owner.Unlock()
		must(t, x.fill(12))
		must(t, x.endAll())
		must(t, x.roll())
		note()
		stable.Store(int64(x.stable()))
		_, err := x.log.Idle()
		must(t, err)
	}
	grow()
	var readers sync.WaitGroup
	stop := make(chan struct{})
	var reads atomic.Int64
	for range 3 {
		readers.Go(func() {
			v, end := x.log.View(), kafka.Offset(stable.Load())
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if i%3 == 0 { // an old view now and then
					end = kafka.Offset(stable.Load())
					v = x.log.View()
				}
				got, err := consume(v, min(end, v.End), 400)
				if err != nil && !errors.Is(err, kafka.NotLeaderOrFollower) {
					t.Errorf("read: %v", err)
					return
				}
				for _, r := range got {
					if _, ok := known.Load(r); !ok {
						t.Errorf("read %+v, which nobody committed", r)
						return
					}
				}
				_, _, err = v.MaxTimestamp(record.Limits{})
				if err != nil && !errors.Is(err, kafka.NotLeaderOrFollower) {
					t.Errorf("largest timestamp: %v", err)
					return
				}
				reads.Add(1)
			}
		})
	}
	passes := 0
	for until := time.Now().Add(700 * time.Millisecond); time.Now().Before(until) && !t.Failed(); {
		grow()
		cleanLocked(t, x, &owner)
		passes++
		_, err := x.log.DeletePending(x.now)
		must(t, err)
	}
	close(stop)
	readers.Wait()
	t.Logf("%d passes, %d reads", passes, reads.Load())
	must(t, x.judge(x.log, x.log.View().last().base))
}

// cleanLocked compacts with the lock that each step asks for.
func cleanLocked(t *testing.T, x *cleanRun, owner *sync.Mutex) {
	owner.Lock()
	c, err := x.begin()
	owner.Unlock()
	if errors.Is(err, ErrCleanAborted) {
		return
	}
	must(t, err)
	for done := false; !done; {
		if c.Exclusive() {
			owner.Lock()
			_, done, err = c.Step(500)
			owner.Unlock()
		} else {
			_, done, err = c.Step(500)
		}
		must(t, err)
	}
}
