package api

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// singleGroup makes a request about group "g" of every API that is about one group.
func singleGroup(key kmsg.Key, version int16) kmsg.Request {
	g, m := "g", "member-ü"
	switch key {
	case kmsg.JoinGroup:
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.MemberID, r.ProtocolType = g, m, "consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("abc")}}
		return at(r, version)
	case kmsg.SyncGroup:
		r := kmsg.NewPtrSyncGroupRequest()
		r.Group, r.MemberID, r.Generation = g, m, 3
		r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m, MemberAssignment: []byte("xyz")}}
		if version >= 5 {
			r.ProtocolType, r.Protocol = &m, &g
		}
		return at(r, version)
	case kmsg.Heartbeat:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation = g, m, 3
		return at(r, version)
	case kmsg.LeaveGroup:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group = g
		if r.MemberID = m; version >= 3 {
			r.MemberID, r.Members = "", []kmsg.LeaveGroupRequestMember{{MemberID: m}, {InstanceID: &g}}
		}
		return at(r, version)
	case kmsg.ConsumerGroupHeartbeat:
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Group, r.MemberID, r.SubscribedTopicNames = g, m, []string{"a", "b"}
		return at(r, version)
	case kmsg.OffsetDelete:
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = g
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "a",
			Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 4}}}}
		return at(r, version)
	case kmsg.OffsetFetch:
		r := kmsg.NewPtrOffsetFetchRequest()
		if version < 8 {
			r.Group, r.Topics = g, []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{4, 5}}}
			return at(r, version)
		}
		r.RequireStable = true
		one := kmsg.OffsetFetchRequestGroup{Group: g, MemberEpoch: -1,
			Topics: []kmsg.OffsetFetchRequestGroupTopic{{Partitions: []int32{4}}}}
		if one.Topics[0].TopicID = [16]byte{7}; version < 10 {
			one.Topics[0].Topic, one.Topics[0].TopicID = "a", [16]byte{}
		}
		r.Groups = append(r.Groups, one)
		return at(r, version)
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID = g, m
	text := "text"
	topic := kmsg.OffsetCommitRequestTopic{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: 4, Offset: 9, LeaderEpoch: -1, Metadata: &text}, {Partition: 5, Offset: 1, LeaderEpoch: -1}}}
	if version >= 10 {
		topic.Topic, topic.TopicID = "", [16]byte{7}
	}
	r.Topics = append(r.Topics, topic)
	return at(r, version)
}

// singles are the APIs that are about one group.
var singles = []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.ConsumerGroupHeartbeat,
	kmsg.OffsetDelete, kmsg.OffsetFetch, kmsg.OffsetCommit}

func (g *groupFixture) versions(key kmsg.Key) (int16, int16) {
	row := g.row(int16(key))
	return row.Min, row.Max
}

// TestGroupRequestsReachTheMachineWhole: in every version, with who sent them, in memory of their own.
func TestGroupRequestsReachTheMachineWhole(t *testing.T) {
	g := newGroups(t)
	g.topic(3)
	for _, key := range singles {
		low, high := g.versions(key)
		for v := low; v <= high; v++ {
			g.asked = nil
			g.answers(func(req kmsg.Request) (kmsg.Response, error) { return req.ResponseKind(), nil })
			req := singleGroup(key, v)
			_, p := g.start(req)
			g.body(req, g.reply(p))
			if len(g.asked) != 1 {
				t.Fatalf("%s version %d: the machine was asked %d times", apiName(int16(key)), v, len(g.asked))
			}
			got := g.asked[0]
			if string(got.Body.AppendTo(nil)) != string(req.AppendTo(nil)) || got.Body.GetVersion() != v {
				t.Errorf("%s version %d: the machine was given %+v", apiName(int16(key)), v, got.Body)
			}
			want := coordinator.Call{Principal: kafka.Principal{}, ClientID: "test", ClientHost: "/127.0.0.1"}
			if diff := cmp.Diff(want.ClientHost+want.ClientID, got.Call.ClientHost+got.Call.ClientID); diff != "" {
				t.Errorf("%s: %s", apiName(int16(key)), diff)
			}
		}
	}
}

