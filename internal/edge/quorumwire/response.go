package quorumwire

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// Response gives the response to a request that came in, at its version. Of the leader's endpoints the one of the
// listener travels that the request came in on. An answer that does not belong to the request is a mistake of the
// caller's: nil.
func Response(request kmsg.Request, answer quorum.Body, listener string) kmsg.Response {
	resp := request.ResponseKind()
	switch b := answer.(type) {
	case *quorum.VoteResponse:
		if r, ok := resp.(*kmsg.VoteResponse); ok {
			voteResponse(r, b, listener)
			return r
		}
	case *quorum.BeginQuorumEpochResponse:
		if r, ok := resp.(*kmsg.BeginQuorumEpochResponse); ok {
			beginResponse(r, b, listener)
			return r
		}
	case *quorum.EndQuorumEpochResponse:
		if r, ok := resp.(*kmsg.EndQuorumEpochResponse); ok {
			endResponse(r, b, listener)
			return r
		}
	case *quorum.FetchResponse:
		if r, ok := resp.(*kmsg.FetchResponse); ok {
			fetchResponse(r, b, listener)
			return r
		}
	case *quorum.FetchSnapshotResponse:
		if r, ok := resp.(*kmsg.FetchSnapshotResponse); ok {
			fetchSnapshotResponse(r, b, listener)
			return r
		}
	case *quorum.ChangeVoterResponse:
		return changeResponse(resp, b)
	case *quorum.UpdateVoterResponse:
		if r, ok := resp.(*kmsg.UpdateRaftVoterResponse); ok {
			updateResponse(r, b, listener)
			return r
		}
	}
	return nil
}

// Refusal gives the response to a request that is not for the core: err came from Received, or the caller does not
// authorize it.
func Refusal(request kmsg.Request, err error) kmsg.Response {
	code := int16(kafka.CodeOf(err))
	resp := request.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.VoteResponse:
		r.ErrorCode = code
	case *kmsg.BeginQuorumEpochResponse:
		r.ErrorCode = code
	case *kmsg.EndQuorumEpochResponse:
		r.ErrorCode = code
	case *kmsg.FetchResponse:
		r.ErrorCode = code
	case *kmsg.FetchSnapshotResponse:
		refuseSnapshot(r, request, code)
	case *kmsg.AddRaftVoterResponse:
		r.ErrorCode, r.ErrorMessage = code, message(kafka.MessageOf(err))
	case *kmsg.RemoveRaftVoterResponse:
		r.ErrorCode, r.ErrorMessage = code, message(kafka.MessageOf(err))
	case *kmsg.UpdateRaftVoterResponse:
		r.ErrorCode = code
	default:
		return nil
	}
	return resp
}

// refuseSnapshot answers on the partition when that is what is wrong, as Kafka does.
func refuseSnapshot(r *kmsg.FetchSnapshotResponse, request kmsg.Request, code int16) {
	q, ok := request.(*kmsg.FetchSnapshotRequest)
	if !ok || kafka.Code(code) != kafka.UnknownTopicOrPartition {
		r.ErrorCode = code
		return
	}
	for _, t := range q.Topics {
		topic := kmsg.NewFetchSnapshotResponseTopic()
		topic.Topic = strings.Clone(t.Topic)
		for _, p := range t.Partitions {
			partition := kmsg.NewFetchSnapshotResponseTopicPartition()
			partition.Partition, partition.ErrorCode, partition.Bytes = p.Partition, code, []byte{}
			topic.Partitions = append(topic.Partitions, partition)
		}
		r.Topics = append(r.Topics, topic)
	}
}

// seenFrom gives the leader's endpoint on a listener.
func seenFrom(v *quorum.Verdict, listener string) (quorum.Endpoint, bool) {
	if v.Leader < 0 {
		return quorum.Endpoint{}, false
	}
	for _, e := range v.LeaderEndpoints {
		if strings.EqualFold(e.Name, listener) {
			return e, true
		}
	}
	return quorum.Endpoint{}, false
}

// nodeEndpoint is what several responses call by names of their own: NodeEndpoints.
type nodeEndpoint interface {
	~struct {
		NodeID      int32
		Host        string
		Port        uint16
		UnknownTags kmsg.Tags
	}
}

// leaderNode lists the leader if its endpoint is known.
func leaderNode[T nodeEndpoint](v *quorum.Verdict, listener string) []T {
	e, ok := seenFrom(v, listener)
	if !ok {
		return nil
	}
	return []T{T(kmsg.VoteResponseNodeEndpoint{NodeID: int32(v.Leader), Host: e.Host, Port: e.Port})}
}

func voteResponse(r *kmsg.VoteResponse, b *quorum.VoteResponse, listener string) {
	if r.ErrorCode = int16(b.Top); b.Top != kafka.None {
		return
	}
	p := kmsg.NewVoteResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch, p.VoteGranted = int16(b.Code), int32(b.Leader), int32(b.Epoch), b.Granted
	t := kmsg.NewVoteResponseTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.VoteResponseTopicPartition{p}
	r.Topics = []kmsg.VoteResponseTopic{t}
	if r.Version >= 1 {
		r.NodeEndpoints = leaderNode[kmsg.VoteResponseNodeEndpoint](&b.Verdict, listener)
	}
}

