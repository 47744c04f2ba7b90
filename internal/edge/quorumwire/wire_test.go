package quorumwire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

const listener = "CONTROLLER"

var (
	cluster = "MkU3OEVBNTcwNTJENDM2Qg"
	first   = quorum.ReplicaKey{ID: 1, Directory: kafka.UUID{1, 2, 3}}
	second  = quorum.ReplicaKey{ID: 2, Directory: kafka.UUID{4, 5, 6}}
	public  = []quorum.Endpoint{{Name: listener, Host: "one", Port: 65535}, {Name: "OTHER", Host: "uno", Port: 1}}
	leading = quorum.Verdict{Code: kafka.FencedLeaderEpoch, Leader: 1, Epoch: 7, LeaderEndpoints: public}
	// onlyOne is what is left of leading: one endpoint, or before versions with endpoints none.
	onlyOne = quorum.Verdict{Code: kafka.FencedLeaderEpoch, Leader: 1, Epoch: 7, LeaderEndpoints: public[:1]}
	nowhere = quorum.Verdict{Code: kafka.FencedLeaderEpoch, Leader: 1, Epoch: 7}
)

// over sends a request over the wire at a version.
func over(t *testing.T, r kmsg.Request, version int16) kmsg.Request {
	t.Helper()
	r.SetVersion(version)
	got := kmsg.RequestForKey(r.Key())
	got.SetVersion(version)
	wire := r.AppendTo(nil)
	if err := got.ReadFrom(wire); err != nil {
		t.Fatalf("%T v%d: %v", r, version, err)
	}
	if again := got.AppendTo(nil); string(again) != string(wire) {
		t.Fatalf("%T v%d does not read back as it was written", r, version)
	}
	return got
}

// back sends a response over the wire at its version.
func back(t *testing.T, r kmsg.Response) kmsg.Response {
	t.Helper()
	got := kmsg.ResponseForKey(r.Key())
	got.SetVersion(r.GetVersion())
	if err := got.ReadFrom(r.AppendTo(nil)); err != nil {
		t.Fatalf("%T v%d: %v", r, r.GetVersion(), err)
	}
	return got
}

// exchange is a request of the quorum with an answer, and what is left of both at a version.
type exchange struct {
	lowest, highest int16
	request         func() quorum.Body
	lessRequest     func(version int16, b quorum.Body)
	answer          func() quorum.Body
	lessAnswer      func(version int16, b quorum.Body)
}

func as[T quorum.Body](f func(version int16, b T)) func(int16, quorum.Body) {
	return func(version int16, b quorum.Body) { f(version, b.(T)) }
}

func whole(int16, quorum.Body) {}

func endpointsFrom(least int16, version int16, v *quorum.Verdict) {
	if *v = onlyOne; version < least {
		*v = nowhere
	}
}

