// Package quorumwire translates between the messages of the quorum (cluster/quorum) and Kafka's requests and responses
// for them: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot of __cluster_metadata-0, Add-, Remove- and
// UpdateRaftVoter, and ApiVersions as far as it tells of kraft.version.
//
// It owns what the core leaves out: the one topic and partition, versions, and which of a leader's endpoints travels.
// It never decides anything about the protocol, keeps no state and shares no bytes beyond records and pieces of
// snapshots, which alias the frame that they came in. There are no locks.
//
// The side that asks uses Request and Answered (request.go, answered.go), the side that answers Received and Response
// (received.go, response.go).
package quorumwire
