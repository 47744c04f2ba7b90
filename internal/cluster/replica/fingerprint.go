package replica

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fingerprint is all that the replica's behaviour depends on, but for its records and what waits for a transaction
// coordinator: two replicas of one partition with equal fingerprints and equal logs do the same from here on while time
// stands still. A search of all states tells by it which it has seen.
func (p *Partition) Fingerprint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%s of %d in %d/%d from %d, replicas %v in sync %v proposed %v (%v) visible %d lost %v rotten %d",
		p.role, p.leader, p.leaderEpoch, p.partitionEpoch, p.epochStart, p.replicas, p.isr, p.proposed, p.proposed != nil,
		p.highWatermark, p.lost, p.rotten)
	if p.log != nil && p.role != Offline && p.role != Gone {
		v := p.log.View()
		fmt.Fprintf(&out, " log %d..%d durable %d epochs %v", v.Start, v.End, v.Durable, v.Epochs())
	}
	for _, id := range slices.Sorted(maps.Keys(p.remotes)) {
		r := p.remotes[id]
		r.mu.Lock()
		fmt.Fprintf(&out, " %d: %d..%d epoch %d caught up %v fetched %v at %d accounted %v", id, r.start, r.end, r.epoch,
			!r.caughtUp.IsZero(), !r.lastFetch.IsZero(), r.endAtFetch, r.lagAccounted)
		r.mu.Unlock()
	}
	for _, q := range []*waitQueue{&p.byDisk, &p.byReplicas} {
		out.WriteString(" waiting")
		for w := q.head; w != nil; w = w.next {
			fmt.Fprintf(&out, " %d", w.required)
		}
	}
	return out.String()
}