var exchanges = []exchange{
	{0, 2, func() quorum.Body {
		return &quorum.VoteRequest{ClusterID: &cluster, Voter: second, Candidate: first, Epoch: 8,
			Last: quorum.OffsetAndEpoch{Offset: 90, Epoch: 7}}
	}, as(func(version int16, b *quorum.VoteRequest) {
		if version < 1 {
			b.Voter, b.Candidate.Directory = quorum.NoReplica, kafka.ZeroUUID
		}
	}), func() quorum.Body { return &quorum.VoteResponse{Verdict: leading, Granted: true} },
		as(func(version int16, b *quorum.VoteResponse) { endpointsFrom(1, version, &b.Verdict) })},
	{2, 2, func() quorum.Body {
		return &quorum.VoteRequest{ClusterID: &cluster, Voter: second, Candidate: first, Epoch: 8, PreVote: true,
			Last: quorum.OffsetAndEpoch{Offset: 90, Epoch: 8}}
	}, whole, func() quorum.Body { return &quorum.VoteResponse{Verdict: leading} },
		as(func(version int16, b *quorum.VoteResponse) { endpointsFrom(1, version, &b.Verdict) })},
	{0, 1, func() quorum.Body {
		return &quorum.BeginQuorumEpochRequest{Voter: second, Leader: 1, Epoch: 7, LeaderEndpoints: slices.Clone(public)}
	}, as(func(version int16, b *quorum.BeginQuorumEpochRequest) {
		if version < 1 {
			b.Voter, b.LeaderEndpoints = quorum.NoReplica, nil
		}
	}), func() quorum.Body { return &quorum.BeginQuorumEpochResponse{Verdict: leading} },
		as(func(version int16, b *quorum.BeginQuorumEpochResponse) { endpointsFrom(1, version, &b.Verdict) })},
	{0, 1, func() quorum.Body {
		return &quorum.EndQuorumEpochRequest{ClusterID: &cluster, Leader: 1, Epoch: 7,
			Candidates: []quorum.ReplicaKey{second, first}, LeaderEndpoints: slices.Clone(public)}
	}, as(func(version int16, b *quorum.EndQuorumEpochRequest) {
		if version < 1 {
			b.Candidates, b.LeaderEndpoints = []quorum.ReplicaKey{{ID: 2}, {ID: 1}}, nil
		}
	}), func() quorum.Body { return &quorum.EndQuorumEpochResponse{Verdict: leading} },
		as(func(version int16, b *quorum.EndQuorumEpochResponse) { endpointsFrom(1, version, &b.Verdict) })},
	{13, 18, fetchExample, as(lessFetch), func() quorum.Body {
		return &quorum.FetchResponse{Verdict: leading, HighWatermark: 80, LogStart: 3, From: kafka.NoOffset,
			Diverging: &quorum.OffsetAndEpoch{Offset: 70, Epoch: 0}, Records: []byte("batch")}
	}, as(func(version int16, b *quorum.FetchResponse) { endpointsFrom(17, version, &b.Verdict) })},
	{13, 18, fetchExample, as(lessFetch), func() quorum.Body {
		return &quorum.FetchResponse{Verdict: leading, HighWatermark: kafka.NoOffset, LogStart: kafka.NoOffset,
			From: kafka.NoOffset, Snapshot: &quorum.OffsetAndEpoch{Offset: 0, Epoch: 0}, Records: []byte{}}
	}, as(func(version int16, b *quorum.FetchResponse) { endpointsFrom(17, version, &b.Verdict) })},
	{0, 1, func() quorum.Body {
		return &quorum.FetchSnapshotRequest{ClusterID: &cluster, Replica: first, Epoch: 7, Position: 1 << 40, MaxBytes: 77,
			Snapshot: quorum.OffsetAndEpoch{Offset: 5, Epoch: 2}}
	}, as(func(version int16, b *quorum.FetchSnapshotRequest) {
		if version < 1 {
			b.Replica.Directory = kafka.ZeroUUID
		}
	}), func() quorum.Body {
		return &quorum.FetchSnapshotResponse{Verdict: leading, Snapshot: quorum.OffsetAndEpoch{Offset: 5, Epoch: 2},
			Size: 1 << 41, Position: 1 << 40, Bytes: []byte("piece")}
	}, as(func(version int16, b *quorum.FetchSnapshotResponse) { endpointsFrom(1, version, &b.Verdict) })},
	{0, 1, func() quorum.Body {
		return &quorum.AddVoterRequest{ClusterID: &cluster, Voter: second, Endpoints: public}
	}, as(func(version int16, b *quorum.AddVoterRequest) { b.AckWhenCommitted = version < 1 }), func() quorum.Body {
		return &quorum.ChangeVoterResponse{Code: kafka.DuplicateVoter, Message: "it is there"}
	}, whole},
	{0, 0, func() quorum.Body { return &quorum.RemoveVoterRequest{ClusterID: &cluster, Voter: second} }, whole,
		func() quorum.Body { return &quorum.ChangeVoterResponse{} }, whole},
	{0, 0, func() quorum.Body {
		return &quorum.UpdateVoterRequest{ClusterID: &cluster, Epoch: 7,
			Voter: quorum.Voter{Key: second, Endpoints: public, KRaft: quorum.VersionRange{Min: 0, Max: 1}}}
	}, whole, func() quorum.Body { return &quorum.UpdateVoterResponse{Verdict: leading} },
		as(func(version int16, b *quorum.UpdateVoterResponse) { endpointsFrom(0, version, &b.Verdict) })},
}

func fetchExample() quorum.Body {
	return &quorum.FetchRequest{ClusterID: &cluster, Replica: second, Epoch: 7, Offset: 90, LastEpoch: 6, HighWatermark: 80,
		MaxWaitMs: 500, MaxBytes: 1 << 20}
}

func lessFetch(version int16, b *quorum.FetchRequest) {
	if version < 18 {
		b.HighWatermark = math.MaxInt64
	}
	if version < 17 {
		b.Replica.Directory = kafka.ZeroUUID
	}
}

