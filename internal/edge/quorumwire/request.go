package quorumwire

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// Request gives the request to send for a message of the quorum, at the newest version. SetVersion takes it down to
// what a peer has; what only newer versions have is left out then. Requests that would mean something else to an older
// peer say so by LowestVersion (edge/peer.Floor): a pre-vote must not become a vote. A body that is no request is a
// mistake of the caller's: nil.
func Request(body quorum.Body) kmsg.Request {
	switch b := body.(type) {
	case *quorum.VoteRequest:
		return voteRequest(b)
	case *quorum.BeginQuorumEpochRequest:
		return beginRequest(b)
	case *quorum.EndQuorumEpochRequest:
		return endRequest(b)
	case *quorum.FetchRequest:
		return fetchRequest(b)
	case *quorum.FetchSnapshotRequest:
		return fetchSnapshotRequest(b)
	case *quorum.AddVoterRequest:
		return addRequest(b)
	case *quorum.RemoveVoterRequest:
		r := kmsg.NewPtrRemoveRaftVoterRequest()
		r.ClusterID, r.VoterID, r.VoterDirectoryID = b.ClusterID, int32(b.Voter.ID), b.Voter.Directory
		return r
	case *quorum.UpdateVoterRequest:
		return updateRequest(b)
	case *quorum.ApiVersionsRequest:
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version = 4 // older answers leave out features that begin at level 0 (KAFKA-17011)
		r.ClientSoftwareName, r.ClientSoftwareVersion = "moldau", "1"
		return r
	}
	return nil
}

// preVote is a Vote that would be a real one before version 2 (KIP-996).
type preVote struct{ *kmsg.VoteRequest }

// LowestVersion is the first with pre-votes.
func (preVote) LowestVersion() int16 { return 2 }

func voteRequest(b *quorum.VoteRequest) kmsg.Request {
	p := kmsg.NewVoteRequestTopicPartition()
	p.CandidateEpoch, p.CandidateID, p.CandidateDirectoryID = int32(b.Epoch), int32(b.Candidate.ID), b.Candidate.Directory
	p.VoterDirectoryID = b.Voter.Directory
	p.LastOffsetEpoch, p.LastOffset = int32(b.Last.Epoch), int64(b.Last.Offset)
	p.PreVote = b.PreVote
	t := kmsg.NewVoteRequestTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.VoteRequestTopicPartition{p}
	r := kmsg.NewPtrVoteRequest()
	r.Version, r.ClusterID, r.VoterID = r.MaxVersion(), b.ClusterID, int32(b.Voter.ID)
	r.Topics = []kmsg.VoteRequestTopic{t}
	if b.PreVote {
		return preVote{r}
	}
	return r
}