// TestGroupRefusals: what has no response of its own has the shape of each API and version.
func TestGroupRefusals(t *testing.T) {
	g := newGroups(t)
	g.topic(3)
	g.refuses(kafka.NotCoordinator)
	const code = int16(kafka.NotCoordinator)
	for _, key := range singles {
		low, high := g.versions(key)
		for v := low; v <= high; v++ {
			req := singleGroup(key, v)
			_, p := g.start(req)
			reply := g.reply(p)
			if reply.Code != kafka.NotCoordinator {
				t.Errorf("%s version %d: counted as %v", apiName(int16(key)), v, reply.Code)
			}
			var ok bool
			switch r := g.body(req, reply).(type) {
			case *kmsg.JoinGroupResponse:
				ok = r.ErrorCode == code && r.Generation == -1 && r.MemberID == "member-ü" && len(r.Members) == 0
			case *kmsg.SyncGroupResponse:
				ok = r.ErrorCode == code && len(r.MemberAssignment) == 0
			case *kmsg.HeartbeatResponse:
				ok = r.ErrorCode == code
			case *kmsg.LeaveGroupResponse:
				ok = r.ErrorCode == code && len(r.Members) == 0
			case *kmsg.ConsumerGroupHeartbeatResponse:
				ok = r.ErrorCode == code && r.MemberID == nil && r.Assignment == nil
			case *kmsg.OffsetDeleteResponse:
				ok = r.ErrorCode == code && len(r.Topics) == 0
			case *kmsg.OffsetFetchResponse:
				ok = refusedFetch(r, v, code)
			case *kmsg.OffsetCommitResponse:
				parts := []kmsg.OffsetCommitResponseTopicPartition{{Partition: 4, ErrorCode: code}, {Partition: 5, ErrorCode: code}}
				ok = len(r.Topics) == 1 && reflect.DeepEqual(r.Topics[0].Partitions, parts) &&
					(r.Topics[0].Topic == "a") == (v < 10) && (r.Topics[0].TopicID == [16]byte{7}) == (v >= 10)
			}
			if !ok {
				t.Errorf("%s version %d is refused wrongly", apiName(int16(key)), v)
			}
		}
	}
}

func refusedFetch(r *kmsg.OffsetFetchResponse, version, code int16) bool {
	switch {
	case version >= 8:
		return len(r.Groups) == 1 && r.Groups[0].Group == "g" && r.Groups[0].ErrorCode == code && len(r.Groups[0].Topics) == 0
	case version >= 2:
		return r.ErrorCode == code && len(r.Topics) == 0
	}
	empty := ""
	parts := []kmsg.OffsetFetchResponseTopicPartition{{Partition: 4, Offset: -1, LeaderEpoch: -1, Metadata: &empty, ErrorCode: code},
		{Partition: 5, Offset: -1, LeaderEpoch: -1, Metadata: &empty, ErrorCode: code}}
	return len(r.Topics) == 1 && r.Topics[0].Topic == "a" && reflect.DeepEqual(r.Topics[0].Partitions, parts)
}

// TestHeartbeatWhileLoading: the coordinator does not know the member yet, which is no reason to alarm it.
func TestHeartbeatWhileLoading(t *testing.T) {
	g := newGroups(t)
	g.topic(1)
	g.refuses(kafka.CoordinatorLoadInProgress)
	for v := int16(0); v <= 4; v++ {
		if r := ask[*kmsg.HeartbeatResponse](g.fixture, singleGroup(kmsg.Heartbeat, v)); r.ErrorCode != 0 {
			t.Errorf("version %d: %v", v, kafka.Code(r.ErrorCode))
		}
	}
	if r := ask[*kmsg.SyncGroupResponse](g.fixture, singleGroup(kmsg.SyncGroup, 3)); r.ErrorCode == 0 {
		t.Error("SyncGroup succeeds while the coordinator loads")
	}
}

// TestSyncWithoutAProtocol is refused before anybody looks for the group (KIP-559).
func TestSyncWithoutAProtocol(t *testing.T) {
	g := newGroups(t)
	for _, spoil := range []func(*kmsg.SyncGroupRequest){
		func(r *kmsg.SyncGroupRequest) { r.ProtocolType = nil }, func(r *kmsg.SyncGroupRequest) { r.Protocol = nil },
	} {
		req := singleGroup(kmsg.SyncGroup, 5).(*kmsg.SyncGroupRequest)
		spoil(req)
		if r := ask[*kmsg.SyncGroupResponse](g.fixture, req); r.ErrorCode != int16(kafka.InconsistentGroupProtocol) {
			t.Errorf("%v", kafka.Code(r.ErrorCode))
		}
	}
}

