package quorumwire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// Received gives the message in a request that came in, whose fields its version lacks are what the core takes for
// absent. Nothing of it aliases the request's frame but strings of requests that were decoded without copying: those
// are the caller's to copy.
//
// A request about anything but the metadata log is INVALID_REQUEST; FetchSnapshot of another topic is
// UNKNOWN_TOPIC_OR_PARTITION. Refusal turns the error into the response.
func Received(request kmsg.Request) (quorum.Body, error) {
	switch r := request.(type) {
	case *kmsg.VoteRequest:
		return voteReceived(r)
	case *kmsg.BeginQuorumEpochRequest:
		return beginReceived(r)
	case *kmsg.EndQuorumEpochRequest:
		return endReceived(r)
	case *kmsg.FetchRequest:
		return fetchReceived(r)
	case *kmsg.FetchSnapshotRequest:
		return fetchSnapshotReceived(r)
	case *kmsg.AddRaftVoterRequest:
		return addReceived(r), nil
	case *kmsg.RemoveRaftVoterRequest:
		return &quorum.RemoveVoterRequest{ClusterID: r.ClusterID, Voter: key(r.VoterID, r.VoterDirectoryID)}, nil
	case *kmsg.UpdateRaftVoterRequest:
		return updateReceived(r), nil
	case *kmsg.ApiVersionsRequest:
		return &quorum.ApiVersionsRequest{}, nil
	}
	return nil, kafka.Errorf(kafka.InvalidRequest, "%T is no request of the quorum", request)
}

func key(id int32, directory [16]byte) quorum.ReplicaKey {
	return quorum.ReplicaKey{ID: kafka.NodeID(id), Directory: directory}
}

func point(offset int64, epoch int32) quorum.OffsetAndEpoch {
	return quorum.OffsetAndEpoch{Offset: kafka.Offset(offset), Epoch: kafka.LeaderEpoch(epoch)}
}

// sole gives the only element of a list, nil if there is another number of them.
func sole[T any](list []T) *T {
	if len(list) != 1 {
		return nil
	}
	return &list[0]
}

func named(topic string, partition int32) bool { return topic == kafka.MetadataTopic && partition == 0 }

func elsewhere(api string) error {
	return kafka.Errorf(kafka.InvalidRequest, "%s is for %s-0 alone", api, kafka.MetadataTopic)
}

func voteReceived(r *kmsg.VoteRequest) (quorum.Body, error) {
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, elsewhere("Vote")
	}
	p := &t.Partitions[0]
	return &quorum.VoteRequest{ClusterID: r.ClusterID, Voter: key(r.VoterID, p.VoterDirectoryID),
		Candidate: key(p.CandidateID, p.CandidateDirectoryID), Epoch: kafka.LeaderEpoch(p.CandidateEpoch),
		Last:    point(p.LastOffset, p.LastOffsetEpoch),
		PreVote: p.PreVote}, nil
}

func beginReceived(r *kmsg.BeginQuorumEpochRequest) (quorum.Body, error) {
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, elsewhere("BeginQuorumEpoch")
	}
	p := &t.Partitions[0]
	b := &quorum.BeginQuorumEpochRequest{ClusterID: r.ClusterID, Voter: key(r.VoterID, p.VoterDirectoryID),
		Leader: kafka.NodeID(p.LeaderID), Epoch: kafka.LeaderEpoch(p.LeaderEpoch)}
	for _, e := range r.LeaderEndpoints {
		b.LeaderEndpoints = append(b.LeaderEndpoints, quorum.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b, nil
}

func endReceived(r *kmsg.EndQuorumEpochRequest) (quorum.Body, error) {
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 || !named(t.Topic, t.Partitions[0].Partition) {
		return nil, elsewhere("EndQuorumEpoch")
	}
	p := &t.Partitions[0]
	b := &quorum.EndQuorumEpochRequest{ClusterID: r.ClusterID, Leader: kafka.NodeID(p.LeaderID),
		Epoch: kafka.LeaderEpoch(p.LeaderEpoch)}
	for _, id := range p.PreferredSuccessors { // version 0
		b.Candidates = append(b.Candidates, quorum.ReplicaKey{ID: kafka.NodeID(id)})
	}
	if r.Version >= 1 {
		b.Candidates = nil
		for _, c := range p.PreferredCandidates {
			b.Candidates = append(b.Candidates, key(c.CandidateID, c.CandidateDirectoryID))
		}
	}
	for _, e := range r.LeaderEndpoints {
		b.LeaderEndpoints = append(b.LeaderEndpoints, quorum.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b, nil
}

func fetchReceived(r *kmsg.FetchRequest) (quorum.Body, error) {
	t := sole(r.Topics)
	if r.Version < fetchTopicIDs || t == nil || t.TopicID != kafka.MetadataTopicID || len(t.Partitions) != 1 ||
		t.Partitions[0].Partition != 0 {
		return nil, elsewhere("Fetch on a controller's listener")
	}
	p := &t.Partitions[0]
	id := r.ReplicaState.ID
	if r.Version < fetchReplicaState {
		id = r.ReplicaID
	}
	return &quorum.FetchRequest{ClusterID: r.ClusterID, Replica: key(id, p.ReplicaDirectoryID),
		Epoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), Offset: kafka.Offset(p.FetchOffset),
		LastEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch), HighWatermark: kafka.Offset(p.HighWatermark),
		MaxWaitMs: r.MaxWaitMillis, MaxBytes: r.MaxBytes}, nil
}

func fetchSnapshotReceived(r *kmsg.FetchSnapshotRequest) (quorum.Body, error) {
	t := sole(r.Topics)
	if t == nil || len(t.Partitions) != 1 {
		return nil, elsewhere("FetchSnapshot")
	}
	p := &t.Partitions[0]
	if !named(t.Topic, p.Partition) {
		return nil, kafka.UnknownTopicOrPartition
	}
	return &quorum.FetchSnapshotRequest{ClusterID: r.ClusterID, Replica: key(r.ReplicaID, p.ReplicaDirectoryID),
		Epoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), Position: p.Position, MaxBytes: r.MaxBytes,
		Snapshot: point(p.SnapshotID.EndOffset, p.SnapshotID.Epoch)}, nil
}

func addReceived(r *kmsg.AddRaftVoterRequest) *quorum.AddVoterRequest {
	b := &quorum.AddVoterRequest{ClusterID: r.ClusterID, Voter: key(r.VoterID, r.VoterDirectoryID),
		AckWhenCommitted: r.AckWhenCommitted || r.Version < 1}
	for _, e := range r.Listeners {
		b.Endpoints = append(b.Endpoints, quorum.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b
}

func updateReceived(r *kmsg.UpdateRaftVoterRequest) *quorum.UpdateVoterRequest {
	b := &quorum.UpdateVoterRequest{ClusterID: r.ClusterID, Epoch: kafka.LeaderEpoch(r.CurrentLeaderEpoch)}
	b.Voter.Key = key(r.VoterID, r.VoterDirectoryID)
	f := r.KRaftVersionFeature
	b.Voter.KRaft = quorum.VersionRange{Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}
	for _, e := range r.Listeners {
		b.Voter.Endpoints = append(b.Voter.Endpoints, quorum.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b
}
