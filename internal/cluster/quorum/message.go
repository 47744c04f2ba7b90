package quorum

import (
	"moldau/internal/kafka"
)

// Message is one request or answer of the quorum's protocol, as the core sees it: the one topic and partition
// that these APIs are ever used for is left out, and so are API versions. The driver translates to and from
// the wire.
type Message struct {
	// Request pairs an answer with its request. Requests that the core sends are numbered by the core;
	// requests from peers are numbered by the driver, in a space of its own.
	Request uint64
	// Peer is the other side: the destination of what is sent, the sender's address for what arrived (only
	// the core's own requests need it, for their answers).
	Peer Peer
	Body Body
}

// Peer is a node to talk to. Bootstrap servers, whose node ids are not known, have ids from -2 downwards as
// in Kafka.
type Peer struct {
	ID   kafka.NodeID
	Host string
	Port uint16
}

// firstBootstrapID is the id of the first of controller.quorum.bootstrap.servers.
const firstBootstrapID kafka.NodeID = -2

// Body is a request (*VoteRequest, *BeginQuorumEpochRequest, *EndQuorumEpochRequest, *FetchRequest,
// *FetchSnapshotRequest, *AddVoterRequest, *RemoveVoterRequest, *UpdateVoterRequest, *ApiVersionsRequest) or
// the answer to one.
type Body interface{ isBody() }

// Verdict is what every answer carries: an error and what the answering node knows of the current leader.
// Followers live on the latter: an answer that names neither leader nor epoch is dropped as stale.
type Verdict struct {
	// Top is the error of the whole answer: no leader, no epoch. UNSUPPORTED_VERSION here means that the peer
	// lacks the version the request needs.
	Top kafka.Code
	// Code is the error of the partition.
	Code   kafka.Code
	Leader kafka.NodeID
	Epoch  kafka.LeaderEpoch
	// LeaderEndpoints are the leader's, empty when they are not known. On the wire only the one of the
	// listener that the request came in on travels.
	LeaderEndpoints []Endpoint
}

// VoteRequest asks for a vote, or with PreVote whether one would be given (KIP-996).
type VoteRequest struct {
	ClusterID *string
	Voter     ReplicaKey // who is asked; id -1 (before version 1): whoever receives it
	Candidate ReplicaKey
	Epoch     kafka.LeaderEpoch
	Last      OffsetAndEpoch // end of the candidate's log
	PreVote   bool
}

// VoteResponse grants or refuses.
type VoteResponse struct {
	Verdict
	Granted bool
}

// BeginQuorumEpochRequest is a leader announcing itself.
type BeginQuorumEpochRequest struct {
	ClusterID       *string
	Voter           ReplicaKey
	Leader          kafka.NodeID
	Epoch           kafka.LeaderEpoch
	LeaderEndpoints []Endpoint
}

// BeginQuorumEpochResponse answers it.
type BeginQuorumEpochResponse struct{ Verdict }

// EndQuorumEpochRequest is a leader stepping down: the candidates listed first stand for election first.
type EndQuorumEpochRequest struct {
	ClusterID       *string
	Leader          kafka.NodeID
	Epoch           kafka.LeaderEpoch
	Candidates      []ReplicaKey // version 0 of the request carries ids only
	LeaderEndpoints []Endpoint
}

// EndQuorumEpochResponse answers it.
type EndQuorumEpochResponse struct{ Verdict }

// FetchRequest reads the log; its position is the replica's acknowledgement.
type FetchRequest struct {
	ClusterID     *string
	Replica       ReplicaKey
	Epoch         kafka.LeaderEpoch // the leader epoch the replica knows
	Offset        kafka.Offset
	LastEpoch     kafka.LeaderEpoch // of the record before Offset; 0 for an empty log
	HighWatermark kafka.Offset      // what the replica knows; the largest offset from versions without the field
	MaxWaitMs     int32
	MaxBytes      int32
}

// FetchResponse answers with records, a diverging end, a snapshot to load first, or an error.
type FetchResponse struct {
	Verdict
	HighWatermark kafka.Offset // NoOffset: not known
	LogStart      kafka.Offset
	// Diverging, when not nil, is where the leader's log parts from the replica's.
	Diverging *OffsetAndEpoch
	// Snapshot, when not nil, replaces the log below it.
	Snapshot *OffsetAndEpoch
	// From is where the records begin and MaxBytes what the replica asked for: the pump fills in Records when
	// it sends the answer. NoOffset: no records.
	From     kafka.Offset
	MaxBytes int32
	// Records are whole batches.
	Records []byte
}

// FetchSnapshotRequest reads a piece of a snapshot.
type FetchSnapshotRequest struct {
	ClusterID *string
	Replica   ReplicaKey
	Epoch     kafka.LeaderEpoch
	Snapshot  OffsetAndEpoch
	Position  int64
	MaxBytes  int32
}

// FetchSnapshotResponse answers with bytes of the snapshot file; the pump fills in Size and Bytes.
type FetchSnapshotResponse struct {
	Verdict
	Snapshot OffsetAndEpoch
	Size     int64
	Position int64
	MaxBytes int32
	Bytes    []byte
}

// AddVoterRequest asks the leader to make an observer a voter (KIP-853).
type AddVoterRequest struct {
	ClusterID *string
	Voter     ReplicaKey
	Endpoints []Endpoint
	// AckWhenCommitted: the answer waits for the commit; otherwise it only says that the change was begun
	// (KIP-1186).
	AckWhenCommitted bool
}

// RemoveVoterRequest asks the leader to make a voter an observer.
type RemoveVoterRequest struct {
	ClusterID *string
	Voter     ReplicaKey
}

// ChangeVoterResponse answers an AddVoterRequest or a RemoveVoterRequest.
type ChangeVoterResponse struct {
	Code    kafka.Code
	Message string
}

// UpdateVoterRequest tells the leader a voter's own endpoints and versions.
type UpdateVoterRequest struct {
	ClusterID *string
	Epoch     kafka.LeaderEpoch
	Voter     Voter
}

// UpdateVoterResponse answers it.
type UpdateVoterResponse struct{ Verdict }

// ApiVersionsRequest asks a node what it supports, before its entry of the voter set is written.
type ApiVersionsRequest struct{}

// ApiVersionsResponse answers it with the node's range of kraft.version; the zero range if it names none.
type ApiVersionsResponse struct {
	Top   kafka.Code
	KRaft VersionRange
}

func (*VoteRequest) isBody()              {}
func (*VoteResponse) isBody()             {}
func (*BeginQuorumEpochRequest) isBody()  {}
func (*BeginQuorumEpochResponse) isBody() {}
func (*EndQuorumEpochRequest) isBody()    {}
func (*EndQuorumEpochResponse) isBody()   {}
func (*FetchRequest) isBody()             {}
func (*FetchResponse) isBody()            {}
func (*FetchSnapshotRequest) isBody()     {}
func (*FetchSnapshotResponse) isBody()    {}
func (*AddVoterRequest) isBody()          {}
func (*RemoveVoterRequest) isBody()       {}
func (*ChangeVoterResponse) isBody()      {}
func (*UpdateVoterRequest) isBody()       {}
func (*UpdateVoterResponse) isBody()      {}
func (*ApiVersionsRequest) isBody()       {}
func (*ApiVersionsResponse) isBody()      {}
