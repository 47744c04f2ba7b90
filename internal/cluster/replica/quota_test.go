package replica

import (
	"strings"
	"testing"
	"time"

	"moldau/internal/storage/log"
)

func TestQuota(t *testing.T) {
	q := NewQuota(11, time.Second)
	now := t0
	q.Record(now, 1<<40)
	if q.Exceeded(now) || q.Wait(now) != 0 {
		t.Fatal("a quota without a rate bounds something")
	}
	q = NewQuota(11, time.Second)
	q.SetRate(100)
	for _, x := range []struct {
		after    time.Duration
		record   int64
		exceeded bool
	}{
		{0, 100, false},                     // exactly the rate, over the least stretch of one sample
		{0, 1, true},                        // 101 in a second
		{1500 * time.Millisecond, 0, false}, // 101 in 1.5 s
		{0, 200, true},                      // 301 in 1.5 s
		{1600 * time.Millisecond, 0, false}, // 301 in 3.1 s
		{0, 10_000, true},                   // far beyond
		{7 * time.Second, 0, true},          // 10301 in 10.1 s
		{900 * time.Millisecond, 0, true},   // the first sample is forgotten: 10200 in 9.5 s
		{9500 * time.Millisecond, 0, false}, // all is
		{time.Hour, 100, false},             // and begins anew
	} {
		now = now.Add(x.after)
		if x.record > 0 {
			q.Record(now, x.record)
		}
		if got := q.Exceeded(now); got != x.exceeded || (q.Wait(now) > 0) != x.exceeded {
			t.Fatalf("%v after the start: exceeded %t, wait %v", now.Sub(t0), got, q.Wait(now))
		}
	}
}

// TestQuotaHoldsTheAverage: whoever copies a piece whenever the quota allows gets its rate in the long run, and whoever waits
// as long as it says finds it free then.
func TestQuotaHoldsTheAverage(t *testing.T) {
	for _, piece := range []int64{10, 1000, 5000} {
		q := NewQuota(11, time.Second)
		q.SetRate(1000)
		now, copied := t0, int64(0)
		for now.Sub(t0) < 10*time.Minute {
			if wait := q.Wait(now); wait > 0 {
				now = now.Add(wait)
				if q.Exceeded(now) && q.Exceeded(now.Add(time.Second)) {
					t.Fatalf("pieces of %d: still exceeded %v after a wait of %v", piece, now.Sub(t0), wait)
				}
				continue
			}
			q.Record(now, piece)
			copied += piece
			now = now.Add(time.Millisecond)
		}
		if rate := float64(copied) / 600; rate < 800 || rate > 1300 {
			t.Errorf("pieces of %d: %.0f bytes a second", piece, rate)
		}
	}
}

// TestThrottledFetcher: while the quota is exceeded a throttled replica that is behind is left out of the session; others, and
// one that has everything, are not. It goes on when the average is back, and the quota says how much was copied.
func TestThrottledFetcher(t *testing.T) {
	p := newPair(t, 3)
	p.f.o.Quota = NewQuota(11, time.Second)
	for i, throttled := range []bool{true, false, true} {
		if !throttled {
			continue
		}
		c := *p.follower.parts[i].Config()
		c.FollowerThrottled = &log.Throttled{Partitions: []int32{0, 2}}
		p.follower.desk.run(p.follower.parts[i].Reconfigure(t0, &c))
	}
	for i := range p.leader.parts { // out of sync, so that the high watermark does not wait for it
		p.leader.assign(i, 1, 4, 1)
		p.follower.assign(i, 1, 4, 1)
		p.f.Follow(p.follower.parts[i])
	}
	p.settle() // partition 2 has everything, which is nothing
	big := strings.Repeat("x", 10_000)
	p.leader.max = 15_000
	for range 4 {
		p.leader.produce(0, big)
		p.leader.produce(1, big)
	}
	p.f.o.Quota.SetRate(10_000)
	round := func() {
		p.leader.desk.flush(t, p.now)
		p.follower.desk.flush(t, p.now)
		p.step()
		p.now = p.now.Add(time.Millisecond)
	}
	for range 20 {
		round()
	}
	if a, b := p.follower.end(0), p.follower.end(1); a == 4 || b != 4 {
		t.Fatalf("the throttled replica has %d of 4, the other %d", a, b)
	}
	if _, in := p.f.session.members[idOf(p.follower.parts[0])]; in {
		t.Error("the throttled replica is fetched for")
	}
	if _, in := p.f.session.members[idOf(p.follower.parts[2])]; !in {
		t.Error("a throttled replica that has everything is held up")
	}
	if q := p.f.o.Quota; !q.Exceeded(p.now) {
		t.Error("nothing was counted")
	}
	began := p.now
	for p.follower.end(0) < 4 && p.now.Sub(began) < time.Minute {
		round()
		p.now = p.now.Add(20 * time.Millisecond)
	}
	if took := p.now.Sub(began); took < 2*time.Second || took > 10*time.Second {
		t.Errorf("what is left, 20 kB, at 10 kB/s took %v", took)
	}
}