// TestGroupsWithoutACoordinator: before there is a topic, and after the runtime has closed.
func TestGroupsWithoutACoordinator(t *testing.T) {
	g := newGroups(t)
	if r := ask[*kmsg.JoinGroupResponse](g.fixture, singleGroup(kmsg.JoinGroup, 5)); r.ErrorCode != int16(kafka.NotCoordinator) {
		t.Errorf("without a topic: %v", kafka.Code(r.ErrorCode))
	}
	list := kmsg.NewPtrListGroupsRequest()
	if r := ask[*kmsg.ListGroupsResponse](g.fixture, list); r.ErrorCode != 0 || len(r.Groups) != 0 {
		t.Errorf("without a topic: %+v", r)
	}
	g.topic(1)
	g.mu.Lock()
	g.answer = func(*coordinator.Pending) *coordinator.Answer { return nil }
	g.mu.Unlock()
	req := singleGroup(kmsg.JoinGroup, 5)
	_, p := g.start(req)
	if _, ok := p.Get(); ok {
		t.Fatal("a parked join is answered")
	}
	g.Groups.Close()
	if r := g.body(req, g.reply(p)).(*kmsg.JoinGroupResponse); r.ErrorCode == 0 {
		t.Error("a join that was parked when the coordinator closed succeeds")
	}
}

func names(version int16, key kmsg.Key, operations bool, ids ...string) kmsg.Request {
	switch key {
	case kmsg.DescribeGroups:
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups, r.IncludeAuthorizedOperations = ids, operations
		return at(r, version)
	case kmsg.ConsumerGroupDescribe:
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups, r.IncludeAuthorizedOperations = ids, operations
		return at(r, version)
	case kmsg.DeleteGroups:
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = ids
		return at(r, version)
	}
	r := kmsg.NewPtrOffsetFetchRequest()
	for _, id := range ids {
		r.Groups = append(r.Groups, kmsg.OffsetFetchRequestGroup{Group: id, MemberEpoch: -1})
	}
	return at(r, version)
}

// TestRoomForOffsets: an OffsetFetch is bounded as a whole.
func TestRoomForOffsets(t *testing.T) {
	call := callOf(&server.Call{Key: int16(kmsg.OffsetFetch), Conn: new(server.ConnInfo)})
	if call.Room == nil || call.Room.Load() != maxOffsets {
		t.Errorf("room %v", call.Room)
	}
	if call = callOf(&server.Call{Key: int16(kmsg.OffsetCommit), Conn: new(server.ConnInfo)}); call.Room != nil {
		t.Error("a commit has room for offsets")
	}
}

// about gives the group of a request about one, and an answer to it: "bad" has an error, "gone" is answered without a
// response.
func about(t testing.TB, req kmsg.Request) (kmsg.Response, error) {
	one := func(ids []string) string {
		if len(ids) != 1 {
			t.Errorf("a machine is asked about %q", ids)
		}
		return ids[0]
	}
	code := map[string]int16{"bad": int16(kafka.NonEmptyGroup)}
	var id string
	var resp kmsg.Response
	switch r := req.(type) {
	case *kmsg.DescribeGroupsRequest:
		id = one(r.Groups)
		resp = &kmsg.DescribeGroupsResponse{Groups: []kmsg.DescribeGroupsResponseGroup{{State: "Stable", ErrorCode: code[id]}}}
	case *kmsg.ConsumerGroupDescribeRequest:
		id = one(r.Groups)
		resp = &kmsg.ConsumerGroupDescribeResponse{
			Groups: []kmsg.ConsumerGroupDescribeResponseGroup{{State: "Stable", ErrorCode: code[id]}}}
	case *kmsg.DeleteGroupsRequest:
		id = one(r.Groups)
		resp = &kmsg.DeleteGroupsResponse{Groups: []kmsg.DeleteGroupsResponseGroup{{ErrorCode: code[id]}}}
	case *kmsg.OffsetFetchRequest:
		id = one([]string{r.Groups[0].Group})
		resp = &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{ErrorCode: code[id]}}}
	}
	if id == "gone" {
		return nil, kafka.Errorf(kafka.NotCoordinator, "moved")
	}
	return resp, nil
}

