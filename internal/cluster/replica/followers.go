package replica

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// FollowerInfo is what a leader knows of one follower.
type FollowerInfo struct {
	Broker kafka.NodeID
	InSync bool
	// End is what the follower has; NoOffset before its first fetch in this term.
	End kafka.Offset
	// LastFetch and CaughtUp are when it fetched last, and when it had everything last; zero for never in this term.
	LastFetch, CaughtUp time.Time
}

// Followers describes the followers of a partition that this broker leads, by id, and how many replicas in sync it takes
// to write with acks=all. It is NOT_LEADER_OR_FOLLOWER elsewhere.
func (p *Partition) Followers() (all []FollowerInfo, minISR int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustLead(); err != nil {
		return nil, 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(p.remotes)) {
		r := p.remotes[id]
		r.mu.Lock()
		all = append(all, FollowerInfo{Broker: id, InSync: slices.Contains(p.isr, id), End: r.end, LastFetch: r.lastFetch,
			CaughtUp: r.caughtUp})
		r.mu.Unlock()
	}
	return all, p.minISR(), nil
}
