package replica

import (
	"slices"
	"time"
)

// throttlePause is how long a throttled replica is left out of the session at a time. The average is looked at again then:
// others share the quota, and its rate may change.
const throttlePause = 100 * time.Millisecond

func (x *followed) throttled() bool {
	c := x.p.Config()
	return c != nil && c.FollowerThrottled.Has(x.p.tp.Partition)
}

// throttle leaves throttled replicas that are behind out of the next request while more was copied than the quota allows
// (KIP-73). It says whether it did so.
func (f *Fetcher) throttle(now time.Time) bool {
	if f.o.Quota == nil || !f.o.Quota.Exceeded(now) {
		return false
	}
	var held []*followed
	for _, x := range f.session.members { // sorted below
		if x.throttled() && !(x.heard && x.p.Behind() == 0) {
			held = append(held, x)
		}
	}
	slices.SortFunc(held, compareFollowed)
	for _, x := range held {
		f.session.forget(idOf(x.p))
		x.state, x.resume = pausing, now.Add(throttlePause)
		f.paused = append(f.paused, x)
	}
	return len(held) > 0
}
