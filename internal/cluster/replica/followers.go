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

// ReadReplica is a replica that a consumer could read from.
type ReadReplica struct {
	Broker   kafka.NodeID
	End      kafka.Offset
	CaughtUp time.Time // when it had everything last
}

// ReadReplicas gives the followers that can serve a consumer at an offset: those in sync that are known to have it
// (KIP-392). Their own high watermark decides what of it they show. It is empty unless this node leads. Lock-free but for
// the followers' own locks.
func (p *Partition) ReadReplicas(offset kafka.Offset) (out []ReadReplica) {
	s := p.published.Load()
	if s.role != Leader {
		return nil
	}
	for _, id := range s.isr {
		r := s.remotes[id]
		if r == nil {
			continue
		}
		r.mu.Lock()
		if r.end >= offset && r.start <= offset {
			out = append(out, ReadReplica{Broker: id, End: r.end, CaughtUp: r.caughtUp})
		}
		r.mu.Unlock()
	}
	return out
}

// Offsets gives high watermark and log start without reading.
//
// Errors: NotLeaderOrFollower, KafkaStorageError, FencedLeaderEpoch, UnknownLeaderEpoch.
func (p *Partition) Offsets(epoch kafka.LeaderEpoch) ReadResult {
	s := p.published.Load()
	out := ReadResult{HighWatermark: kafka.NoOffset, LastStable: kafka.NoOffset, LogStart: kafka.NoOffset,
		DivergingEpoch: kafka.NoEpoch, DivergingEnd: kafka.NoOffset}
	if out.Err = s.readable(epoch, true); out.Err == nil {
		out.LeaderEpoch, out.HighWatermark, out.LogStart = s.leaderEpoch, s.highWatermark, s.view.Start
	}
	return out
}
