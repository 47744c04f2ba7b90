package group

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Records of Apache Kafka 4.4.0: a group that was just founded, with one static member, and left by its last member.
var goldenGroups = []struct {
	value string
	group groupMetadata
}{
	{"0003000000000000ffffffff000001a22dcc7c6800000000", groupMetadata{sinceMs: 0x1a22dcc7c68}},
	{"00030008636f6e73756d657200000001000572616e6765002769312d64623939653630662d636135312d346339632d396264332d62336233363" +
		"761626264336100" + "0001a22dcc7c6d00000001002769312d64623939653630662d636135312d346339632d396264332d623362333637616262" +
		"643361000269310005" + "70726f6265000a2f3132372e302e302e3100004e2000007530000000026d72000000027061",
		groupMetadata{
			protocolType: "consumer", generation: 1, protocol: ptr("range"),
			leader: ptr("i1-db99e60f-ca51-4c9c-9bd3-b3b367abbd3a"), sinceMs: 0x1a22dcc7c6d,
			members: []memberMetadata{{
				id: "i1-db99e60f-ca51-4c9c-9bd3-b3b367abbd3a", instance: ptr("i1"), clientID: "probe", clientHost: "/127.0.0.1",
				rebalanceMs: 20_000, sessionMs: 30_000, subscription: []byte("mr"), assignment: []byte("pa"),
			}},
		}},
	{"00030008636f6e73756d657200000004ffffffff000001a22dccd03c00000000", groupMetadata{
		protocolType: "consumer", generation: 4, sinceMs: 0x1a22dccd03c,
	}},
}

func ptr(s string) *string { return &s }

func TestGroupMetadataAsKafkaWritesIt(t *testing.T) {
	for _, g := range goldenGroups {
		r := groupMetadataRecord("golden", g.group)
		if key := hex.EncodeToString(r.Key); key != "00020006676f6c64656e" {
			t.Errorf("key %s", key)
		}
		if value := hex.EncodeToString(r.Value); value != g.value {
			t.Errorf("wrote\n%s, not\n%s", value, g.value)
		}
		value, _ := hex.DecodeString(g.value)
		read, err := parseGroupMetadata(value)
		if err != nil {
			t.Fatal(err)
		}
		if g.group.members == nil {
			g.group.members = []memberMetadata{}
		}
		if d := cmp.Diff(&g.group, read, cmp.AllowUnexported(groupMetadata{}, memberMetadata{})); d != "" {
			t.Error(d)
		}
	}
}

// Old brokers knew fewer fields: a group has no time then, and a member one timeout for both.
func TestGroupMetadataOfEveryVersion(t *testing.T) {
	for version := range int16(groupMetadataNewest + 1) {
		v := kmsg.GroupMetadataValue{
			Version: version, ProtocolType: "consumer", Generation: 3, Protocol: ptr("range"), Leader: ptr("m"),
			CurrentStateTimestamp: 77,
			Members: []kmsg.GroupMetadataValueMember{{
				MemberID: "m", InstanceID: ptr("i"), ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: 5,
				SessionTimeoutMillis: 6, Subscription: []byte("s"), Assignment: []byte("a"),
			}},
		}
		g, err := parseGroupMetadata(v.AppendTo(nil))
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		m := g.members[0]
		wantSince, wantRebalance := int64(77), int32(5)
		if version < 2 {
			wantSince = -1
		}
		if version < 1 {
			wantRebalance = 6
		}
		if g.sinceMs != wantSince || m.rebalanceMs != wantRebalance || (m.instance != nil) != (version >= 3) ||
			string(m.assignment) != "a" {
			t.Errorf("version %d: %+v", version, g)
		}
	}
}

func TestGroupMetadataThatCannotBeRead(t *testing.T) {
	b := newClassicBench(t, 1)
	key := groupMetadataKey("g")
	good, _ := hex.DecodeString(goldenGroups[1].value)
	for _, r := range []coordinator.Record{
		{Key: key, Value: []byte{}},
		{Key: key, Value: []byte{0, 5, 0, 0}},
		{Key: key, Value: []byte{0xff, 0xff}},
		{Key: key, Value: good[:len(good)-1]},
		{Key: key[:3], Value: good},
	} {
		if err := b.m.Apply(r, coordinator.Origin{}); !errors.Is(err, kafka.CorruptMessage) {
			t.Errorf("%x: %v", r.Value, err)
		}
	}
	if len(b.m.groups) != 0 {
		t.Error("a group came of it")
	}
}

func FuzzGroupMetadata(f *testing.F) {
	for _, g := range goldenGroups {
		value, _ := hex.DecodeString(g.value)
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		g, err := parseGroupMetadata(value)
		if err != nil {
			return
		}
		again, err := parseGroupMetadata(groupMetadataRecord("g", *g).Value)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(g, again, cmp.AllowUnexported(groupMetadata{}, memberMetadata{})); d != "" {
			t.Error(d)
		}
		c := newClassicGroup("g")
		c.stored = g
		c.restore()
	})
}

