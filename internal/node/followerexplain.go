package node

import (
	"fmt"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// FollowerExplanation is how far one follower of a partition is, and why it is in sync or not. Its JSON names are an
// interface.
type FollowerExplanation struct {
	Broker int32 `json:"broker"`
	InSync bool  `json:"inSync"`
	// Lag is how many offsets it is behind; absent when it has not fetched from this leader.
	Lag       *int64     `json:"lag,omitempty"`
	LastFetch *time.Time `json:"lastFetch,omitempty"`
	CaughtUp  *time.Time `json:"caughtUp,omitempty"` // when it had everything last
	Why       string     `json:"why"`
}

// followersOf explains the followers of a partition that this node leads.
func (n *Node) followersOf(p *replica.Partition, end kafka.Offset) (out []FollowerExplanation, minISR int, err error) {
	all, minISR, err := p.Followers()
	if err != nil {
		return nil, 0, err
	}
	out = []FollowerExplanation{}
	image, now := n.publisher.Image(), n.o.Now()
	allowed := time.Duration(n.config.Int64("replica.lag.time.max.ms")) * time.Millisecond
	for _, f := range all {
		x := FollowerExplanation{Broker: int32(f.Broker), InSync: f.InSync}
		if f.End != kafka.NoOffset {
			x.Lag = new(max(0, int64(end-f.End)))
		}
		if !f.LastFetch.IsZero() {
			x.LastFetch = &f.LastFetch
		}
		if !f.CaughtUp.IsZero() {
			x.CaughtUp = &f.CaughtUp
		}
		b, _ := image.Broker(f.Broker)
		x.Why = whyInSync(f, b, now, allowed, p.TopicPartition(), image)
		out = append(out, x)
	}
	return out, minISR, nil
}

// whyInSync says in words why a follower is in sync or not; b is its registration, nil without one.
func whyInSync(
	f replica.FollowerInfo, b *metadata.Broker, now time.Time, allowed time.Duration, tp kafka.TopicPartition, image *metadata.Image,
) string {
	ago := func(t time.Time) string { return now.Sub(t).Round(time.Millisecond).String() + " ago" }
	at, _ := image.Partition(tp)
	switch {
	case b == nil:
		return "the broker is not registered"
	case at != nil && !b.DirectoryOnline(at.Directory(f.Broker)):
		return "its log directory is offline, or its replica is lost"
	case b.Fenced:
		return "the broker is fenced: it is down, cut off, or has not caught up with the metadata"
	case b.InControlledShutdown:
		return "the broker is shutting down"
	case f.LastFetch.IsZero() && f.InSync:
		return "it has not fetched from this leader yet, and has until " + allowed.String() + " after the election"
	case f.LastFetch.IsZero():
		return "it has never fetched from this leader"
	case now.Sub(f.LastFetch) > allowed:
		return "it stopped fetching, " + ago(f.LastFetch)
	case f.InSync && now.Sub(f.CaughtUp) <= allowed:
		return "it keeps up"
	case f.InSync:
		return fmt.Sprintf("it is about to be dropped: it had everything last %s, and may be behind for %v", ago(f.CaughtUp), allowed)
	case f.CaughtUp.IsZero():
		return "it is catching up"
	case now.Sub(f.CaughtUp) > allowed:
		return "it fetches and does not keep up: it had everything last " + ago(f.CaughtUp)
	}
	return "it has caught up and is about to be let in"
}
