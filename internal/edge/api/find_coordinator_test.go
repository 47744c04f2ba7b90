package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

func findRequest(version int16, kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.Version, r.CoordinatorType = version, kind
	if version < 4 {
		r.CoordinatorKey = keys[0]
	} else {
		r.CoordinatorKeys = keys
	}
	return r
}

// found is what an answer says of one key.
type found struct {
	code    kafka.Code
	node    int32
	host    string
	port    int32
	message bool
}

func (g *groupFixture) find(version int16, kind int8, key string) found {
	g.t.Helper()
	resp := ask[*kmsg.FindCoordinatorResponse](g.fixture, findRequest(version, kind, key))
	if version < 4 {
		return found{kafka.Code(resp.ErrorCode), resp.NodeID, resp.Host, resp.Port, resp.ErrorMessage != nil}
	}
	c := resp.Coordinators[0]
	if len(resp.Coordinators) != 1 || c.Key != key || resp.ErrorCode != 0 {
		g.t.Fatalf("version %d: %+v", version, resp)
	}
	return found{kafka.Code(c.ErrorCode), c.NodeID, c.Host, c.Port, c.ErrorMessage != nil}
}

func TestFindCoordinator(t *testing.T) {
	g := newGroups(t)
	g.topic(5)
	g.transactions(3)
	for v := int16(0); v <= 6; v++ {
		here := found{kafka.None, 1, "host-1", 9092, v > 0}
		none := found{kafka.InvalidRequest, -1, "", -1, v > 0}
		for _, key := range []string{"g", "", "gruppe-ü"} {
			want := map[int8]found{0: here, 1: here, 2: none, 9: none}
			if v == 0 { // it has no room for the kind
				want = map[int8]found{0: here, 1: here, 2: here, 9: here}
			}
			for kind, want := range want {
				if got := g.find(v, kind, key); got != want {
					t.Errorf("version %d, kind %d, key %q: %+v, want %+v", v, kind, key, got, want)
				}
			}
		}
	}
	resp := ask[*kmsg.FindCoordinatorResponse](g.fixture, findRequest(4, 0, "b", "a", "b"))
	for i, key := range []string{"b", "a", "b"} {
		if resp.Coordinators[i].Key != key {
			t.Errorf("the answers are not in the order of the keys: %+v", resp.Coordinators)
		}
	}
	if resp := ask[*kmsg.FindCoordinatorResponse](g.fixture, findRequest(4, 0)); len(resp.Coordinators) != 0 {
		t.Errorf("no key gives %+v", resp.Coordinators)
	}
	if len(g.fakeController.asked) != 0 {
		t.Error("something was created")
	}
}

// TestFindCoordinatorCreatesTheTopic, whatever auto.create.topics.enable says, once for everybody who asks.
func TestFindCoordinatorCreatesTheTopic(t *testing.T) {
	g := newGroups(t)
	g.Config = g.static([]string{"auto.create.topics.enable", "false"})
	want := found{kafka.CoordinatorNotAvailable, -1, "", -1, true}
	for range 3 {
		if got := g.find(3, 0, "g"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if len(g.fakeController.asked) != 1 {
		t.Fatalf("asked %d times", len(g.fakeController.asked))
	}
	req := g.fakeController.asked[0].(*kmsg.CreateTopicsRequest)
	if req.Topics[0].Topic != kafka.OffsetsTopic || req.Topics[0].NumPartitions != 50 {
		t.Errorf("%+v", req)
	}
	g.topic(50)
	if got := g.find(3, 0, "g"); got.code != kafka.None {
		t.Errorf("then %+v", got)
	}
	if got := g.find(3, 1, "t"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	req = g.fakeController.asked[1].(*kmsg.CreateTopicsRequest)
	if req.Topics[0].Topic != kafka.TransactionsTopic || req.Topics[0].NumPartitions != 50 {
		t.Errorf("%+v", req)
	}
}

// TestFindCoordinatorElsewhere: the leader is the coordinator, and one that is away is not.
func TestFindCoordinatorElsewhere(t *testing.T) {
	g := newGroups(t)
	g.createElsewhere(kafka.OffsetsTopic)
	g.Groups.Changed(g.Image(), nil)
	if got, want := g.find(4, 0, "g"), (found{kafka.None, 2, "host-2", 9092, true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	g.fence(2)
	if got, want := g.find(4, 0, "g"), (found{kafka.CoordinatorNotAvailable, -1, "", -1, true}); got != want {
		t.Errorf("fenced: %+v, want %+v", got, want)
	}
	g.unfence(2)
	nobody := kafka.NoNode
	g.apply(&metadata.PartitionChangeRecord{TopicID: topicID(kafka.OffsetsTopic), Leader: &nobody})
	g.Groups.Changed(g.Image(), nil)
	if got := g.find(4, 0, "g"); got.code != kafka.CoordinatorNotAvailable {
		t.Errorf("without a leader: %+v", got)
	}
}
