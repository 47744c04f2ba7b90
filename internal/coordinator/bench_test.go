package coordinator

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/storage/log"
)

// committer answers every request after one record of the size of a committed offset.
type committer struct{ key, value []byte }

func (committer) Apply(Record, Origin) error { return nil }
func (committer) Ended(Stamp, bool, Origin)  {}
func (c committer) Handle(now time.Time, e Event, _ *rand.Rand) Result {
	p, ok := e.(*Pending)
	if !ok {
		return Result{}
	}
	return Result{Scope: "a group", Records: []Record{{c.key, c.value}}, Replies: []Reply{{To: p}},
		Timers: []Timer{{TimerKey{Scope: "a group", Member: "a member"}, now.Add(time.Minute)}}}
}

// BenchmarkCommit is the runtime's own part of a committed offset: no network, no rules of groups, a disk in memory. As on
// a busy node, one sync serves many commits.
func BenchmarkCommit(b *testing.B) {
	for _, syncEvery := range []int{1, 16} {
		b.Run(fmt.Sprintf("sync-every-%d", syncEvery), func(b *testing.B) {
			w := newWorld(b, worldOptions{configure: func(c *log.Config) { c.SegmentBytes = 64 << 20 }, options: func(o *Options) {
				o.NewMachine = func(int32, *metadata.Image) Machine {
					return committer{bytes.Repeat([]byte("k"), 40), bytes.Repeat([]byte("v"), 30)}
				}
				o.Now, o.After = time.Now, func(time.Duration, func()) func() { return func() {} }
			}})
			body := toyRequest("commit").Body
			b.ReportAllocs()
			done := 0
			answered := func(a Answer) {
				if a.Err == nil {
					done++
				}
			}
			for i := 0; b.Loop(); i++ {
				if i%syncEvery == 0 {
					w.flush()
					w.held = syncEvery > 1
				}
				w.Do("a group", NewPending(Call{}, body)).OnDone(answered)
			}
			w.flush()
			if done == 0 {
				b.Fatal("nothing was committed")
			}
		})
	}
}
