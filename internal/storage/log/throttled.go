package log

import "slices"

// Throttled says which partitions of a topic one broker copies, or sends to replicas, no faster than its throttle
// (leader.replication.throttled.replicas, follower.replication.throttled.replicas). nil: none.
type Throttled struct {
	All        bool
	Partitions []int32
}

// Has says whether a partition is throttled.
func (t *Throttled) Has(partition int32) bool {
	return t != nil && (t.All || slices.Contains(t.Partitions, partition))
}