func TestEveryVersion(t *testing.T) {
	for _, x := range exchanges {
		newest := Request(x.request())
		if newest.GetVersion() != x.highest || newest.MaxVersion() != x.highest {
			t.Errorf("%T is sent at version %d, want %d", x.request(), newest.GetVersion(), x.highest)
		}
		if f, ok := newest.(interface{ LowestVersion() int16 }); ok != (x.lowest > 0) || ok && f.LowestVersion() != x.lowest {
			t.Errorf("%T has another floor than %d", x.request(), x.lowest)
		}
		for version := x.lowest; version <= x.highest; version++ {
			name := fmt.Sprintf("%T v%d", x.request(), version)
			arrived := over(t, Request(x.request()), version)
			if f, ok := arrived.(*kmsg.FetchRequest); ok && version < fetchReplicaState && f.ReplicaState.ID != -1 {
				t.Errorf("%s: a tag that Kafka refuses to read at this version", name)
			}
			got, err := Received(arrived)
			want := x.request()
			x.lessRequest(version, want)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
			resp := Response(arrived, x.answer(), listener)
			if resp == nil || resp.GetVersion() != version {
				t.Fatalf("%s: response %v", name, resp)
			}
			got, err = Answered("controller", back(t, resp))
			want = x.answer()
			x.lessAnswer(version, want)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: answer: %v\n%s", name, err, diff)
			}
			checkTop(t, name, arrived, x)
		}
	}
}

// checkTop: an error of the whole answer arrives as one, whether the core gave it or the caller.
func checkTop(t *testing.T, name string, arrived kmsg.Request, x exchange) {
	t.Helper()
	want := Refused(x.request(), kafka.InconsistentClusterID)
	answers := map[string]kmsg.Response{"refusal": Refusal(arrived, kafka.InconsistentClusterID)}
	switch want := want.(type) {
	case *quorum.ChangeVoterResponse:
		want.Message = ""
	case *quorum.UpdateVoterResponse: // one code for both
		want.Top, want.Code = kafka.None, want.Top
	default:
		answers["top"] = Response(arrived, want, listener)
	}
	for which, resp := range answers {
		got, err := Answered(listener, back(t, resp))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %s: %v\n%s", name, which, err, diff)
		}
	}
}

func TestLeaderIsNamedOnlyWhenKnown(t *testing.T) {
	arrived := over(t, Request(fetchExample()), 18)
	for _, v := range []quorum.Verdict{
		{Leader: kafka.NoNode, Epoch: 7, LeaderEndpoints: public},
		{Leader: 1, Epoch: 7, LeaderEndpoints: public[1:]},
		{Leader: 1, Epoch: 7},
	} {
		resp, ok := Response(arrived, &quorum.FetchResponse{Verdict: v}, listener).(*kmsg.FetchResponse)
		if !ok || len(resp.Brokers) != 0 || resp.Topics[0].Partitions[0].CurrentLeader.LeaderEpoch != 7 {
			t.Errorf("%+v became %+v", v, resp)
		}
	}
	// A node that is not the leader is not mistaken for it, nor is a port that is none.
	r := kmsg.NewPtrUpdateRaftVoterResponse()
	r.CurrentLeader.LeaderID, r.CurrentLeader.Host, r.CurrentLeader.Port = 3, "three", 65536
	got, err := Answered(listener, r)
	if b, ok := got.(*quorum.UpdateVoterResponse); err != nil || !ok || b.LeaderEndpoints != nil || b.Leader != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	f := kmsg.NewPtrFetchResponse()
	topic := kmsg.NewFetchResponseTopic()
	topic.TopicID, topic.Partitions = kafka.MetadataTopicID, []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition()}
	topic.Partitions[0].CurrentLeader.LeaderID = 1
	f.Topics = []kmsg.FetchResponseTopic{topic}
	f.Brokers = []kmsg.FetchResponseBroker{{NodeID: 2, Host: "two", Port: 9}, {NodeID: 1, Host: "one", Port: -1}}
	if got, err := Answered(listener, f); err != nil || got.(*quorum.FetchResponse).LeaderEndpoints != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOtherTopicsAreRefused(t *testing.T) {
	spoil := map[string]func(kmsg.Request){
		"other topic": func(r kmsg.Request) {
			switch r := r.(type) {
			case *kmsg.VoteRequest:
				r.Topics[0].Topic = "x"
			case *kmsg.BeginQuorumEpochRequest:
				r.Topics[0].Topic = "x"
			case *kmsg.EndQuorumEpochRequest:
				r.Topics[0].Topic = "x"
			case *kmsg.FetchRequest:
				r.Topics[0].TopicID[0] = 1
			case *kmsg.FetchSnapshotRequest:
				r.Topics[0].Topic = "x"
			}
		},
		"other partition": func(r kmsg.Request) {
			switch r := r.(type) {
			case *kmsg.VoteRequest:
				r.Topics[0].Partitions[0].Partition = 1
			case *kmsg.BeginQuorumEpochRequest:
				r.Topics[0].Partitions[0].Partition = 1
			case *kmsg.EndQuorumEpochRequest:
				r.Topics[0].Partitions[0].Partition = 1
			case *kmsg.FetchRequest:
				r.Topics[0].Partitions[0].Partition = 1
			case *kmsg.FetchSnapshotRequest:
				r.Topics[0].Partitions[0].Partition = 1
			}
		},
		"no topic": func(r kmsg.Request) {
			switch r := r.(type) {
			case *kmsg.VoteRequest:
				r.Topics = nil
			case *kmsg.BeginQuorumEpochRequest:
				r.Topics = nil
			case *kmsg.EndQuorumEpochRequest:
				r.Topics = nil
			case *kmsg.FetchRequest:
				r.Topics = nil
			case *kmsg.FetchSnapshotRequest:
				r.Topics = nil
			}
		},
	}
	for _, x := range exchanges[:7] {
		for what, f := range spoil {
			r := over(t, Request(x.request()), x.highest)
			f(r)
			want := kafka.InvalidRequest
			if _, ok := r.(*kmsg.FetchSnapshotRequest); ok && what != "no topic" {
				want = kafka.UnknownTopicOrPartition
			}
			_, err := Received(r)
			if !errors.Is(err, want) {
				t.Errorf("%T, %s: %v", r, what, err)
			}
			resp := back(t, Refusal(r, err))
			if s, ok := resp.(*kmsg.FetchSnapshotResponse); ok && want == kafka.UnknownTopicOrPartition {
				if s.ErrorCode != 0 || len(s.Topics) != 1 || kafka.Code(s.Topics[0].Partitions[0].ErrorCode) != want {
					t.Errorf("%s: %+v", what, s)
				}
			}
		}
	}
	old := kmsg.NewPtrFetchRequest()
	old.Version = 12
	if _, err := Received(old); !errors.Is(err, kafka.InvalidRequest) {
		t.Errorf("a fetch without topic id: %v", err)
	}
}

