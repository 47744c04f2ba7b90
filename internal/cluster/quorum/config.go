package quorum

import (
	"slices"
	"strings"
	"time"

	"moldau/internal/kafka"
)

// Config is what a replica of the metadata log is told. Zero values get the defaults of Kafka, see
// withDefaults.
type Config struct {
	ClusterID string
	// Self is this node and the directory id of its metadata directory.
	Self ReplicaKey
	// CanVote is set on nodes with the controller role. Others never stand for election nor grant a vote.
	CanVote bool
	// Endpoints are this node's controller listeners, the one for the quorum's traffic first. They are
	// written into the voter set, where other nodes and Apache Kafka look for them; a sole voter needs one
	// too, if only as an address.
	Endpoints []Endpoint
	// StaticVoters is controller.quorum.voters, in force while the log holds no voter set.
	StaticVoters VoterSet
	// Bootstrap is controller.quorum.bootstrap.servers: whom to ask for the leader. Ids are given by the
	// core.
	Bootstrap []Endpoint

	// FirstAtOnce makes the voter with the lowest id stand for election as soon as it starts on an empty log, so
	// that a new cluster does not wait for an election timer.
	FirstAtOnce bool

	// Late says that this replica's disk was new when the quorum was not. It may be a voter, by controller.quorum.voters,
	// that has lost what it acknowledged and whom it gave its votes: it neither votes nor stands for election until
	// it has caught up with a leader that goes on committing.
	Late bool

	// AutoJoin makes an observer with the controller role ask to become a voter:
	// controller.quorum.auto.join.enable.
	AutoJoin bool

	ElectionTimeout    time.Duration // controller.quorum.election.timeout.ms
	FetchTimeout       time.Duration // controller.quorum.fetch.timeout.ms
	ElectionBackoffMax time.Duration // controller.quorum.election.backoff.max.ms
	RequestTimeout     time.Duration // controller.quorum.request.timeout.ms
	RetryBackoff       time.Duration // controller.quorum.retry.backoff.ms

	FetchMaxBytes         int32 // controller.quorum.fetch.max.bytes
	FetchSnapshotMaxBytes int32 // controller.quorum.fetch.snapshot.max.bytes

	SegmentBytes     int64         // metadata.log.segment.bytes
	SegmentMs        int64         // metadata.log.segment.ms
	RetentionBytes   int64         // metadata.max.retention.bytes, log and snapshots together; -1: unlimited
	Retention        time.Duration // metadata.max.retention.ms; negative: unlimited
	SnapshotBytes    int64         // metadata.log.max.record.bytes.between.snapshots
	SnapshotInterval time.Duration // metadata.log.max.snapshot.interval.ms; 0: only by size
}

// Fixed times of the protocol.
const (
	fetchMaxWait     = 500 * time.Millisecond // what a follower lets the leader park its Fetch
	electionTurn     = 50 * time.Millisecond  // by how much voters stand after each other whose leader's process is gone
	observerLifetime = 5 * time.Minute        // an observer that fetched no more for this long is not described
	cleanInterval    = time.Minute            // how often the log is trimmed
)

// Limits of one batch of metadata records, as in Kafka.
const (
	MaxBatchRecords = 10_000
	MaxBatchBytes   = 8 << 20
)

func orDefault[T int32 | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.ElectionTimeout, time.Second)
	orDefault(&c.FetchTimeout, 2*time.Second)
	orDefault(&c.ElectionBackoffMax, time.Second)
	orDefault(&c.RequestTimeout, 2*time.Second)
	orDefault(&c.RetryBackoff, 20*time.Millisecond)
	orDefault(&c.FetchMaxBytes, 1<<20)
	orDefault(&c.FetchSnapshotMaxBytes, 1<<20)
	orDefault(&c.SegmentBytes, 1<<30)
	orDefault(&c.SegmentMs, (7 * 24 * time.Hour).Milliseconds())
	orDefault(&c.RetentionBytes, 100<<20)
	orDefault(&c.Retention, 7*24*time.Hour)
	orDefault(&c.SnapshotBytes, 20<<20)
	c.Endpoints = normalised(c.Endpoints)
	return c
}

// normalised gives listener names in upper case, as Kafka writes them into the voter set.
func normalised(list []Endpoint) []Endpoint {
	out := slices.Clone(list)
	for i := range out {
		out[i].Name = strings.ToUpper(out[i].Name)
	}
	return out
}

// endpoint gives the endpoint of a listener, or the first: Kafka talks to peers over its first controller
// listener.
func endpoint(name string, list []Endpoint) (Endpoint, bool) {
	for _, e := range list {
		if name == "" || strings.EqualFold(e.Name, name) {
			return e, true
		}
	}
	return Endpoint{}, false
}

// listener is the name of the listener that the quorum talks over.
func (c Config) listener() string {
	if len(c.Endpoints) == 0 {
		return ""
	}
	return c.Endpoints[0].Name
}

func (c Config) peer(id kafka.NodeID, list []Endpoint) (Peer, bool) {
	e, ok := endpoint(c.listener(), list)
	return Peer{ID: id, Host: e.Host, Port: e.Port}, ok
}