func beginRequest(b *quorum.BeginQuorumEpochRequest) kmsg.Request {
	p := kmsg.NewBeginQuorumEpochRequestTopicPartition()
	p.VoterDirectoryID, p.LeaderID, p.LeaderEpoch = b.Voter.Directory, int32(b.Leader), int32(b.Epoch)
	t := kmsg.NewBeginQuorumEpochRequestTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.BeginQuorumEpochRequestTopicPartition{p}
	r := kmsg.NewPtrBeginQuorumEpochRequest()
	r.Version, r.ClusterID, r.VoterID = r.MaxVersion(), b.ClusterID, int32(b.Voter.ID)
	r.Topics = []kmsg.BeginQuorumEpochRequestTopic{t}
	for _, e := range b.LeaderEndpoints {
		r.LeaderEndpoints = append(r.LeaderEndpoints,
			kmsg.BeginQuorumEpochRequestLeaderEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return r
}

func endRequest(b *quorum.EndQuorumEpochRequest) kmsg.Request {
	p := kmsg.NewEndQuorumEpochRequestTopicPartition()
	p.LeaderID, p.LeaderEpoch = int32(b.Leader), int32(b.Epoch)
	for _, c := range b.Candidates {
		p.PreferredSuccessors = append(p.PreferredSuccessors, int32(c.ID)) // version 0
		k := kmsg.NewEndQuorumEpochRequestTopicPartitionPreferredCandidate()
		k.CandidateID, k.CandidateDirectoryID = int32(c.ID), c.Directory
		p.PreferredCandidates = append(p.PreferredCandidates, k)
	}
	t := kmsg.NewEndQuorumEpochRequestTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.EndQuorumEpochRequestTopicPartition{p}
	r := kmsg.NewPtrEndQuorumEpochRequest()
	r.Version, r.ClusterID, r.Topics = r.MaxVersion(), b.ClusterID, []kmsg.EndQuorumEpochRequestTopic{t}
	for _, e := range b.LeaderEndpoints {
		r.LeaderEndpoints = append(r.LeaderEndpoints,
			kmsg.EndQuorumEpochRequestLeaderEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return r
}

// fetch leaves out tags that a version does not have yet: Kafka refuses to read them.
type fetch struct{ *kmsg.FetchRequest }

// Versions of Fetch that brought something.
const (
	fetchTopicIDs     = 13
	fetchReplicaState = 15
	fetchDirectoryID  = 17 // and the leader's endpoints in the answer
	fetchHighWater    = 18
)

// LowestVersion is the first with topic ids: there is no other name for the metadata log.
func (fetch) LowestVersion() int16 { return fetchTopicIDs }

// SetVersion takes the request down to a version.
func (f fetch) SetVersion(version int16) {
	f.FetchRequest.SetVersion(version)
	p := &f.Topics[0].Partitions[0]
	if version < fetchHighWater {
		p.HighWatermark = math.MaxInt64
	}
	if version < fetchDirectoryID {
		p.ReplicaDirectoryID = kafka.ZeroUUID
	}
	if version < fetchReplicaState {
		f.ReplicaID, f.ReplicaState = f.ReplicaState.ID, kmsg.NewFetchRequestReplicaState()
	}
}

func fetchRequest(b *quorum.FetchRequest) kmsg.Request {
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = int32(b.Epoch), int64(b.Offset), int32(b.LastEpoch)
	p.ReplicaDirectoryID, p.HighWatermark = b.Replica.Directory, int64(b.HighWatermark)
	t := kmsg.NewFetchRequestTopic()
	t.TopicID, t.Partitions = kafka.MetadataTopicID, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.ClusterID, r.ReplicaState.ID = r.MaxVersion(), b.ClusterID, int32(b.Replica.ID)
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = b.MaxWaitMs, 0, b.MaxBytes
	r.Topics = []kmsg.FetchRequestTopic{t}
	return fetch{r}
}

// fetchSnapshot leaves out the tag that version 0 does not have.
type fetchSnapshot struct{ *kmsg.FetchSnapshotRequest }

// SetVersion takes the request down to a version.
func (f fetchSnapshot) SetVersion(version int16) {
	f.FetchSnapshotRequest.SetVersion(version)
	if version < 1 {
		f.Topics[0].Partitions[0].ReplicaDirectoryID = kafka.ZeroUUID
	}
}

func fetchSnapshotRequest(b *quorum.FetchSnapshotRequest) kmsg.Request {
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Position, p.ReplicaDirectoryID = int32(b.Epoch), b.Position, b.Replica.Directory
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(b.Snapshot.Offset), int32(b.Snapshot.Epoch)
	t := kmsg.NewFetchSnapshotRequestTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.FetchSnapshotRequestTopicPartition{p}
	r := kmsg.NewPtrFetchSnapshotRequest()
	r.Version, r.ClusterID, r.ReplicaID, r.MaxBytes = r.MaxVersion(), b.ClusterID, int32(b.Replica.ID), b.MaxBytes
	r.Topics = []kmsg.FetchSnapshotRequestTopic{t}
	return fetchSnapshot{r}
}

func addRequest(b *quorum.AddVoterRequest) kmsg.Request {
	r := kmsg.NewPtrAddRaftVoterRequest()
	r.Version, r.ClusterID, r.AckWhenCommitted = r.MaxVersion(), b.ClusterID, b.AckWhenCommitted
	r.VoterID, r.VoterDirectoryID = int32(b.Voter.ID), b.Voter.Directory
	for _, e := range b.Endpoints {
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		r.Listeners = append(r.Listeners, l)
	}
	return r
}

func updateRequest(b *quorum.UpdateVoterRequest) kmsg.Request {
	r := kmsg.NewPtrUpdateRaftVoterRequest()
	r.ClusterID, r.CurrentLeaderEpoch = b.ClusterID, int32(b.Epoch)
	r.VoterID, r.VoterDirectoryID = int32(b.Voter.Key.ID), b.Voter.Key.Directory
	f := &r.KRaftVersionFeature
	f.MinSupportedVersion, f.MaxSupportedVersion = b.Voter.KRaft.Min, b.Voter.KRaft.Max
	for _, e := range b.Voter.Endpoints {
		l := kmsg.NewUpdateRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		r.Listeners = append(r.Listeners, l)
	}
	return r
}