func FuzzSubscribedTopics(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 2, 0, 1, 'a', 0, 2, 'b', 'c', 9, 9})
	f.Add([]byte("00\xe6000\xe6000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := subscribedTopics(b)
		var m kmsg.ConsumerMemberMetadata
		if m.ReadFrom(b) == nil && ok && !slices.Equal(topics, m.Topics) {
			t.Errorf("%v, not %v", topics, m.Topics)
		}
	})
}

// What the phase and the protocol of a group mean for its offsets.
func TestClassicGroupKeepsOffsets(t *testing.T) {
	topics := []byte{0, 1, 0, 0, 0, 1, 0, 1, 'a'}
	for _, c := range []struct {
		what          string
		typeName      string
		phase         phase
		subscription  []byte
		expires       expiryMode
		mine, another bool
	}{
		{"only offsets", "", phaseEmpty, nil, expireByCommit, false, false},
		{"left by consumers", "consumer", phaseEmpty, nil, expireSince, false, false},
		{"left by others", "connect", phaseEmpty, nil, expireSince, false, false},
		{"consumers", "consumer", phaseStable, topics, expireByCommit, true, false},
		{"consumers of no known kind", "consumer", phaseStable, []byte("?"), expireNever, true, true},
		{"others", "connect", phaseStable, topics, expireNever, false, false},
		{"rebalancing", "consumer", phasePreparing, topics, expireNever, true, false},
		{"awaiting an assignment", "consumer", phaseCompleting, topics, expireNever, true, false},
	} {
		g := newClassicGroup("g")
		g.typeName, g.phase, g.sinceMs, g.protocol = c.typeName, c.phase, 5, "range"
		if c.phase != phaseEmpty {
			g.add(newClassicMember(memberMetadata{id: "m", subscription: c.subscription}, "range"))
			g.topics = g.subscriptions()
		}
		e := g.expires()
		if e.mode != c.expires || e.mode == expireSince && !e.since.Equal(time.UnixMilli(5)) {
			t.Errorf("%s: expires %+v", c.what, e)
		}
		if g.subscribed("a") != c.mine || g.subscribed("b") != c.another {
			t.Errorf("%s: subscribed %v %v", c.what, g.subscribed("a"), g.subscribed("b"))
		}
		if deletable := g.checkDelete() == nil; deletable != (c.phase == phaseEmpty) {
			t.Errorf("%s: deletable %v", c.what, deletable)
		}
	}
	old := newClassicGroup("g")
	old.stored = &groupMetadata{protocolType: "consumer", sinceMs: -1}
	if old.restore(); old.expires().mode != expireByCommit {
		t.Error("a group of an old broker expires by a time that nobody knows")
	}
}

// A group that turns to the consumer protocol leaves neither requests nor timers behind.
func TestDisband(t *testing.T) {
	b := newClassicBench(t, 1)
	s := &classicScript{classicBench: b}
	for _, member := range []string{"", ""} {
		b.request("c", s.body(t, "join", s.fields("v=3 m="+member)))
	}
	b.request("c", s.body(t, "join", s.fields("v=9")))
	if len(b.parked) != 2 || len(b.timers) < 4 {
		t.Fatalf("%d requests, %d timers", len(b.parked), len(b.timers))
	}
	replies, timers := b.m.disband(b.now, b.m.groups["g"])
	b.answered = func(_ *coordinator.Pending, a coordinator.Answer) {
		if code := a.Body.(*kmsg.JoinGroupResponse).ErrorCode; code != int16(kafka.RebalanceInProgress) {
			t.Errorf("answered %d", code)
		}
	}
	b.carryOut(coordinator.Result{Replies: replies, Timers: timers})
	if _, at, ok := b.nextTimer(); ok || len(b.parked) > 0 {
		t.Errorf("%d requests, a timer at %v", len(b.parked), at)
	}
}

func TestMemberIDsAreUUIDs(t *testing.T) {
	b := newClassicBench(t, 7)
	turn := b.m.turn(b.now, b.m.create("g"), b.rnd)
	seen := map[string]bool{}
	for range 100 {
		id := turn.newMemberID("c")
		if seen[id] || id[:2] != "c-" || uuids.FindString(id[2:]) != id[2:] {
			t.Fatalf("%s", id)
		}
		seen[id] = true
	}
}

// However many members and words, the history of a group stays small.
func TestHistoryStaysSmall(t *testing.T) {
	b := newClassicBench(t, 1)
	turn := b.m.turn(b.now, b.m.create("g"), b.rnd)
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("member-%d", i))
	}
	long := strings.Repeat("\u00e9", 10_000)
	turn.g.note(Rebalance{Reason: because("a new member", &kmsg.JoinGroupRequest{Reason: &long})})
	turn.amend(many, "left")
	for _, m := range many {
		turn.amend([]string{m}, "left")
	}
	reason := turn.g.history[0].Reason
	if len(reason) > longReason+200 || !utf8.ValidString(reason) || !strings.HasSuffix(reason, andSoOn) ||
		!strings.Contains(reason, "member-4 and 9995 more left") {
		t.Errorf("%d bytes: %s", len(reason), reason)
	}
}