func TestEmptyAnswersAreCorrupt(t *testing.T) {
	for _, x := range exchanges[:7] {
		resp := Request(x.request()).ResponseKind()
		if _, err := Answered(listener, resp); !errors.Is(err, kafka.CorruptMessage) {
			t.Errorf("%T without topics: %v", resp, err)
		}
	}
	if _, err := Answered(listener, kmsg.NewPtrMetadataResponse()); !errors.Is(err, kafka.CorruptMessage) {
		t.Error(err)
	}
	if _, err := Received(kmsg.NewPtrMetadataRequest()); !errors.Is(err, kafka.InvalidRequest) {
		t.Error(err)
	}
}

func TestVersionsOfKRaft(t *testing.T) {
	r, ok := Request(&quorum.ApiVersionsRequest{}).(*kmsg.ApiVersionsRequest)
	if !ok || r.Version < 4 {
		t.Fatalf("%+v: features that begin at 0 are asked for from version 4 on", r)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 4
	resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: "metadata.version", MinVersion: 7, MaxVersion: 33},
		{Name: "kraft.version", MinVersion: 0, MaxVersion: 1}}
	got, err := Answered(listener, resp)
	if diff := cmp.Diff(&quorum.ApiVersionsResponse{KRaft: quorum.VersionRange{Min: 0, Max: 1}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// The answer that a core gives to something else is no response.
func TestMismatch(t *testing.T) {
	r := over(t, Request(fetchExample()), 18)
	if got := Response(r, &quorum.VoteResponse{}, listener); got != nil {
		t.Errorf("%T", got)
	}
	if got := Response(r, &quorum.ChangeVoterResponse{}, listener); got != nil {
		t.Errorf("%T", got)
	}
	if Request(&quorum.VoteResponse{}) != nil || Refused(&quorum.VoteResponse{}, kafka.None) != nil {
		t.Error("an answer is no request")
	}
}

// FuzzWire: no bytes of a peer's make a request or a response that takes the node down.
func FuzzWire(f *testing.F) {
	for _, x := range exchanges {
		r := Request(x.request())
		f.Add(r.Key(), r.GetVersion(), r.AppendTo(nil))
		f.Add(r.Key(), r.GetVersion(), Response(r, x.answer(), listener).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, wire []byte) {
		r := kmsg.RequestForKey(key)
		if r == nil {
			return
		}
		r.SetVersion(min(max(version, 0), r.MaxVersion()))
		if r.ReadFrom(wire) == nil {
			if body, err := Received(r); err == nil && Request(body) == nil {
				t.Errorf("%T is no request", body)
			} else if err != nil {
				Refusal(r, err)
			}
		}
		resp := r.ResponseKind()
		if resp.ReadFrom(wire) == nil {
			if body, err := Answered(listener, resp); (body == nil) == (err == nil) {
				t.Errorf("%T: %v, %v", resp, body, err)
			}
		}
	})
}
