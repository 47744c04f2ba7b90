package flaw

// Flaw is one mistake.
type Flaw string

// The mistakes, each made in some system once.
const (
	None Flaw = ""

	// VoteNotDurable sends a vote before it is on the disk.
	VoteNotDurable Flaw = "vote-not-durable"
	// VoteForShorterLog grants votes without comparing logs.
	VoteForShorterLog Flaw = "vote-for-shorter-log"
	// CommitUnsynced counts the quorum leader's log instead of its disk.
	CommitUnsynced Flaw = "commit-unsynced"
	// FetchUnsynced lets a voter tell a position that is not on its disk.
	FetchUnsynced Flaw = "fetch-unsynced"
	// QuorumDivergence serves a voter whose log parts from the leader's.
	QuorumDivergence Flaw = "quorum-divergence"

	// AckBeforeReplicas acknowledges acks=all when the leader has the batch.
	AckBeforeReplicas Flaw = "ack-before-replicas"
	// LeaderUnsynced counts the leader's log instead of its disk.
	LeaderUnsynced Flaw = "leader-unsynced"
	// FollowerUnsynced lets a follower fetch on before its disk has what it fetched.
	FollowerUnsynced Flaw = "follower-unsynced"
	// TruncateToHighWatermark cuts a new follower's log to its high watermark (KIP-101).
	TruncateToHighWatermark Flaw = "truncate-to-high-watermark"
	// IgnoreDivergence serves a follower whose log parts from the leader's (KIP-279).
	IgnoreDivergence Flaw = "ignore-divergence"
	// MinimalISR lets the high watermark pass replicas that are proposed for the in-sync set (KIP-497).
	MinimalISR Flaw = "minimal-isr"
	// EarlyISR proposes followers that do not have all that is visible (KAFKA-7128).
	EarlyISR Flaw = "early-isr"
	// NoDeduplication forgets what producers have sent.
	NoDeduplication Flaw = "no-deduplication"
	// ElectAnybody elects leaders that are not in sync.
	ElectAnybody Flaw = "elect-anybody"

	// MarkersForgotten does not write the markers of a transaction that the coordinator before had decided.
	MarkersForgotten Flaw = "markers-forgotten"
	// ReplyEarly answers for coordinators before the records are committed.
	ReplyEarly Flaw = "reply-early"
	// EpochKept ends transactions without a new epoch, and takes a late EndTxn for that of the next one (KIP-890).
	EpochKept Flaw = "epoch-kept"
	// Unverified lets clients begin transactions on partitions that their coordinator does not know of (KIP-890).
	Unverified Flaw = "unverified"
	// OffsetsUnended forgets at a load what transactions did to offsets.
	OffsetsUnended Flaw = "offsets-unended"
	// LoadToWatermark begins to coordinate without what is not committed yet.
	LoadToWatermark Flaw = "load-to-watermark"
	// OneMarker takes a transaction for complete when one of its partitions has the marker.
	OneMarker Flaw = "one-marker"
)

// All lists the mistakes.
func All() []Flaw {
	return []Flaw{VoteNotDurable, VoteForShorterLog, CommitUnsynced, FetchUnsynced, QuorumDivergence,
		AckBeforeReplicas, LeaderUnsynced, FollowerUnsynced, TruncateToHighWatermark, IgnoreDivergence,
		MinimalISR, EarlyISR, NoDeduplication, ElectAnybody, MarkersForgotten, ReplyEarly, EpochKept,
		Unverified, OffsetsUnended, LoadToWatermark, OneMarker}
}
