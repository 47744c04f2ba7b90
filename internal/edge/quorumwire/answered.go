package quorumwire

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// Answered gives the message in a peer's response. listener is the name of the controller listener that nodes of this
// cluster talk over: the one endpoint of the leader that a response can carry is filed under it. A response about
// anything but the metadata log is CORRUPT_MESSAGE.
func Answered(listener string, resp kmsg.Response) (quorum.Body, error) {
	switch r := resp.(type) {
	case *kmsg.VoteResponse:
		return voteAnswered(listener, r)
	case *kmsg.BeginQuorumEpochResponse:
		return beginAnswered(listener, r)
	case *kmsg.EndQuorumEpochResponse:
		return endAnswered(listener, r)
	case *kmsg.FetchResponse:
		return fetchAnswered(listener, r)
	case *kmsg.FetchSnapshotResponse:
		return fetchSnapshotAnswered(listener, r)
	case *kmsg.AddRaftVoterResponse:
		return changeAnswered(r.ErrorCode, r.ErrorMessage), nil
	case *kmsg.RemoveRaftVoterResponse:
		return changeAnswered(r.ErrorCode, r.ErrorMessage), nil
	case *kmsg.UpdateRaftVoterResponse:
		return updateAnswered(listener, r), nil
	case *kmsg.ApiVersionsResponse:
		return apiVersionsAnswered(r), nil
	}
	return nil, kafka.Errorf(kafka.CorruptMessage, "%T is no answer of the quorum", resp)
}

// Refused gives the answer to a request that could not be asked, with an error of the whole answer: UNSUPPORTED_VERSION
// for a peer that lacks what the request needs. A pre-vote that ends so makes the core hold a plain election. A body
// that is no request: nil.
func Refused(request quorum.Body, code kafka.Code) quorum.Body {
	v := topError(code)
	switch request.(type) {
	case *quorum.VoteRequest:
		return &quorum.VoteResponse{Verdict: v}
	case *quorum.BeginQuorumEpochRequest:
		return &quorum.BeginQuorumEpochResponse{Verdict: v}
	case *quorum.EndQuorumEpochRequest:
		return &quorum.EndQuorumEpochResponse{Verdict: v}
	case *quorum.FetchRequest:
		return &quorum.FetchResponse{Verdict: v, HighWatermark: kafka.NoOffset, LogStart: kafka.NoOffset,
			From: kafka.NoOffset}
	case *quorum.FetchSnapshotRequest:
		return &quorum.FetchSnapshotResponse{Verdict: v}
	case *quorum.AddVoterRequest, *quorum.RemoveVoterRequest:
		return &quorum.ChangeVoterResponse{Code: code, Message: code.Name()}
	case *quorum.UpdateVoterRequest:
		return &quorum.UpdateVoterResponse{Verdict: v}
	case *quorum.ApiVersionsRequest:
		return &quorum.ApiVersionsResponse{Top: code}
	}
	return nil
}

func topError(code kafka.Code) quorum.Verdict {
	return quorum.Verdict{Top: code, Leader: kafka.NoNode, Epoch: kafka.NoEpoch}
}

// leadership is what a response says of the leader.
func leadership(code int16, leader, epoch int32, at []quorum.Endpoint) quorum.Verdict {
	v := quorum.Verdict{Code: kafka.Code(code), Leader: kafka.NodeID(leader), Epoch: kafka.LeaderEpoch(epoch)}
	if v.Leader < 0 {
		v.Leader = kafka.NoNode
	} else {
		v.LeaderEndpoints = at
	}
	return v
}

// at is the endpoint of a leader, named as the voter set names it.
func at(listener, host string, port uint16) []quorum.Endpoint {
	return []quorum.Endpoint{{Name: strings.ToUpper(listener), Host: host, Port: port}}
}

// leaderAt finds the leader among the nodes that a response names.
func leaderAt[T nodeEndpoint](listener string, leader int32, nodes []T) []quorum.Endpoint {
	for _, n := range nodes {
		if n := kmsg.VoteResponseNodeEndpoint(n); n.NodeID == leader {
			return at(listener, n.Host, n.Port)
		}
	}
	return nil
}

func misplaced(api string) error {
	return kafka.Errorf(kafka.CorruptMessage, "the answer to %s is not about %s-0 alone", api, kafka.MetadataTopic)
}

func voteAnswered(listener string, r *kmsg.VoteResponse) (quorum.Body, error) {
	if r.ErrorCode != 0 {
		return &quorum.VoteResponse{Verdict: topError(kafka.Code(r.ErrorCode))}, nil
	}
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, misplaced("Vote")
	}
	p := &t.Partitions[0]
	leader := leaderAt(listener, p.LeaderID, r.NodeEndpoints)
	return &quorum.VoteResponse{Verdict: leadership(p.ErrorCode, p.LeaderID, p.LeaderEpoch, leader),
		Granted: p.VoteGranted}, nil
}