func beginResponse(r *kmsg.BeginQuorumEpochResponse, b *quorum.BeginQuorumEpochResponse, listener string) {
	if r.ErrorCode = int16(b.Top); b.Top != kafka.None {
		return
	}
	p := kmsg.NewBeginQuorumEpochResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch = int16(b.Code), int32(b.Leader), int32(b.Epoch)
	t := kmsg.NewBeginQuorumEpochResponseTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.BeginQuorumEpochResponseTopicPartition{p}
	r.Topics = []kmsg.BeginQuorumEpochResponseTopic{t}
	if r.Version >= 1 {
		r.NodeEndpoints = leaderNode[kmsg.BeginQuorumEpochResponseNodeEndpoint](&b.Verdict, listener)
	}
}

func endResponse(r *kmsg.EndQuorumEpochResponse, b *quorum.EndQuorumEpochResponse, listener string) {
	if r.ErrorCode = int16(b.Top); b.Top != kafka.None {
		return
	}
	p := kmsg.NewEndQuorumEpochResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch = int16(b.Code), int32(b.Leader), int32(b.Epoch)
	t := kmsg.NewEndQuorumEpochResponseTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.EndQuorumEpochResponseTopicPartition{p}
	r.Topics = []kmsg.EndQuorumEpochResponseTopic{t}
	if r.Version >= 1 {
		r.NodeEndpoints = leaderNode[kmsg.EndQuorumEpochResponseNodeEndpoint](&b.Verdict, listener)
	}
}

func fetchResponse(r *kmsg.FetchResponse, b *quorum.FetchResponse, listener string) {
	if r.ErrorCode = int16(b.Top); b.Top != kafka.None {
		return
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.HighWatermark, p.LogStartOffset = int16(b.Code), int64(b.HighWatermark), int64(b.LogStart)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(b.Leader), int32(b.Epoch)
	if d := b.Diverging; d != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(d.Epoch), int64(d.Offset)
	}
	if s := b.Snapshot; s != nil {
		p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(s.Offset), int32(s.Epoch)
	}
	p.AbortedTransactions, p.RecordBatches = nil, b.Records
	if p.RecordBatches == nil {
		p.RecordBatches = []byte{} // no records are not null records
	}
	t := kmsg.NewFetchResponseTopic()
	t.TopicID, t.Partitions = kafka.MetadataTopicID, []kmsg.FetchResponseTopicPartition{p}
	r.Topics = []kmsg.FetchResponseTopic{t}
	if e, ok := seenFrom(&b.Verdict, listener); ok && r.Version >= fetchDirectoryID {
		r.Brokers = []kmsg.FetchResponseBroker{{NodeID: int32(b.Leader), Host: e.Host, Port: int32(e.Port)}}
	}
}

func fetchSnapshotResponse(r *kmsg.FetchSnapshotResponse, b *quorum.FetchSnapshotResponse, listener string) {
	if r.ErrorCode = int16(b.Top); b.Top != kafka.None {
		return
	}
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.ErrorCode, p.Size, p.Position, p.Bytes = int16(b.Code), b.Size, b.Position, b.Bytes
	if p.Bytes == nil {
		p.Bytes = []byte{}
	}
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(b.Snapshot.Offset), int32(b.Snapshot.Epoch)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(b.Leader), int32(b.Epoch)
	t := kmsg.NewFetchSnapshotResponseTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.FetchSnapshotResponseTopicPartition{p}
	r.Topics = []kmsg.FetchSnapshotResponseTopic{t}
	if r.Version >= 1 {
		r.NodeEndpoints = leaderNode[kmsg.FetchSnapshotResponseNodeEndpoint](&b.Verdict, listener)
	}
}

func changeResponse(resp kmsg.Response, b *quorum.ChangeVoterResponse) kmsg.Response {
	switch r := resp.(type) {
	case *kmsg.AddRaftVoterResponse:
		r.ErrorCode, r.ErrorMessage = int16(b.Code), message(b.Message)
	case *kmsg.RemoveRaftVoterResponse:
		r.ErrorCode, r.ErrorMessage = int16(b.Code), message(b.Message)
	default:
		return nil
	}
	return resp
}

// message is null when there is nothing to say.
func message(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func updateResponse(r *kmsg.UpdateRaftVoterResponse, b *quorum.UpdateVoterResponse, listener string) {
	if b.Top != kafka.None {
		r.ErrorCode = int16(b.Top)
		return
	}
	r.ErrorCode = int16(b.Code)
	r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch = int32(b.Leader), int32(b.Epoch)
	if e, ok := seenFrom(&b.Verdict, listener); ok {
		r.CurrentLeader.Host, r.CurrentLeader.Port = e.Host, int32(e.Port)
	}
}
