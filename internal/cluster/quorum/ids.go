package quorum

import (
	"cmp"
	"fmt"
	"strings"

	"moldau/internal/kafka"
)

// ReplicaKey names one replica of the metadata log: a node and the directory that its log lives in (KIP-853).
// A node whose disk was replaced keeps its id and gets another directory: it is another replica. The zero
// directory id means that the directory is not known.
type ReplicaKey struct {
	ID        kafka.NodeID
	Directory kafka.UUID
}

// NoReplica marks an absent replica, such as the vote that was not cast.
var NoReplica = ReplicaKey{ID: kafka.NoNode}

// String gives id or id:directory.
func (k ReplicaKey) String() string {
	if k.Directory.IsZero() {
		return fmt.Sprint(k.ID)
	}
	return fmt.Sprintf("%d:%s", k.ID, k.Directory)
}

// matches says whether k, as a request or a file names it, means other: the ids are equal, and the
// directories too unless k was written down without one.
func (k ReplicaKey) matches(other ReplicaKey) bool {
	return k.ID == other.ID && (k.Directory.IsZero() || k.Directory == other.Directory)
}

// compareKeys orders replicas by id, then directory.
func compareKeys(a, b ReplicaKey) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), strings.Compare(string(a.Directory[:]), string(b.Directory[:])))
}

// OffsetAndEpoch is an end offset and the epoch of the record before it. It names a snapshot (everything
// below Offset) and it identifies a log: two logs that agree on one agree on everything below it.
type OffsetAndEpoch struct {
	Offset kafka.Offset
	Epoch  kafka.LeaderEpoch
}

// Compare orders by epoch, then offset, as Kafka orders snapshots and candidates' logs.
func (p OffsetAndEpoch) Compare(q OffsetAndEpoch) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Offset, q.Offset))
}

// String gives offset-epoch.
func (p OffsetAndEpoch) String() string { return fmt.Sprintf("%d-%d", p.Offset, p.Epoch) }

// bootstrapID names the checkpoint that formatting writes. It is never served to a peer and never the base of
// an image: the first leader writes what it holds into the log.
var bootstrapID = OffsetAndEpoch{}

// Role is what a replica currently is in the quorum. A replica that is no voter (an observer) is Unattached
// or Follower.
type Role int8

// The roles. Prospective is KIP-996's state before Candidate; Resigned is a leader of this epoch that leads
// no more.
const (
	Unattached Role = iota
	Prospective
	Candidate
	Leader
	Follower
	Resigned
)

// String gives the lower-case name that Kafka's current-state metric shows.
func (r Role) String() string {
	switch r {
	case Unattached:
		return "unattached"
	case Prospective:
		return "prospective"
	case Candidate:
		return "candidate"
	case Leader:
		return "leader"
	case Follower:
		return "follower"
	case Resigned:
		return "resigned"
	}
	return fmt.Sprintf("role(%d)", int8(r))
}