func beginAnswered(listener string, r *kmsg.BeginQuorumEpochResponse) (quorum.Body, error) {
	if r.ErrorCode != 0 {
		return &quorum.BeginQuorumEpochResponse{Verdict: topError(kafka.Code(r.ErrorCode))}, nil
	}
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, misplaced("BeginQuorumEpoch")
	}
	p := &t.Partitions[0]
	leader := leaderAt(listener, p.LeaderID, r.NodeEndpoints)
	return &quorum.BeginQuorumEpochResponse{Verdict: leadership(p.ErrorCode, p.LeaderID, p.LeaderEpoch, leader)}, nil
}

func endAnswered(listener string, r *kmsg.EndQuorumEpochResponse) (quorum.Body, error) {
	if r.ErrorCode != 0 {
		return &quorum.EndQuorumEpochResponse{Verdict: topError(kafka.Code(r.ErrorCode))}, nil
	}
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, misplaced("EndQuorumEpoch")
	}
	p := &t.Partitions[0]
	leader := leaderAt(listener, p.LeaderID, r.NodeEndpoints)
	return &quorum.EndQuorumEpochResponse{Verdict: leadership(p.ErrorCode, p.LeaderID, p.LeaderEpoch, leader)}, nil
}

func fetchAnswered(listener string, r *kmsg.FetchResponse) (quorum.Body, error) {
	if r.ErrorCode != 0 {
		return Refused(&quorum.FetchRequest{}, kafka.Code(r.ErrorCode)), nil
	}
	t := sole(r.Topics)
	if t == nil || t.TopicID != kafka.MetadataTopicID || len(t.Partitions) != 1 || t.Partitions[0].Partition != 0 {
		return nil, misplaced("Fetch")
	}
	p := &t.Partitions[0]
	var leader []quorum.Endpoint
	for _, n := range r.Brokers {
		if n.NodeID == p.CurrentLeader.LeaderID && n.Port == int32(uint16(n.Port)) {
			leader = at(listener, n.Host, uint16(n.Port))
		}
	}
	l := p.CurrentLeader
	b := &quorum.FetchResponse{Verdict: leadership(p.ErrorCode, l.LeaderID, l.LeaderEpoch, leader),
		HighWatermark: kafka.Offset(p.HighWatermark), LogStart: kafka.Offset(p.LogStartOffset), From: kafka.NoOffset,
		Records: p.RecordBatches}
	if d := p.DivergingEpoch; d.Epoch >= 0 {
		b.Diverging = new(point(d.EndOffset, d.Epoch))
	}
	if s := p.SnapshotID; s.Epoch >= 0 || s.EndOffset >= 0 {
		b.Snapshot = new(point(s.EndOffset, s.Epoch))
	}
	return b, nil
}

func fetchSnapshotAnswered(listener string, r *kmsg.FetchSnapshotResponse) (quorum.Body, error) {
	if r.ErrorCode != 0 {
		return Refused(&quorum.FetchSnapshotRequest{}, kafka.Code(r.ErrorCode)), nil
	}
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, misplaced("FetchSnapshot")
	}
	p := &t.Partitions[0]
	leader := leaderAt(listener, p.CurrentLeader.LeaderID, r.NodeEndpoints)
	return &quorum.FetchSnapshotResponse{
		Verdict:  leadership(p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, leader),
		Snapshot: point(p.SnapshotID.EndOffset, p.SnapshotID.Epoch), Size: p.Size, Position: p.Position, Bytes: p.Bytes}, nil
}

func changeAnswered(code int16, message *string) *quorum.ChangeVoterResponse {
	b := &quorum.ChangeVoterResponse{Code: kafka.Code(code)}
	if message != nil {
		b.Message = *message
	}
	return b
}

// updateAnswered reads an answer with one error code, which belongs to the partition: the leader stands beside it.
func updateAnswered(listener string, r *kmsg.UpdateRaftVoterResponse) *quorum.UpdateVoterResponse {
	l := r.CurrentLeader
	var leader []quorum.Endpoint
	if l.Host != "" && l.Port == int32(uint16(l.Port)) {
		leader = at(listener, l.Host, uint16(l.Port))
	}
	return &quorum.UpdateVoterResponse{Verdict: leadership(r.ErrorCode, l.LeaderID, l.LeaderEpoch, leader)}
}

// kraftVersion is the feature that says how voters are kept.
const kraftVersion = "kraft.version"

func apiVersionsAnswered(r *kmsg.ApiVersionsResponse) *quorum.ApiVersionsResponse {
	b := &quorum.ApiVersionsResponse{Top: kafka.Code(r.ErrorCode)}
	for _, f := range r.SupportedFeatures {
		if f.Name == kraftVersion {
			b.KRaft = quorum.VersionRange{Min: f.MinVersion, Max: f.MaxVersion}
		}
	}
	return b
}