// TestManyGroups: a request about many groups is taken apart and its answers stand in order, errors beside them.
func TestManyGroups(t *testing.T) {
	g := newGroups(t)
	g.topic(7)
	g.answers(func(req kmsg.Request) (kmsg.Response, error) { return about(t, req) })
	for key, low := range map[kmsg.Key]int16{kmsg.DescribeGroups: 0, kmsg.ConsumerGroupDescribe: 0, kmsg.DeleteGroups: 0,
		kmsg.OffsetFetch: 8} {
		_, high := g.versions(key)
		for v := low; v <= high; v++ {
			req := names(v, key, v >= 3 || key == kmsg.ConsumerGroupDescribe, "b", "gone", "a", "bad", "b")
			_, p := g.start(req)
			reply := g.reply(p)
			var got []string
			switch r := g.body(req, reply).(type) {
			case *kmsg.DescribeGroupsResponse:
				for _, x := range r.Groups {
					got = append(got, fmt.Sprint(x.Group, x.ErrorCode))
					if want := operationsIf(v >= 3 && x.ErrorCode == 0, allGroupOperations); x.AuthorizedOperations != want {
						t.Errorf("DescribeGroups version %d: operations %b", v, x.AuthorizedOperations)
					}
				}
			case *kmsg.ConsumerGroupDescribeResponse:
				for _, x := range r.Groups {
					got = append(got, fmt.Sprint(x.Group, x.ErrorCode))
					if want := operationsIf(x.ErrorCode == 0, allGroupOperations); x.AuthorizedOperations != want {
						t.Errorf("ConsumerGroupDescribe version %d: operations %b", v, x.AuthorizedOperations)
					}
				}
			case *kmsg.DeleteGroupsResponse:
				for _, x := range r.Groups {
					got = append(got, fmt.Sprint(x.Group, x.ErrorCode))
				}
			case *kmsg.OffsetFetchResponse:
				for _, x := range r.Groups {
					got = append(got, fmt.Sprint(x.Group, x.ErrorCode))
				}
			}
			want := []string{"b0", "gone16", "a0", "bad68", "b0"}
			if key == kmsg.DeleteGroups { // each once
				want = want[:4]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s version %d: %q, want %q", apiName(int16(key)), v, got, want)
			}
			if reply.Code != kafka.NotCoordinator {
				t.Errorf("%s version %d: counted as %v", apiName(int16(key)), v, reply.Code)
			}
			none := names(v, key, false)
			_, p = g.start(none)
			g.body(none, g.reply(p))
		}
	}
}

// TestAuthorizedOperationsAreNotToldUnasked: they cost a look at every rule.
func TestAuthorizedOperationsAreNotToldUnasked(t *testing.T) {
	g := newGroups(t)
	g.topic(1)
	g.answers(func(req kmsg.Request) (kmsg.Response, error) { return about(t, req) })
	r := ask[*kmsg.DescribeGroupsResponse](g.fixture, names(6, kmsg.DescribeGroups, false, "a"))
	if r.Groups[0].AuthorizedOperations != notAsked {
		t.Errorf("operations %b", r.Groups[0].AuthorizedOperations)
	}
}

// TestTooManyGroups: a small request must not become endless work.
func TestTooManyGroups(t *testing.T) {
	g := newGroups(t)
	g.topic(1)
	req := names(6, kmsg.DescribeGroups, false, strings.Split(strings.Repeat("a,", maxGroups), ",")...)
	if _, p := g.start(req); !g.reply(p).Close || len(g.asked) != 0 {
		t.Error("it is answered")
	}
}

// TestListGroups joins what every shard lists: one that is elsewhere by now is left out, one that loads spoils the list.
func TestListGroups(t *testing.T) {
	g := newGroups(t)
	g.topic(3)
	n, second := 0, error(nil)
	g.answers(func(req kmsg.Request) (kmsg.Response, error) {
		if n++; n%3 == 2 && second != nil {
			return nil, second
		}
		return &kmsg.ListGroupsResponse{Groups: []kmsg.ListGroupsResponseGroup{{Group: fmt.Sprint("g", (n-1)%3),
			GroupState: strings.Join(req.(*kmsg.ListGroupsRequest).StatesFilter, "+")}}}, nil
	})
	list := func(v int16) string {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.StatesFilter = v, []string{"Stable", "Empty"}
		r := ask[*kmsg.ListGroupsResponse](g.fixture, req)
		text := kafka.Code(r.ErrorCode).Name()
		for _, x := range r.Groups {
			text += " " + x.Group + x.GroupState
		}
		return text
	}
	for v := int16(0); v <= 5; v++ {
		want := "NONE g0 g1 g2"
		if v >= 4 {
			want = "NONE g0Stable+Empty g1Stable+Empty g2Stable+Empty"
		}
		if got := list(v); got != want {
			t.Errorf("version %d: %q, want %q", v, got, want)
		}
	}
	for code, want := range map[kafka.Code]string{kafka.NotCoordinator: "NONE g0 g2",
		kafka.CoordinatorLoadInProgress: "COORDINATOR_LOAD_IN_PROGRESS"} {
		if second = code; list(3) != want {
			t.Errorf("with %v: not %q", code, want)
		}
	}
}

func TestGather(t *testing.T) {
	a, b := &promise.Promise[int]{}, &promise.Promise[int]{}
	all := gather([]*promise.Promise[int]{a, b})
	b.Set(2)
	if _, ok := all.Get(); ok {
		t.Error("set before all are")
	}
	a.Set(1)
	if got, ok := all.Get(); !ok || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("%v, %v", got, ok)
	}
	if got, ok := gather[int](nil).Get(); !ok || len(got) != 0 {
		t.Errorf("nothing to gather: %v, %v", got, ok)
	}
}
