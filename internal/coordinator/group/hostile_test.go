package group

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// What clients may do to a coordinator that would hurt the others of its shard.

func beat(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, group, member, epoch
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.Topics = 10_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		r.SubscribedTopicNames = []string{"t"}
	}
	return r
}

func (s *consumerShard) beats(r *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	body, err := s.ask(r, nil)
	if err != nil {
		return nil, err
	}
	return body.(*kmsg.ConsumerGroupHeartbeatResponse), nil
}

// TestOwnedPartitionsTakeLinearTime: a topic that is named once for each of its partitions is sorted once.
func TestOwnedPartitionsTakeLinearTime(t *testing.T) {
	const n = 300_000
	topics := make([]kmsg.ConsumerGroupHeartbeatRequestTopic, n)
	for i := range topics {
		topics[i] = kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: [16]byte{1}, Partitions: []int32{int32(n - i)}}
	}
	began := time.Now()
	p := owned(topics)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if got := p[kafka.UUID{1}]; len(got) != n || got[0] != 1 || got[n-1] != n {
		t.Errorf("%d partitions", len(got))
	}
	if p := owned([]kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: [16]byte{2}}}); p == nil || len(p) != 0 {
		t.Errorf("an empty list is %v", p)
	}
}

// TestFailedRemovalIsTriedAgain: a member whose time is up while the log takes nothing is removed once it does, and one that
// could not leave still has a session that ends.
func TestFailedRemovalIsTriedAgain(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		s := newConsumerShard(t, 1)
		s.topic("t", kafka.UUID{1}, 4)
		for _, id := range []string{"a", "b"} {
			if _, err := s.beats(beat("g", id, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if leaves {
			s.fail = kafka.CoordinatorNotAvailable
			if _, err := s.beats(beat("g", "a", -1)); kafka.CodeOf(err) != kafka.CoordinatorNotAvailable {
				t.Fatal(err)
			}
		}
		s.advance(40 * time.Second)
		if _, err := s.beats(beat("g", "b", s.m.groups["g"].kind.(*consumerGroup).roster["b"].epoch)); err != nil {
			t.Fatal(err)
		}
		if !leaves {
			s.fail = kafka.NotCoordinator
		}
		s.advance(10 * time.Second) // a's session ends in it
		if got := s.m.groups["g"].kind.members(); got != 1 {
			t.Errorf("leaves: %v: %d members instead of 1", leaves, got)
		}
		s.checkReplay()
	}
}

// TestFailedAppendChangesNothing: whatever a consumer group's members do while the log takes nothing, the group and its
// timers stay as they were, but for sessions that were prolonged.
func TestFailedAppendChangesNothing(t *testing.T) {
	s := newConsumerShard(t, 1)
	s.topic("t", kafka.UUID{1}, 4)
	instance := "i"
	for _, id := range []string{"a", "b"} {
		r := beat("g", id, 0)
		if id == "b" {
			r.InstanceID = &instance
		}
		if _, err := s.beats(r); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func() kmsg.Request{
		"join":  func() kmsg.Request { return beat("g", "c", 0) },
		"leave": func() kmsg.Request { return beat("g", "a", -1) },
		"leave for a while": func() kmsg.Request {
			r := beat("g", "b", -2)
			r.InstanceID = &instance
			return r
		},
		"subscribe": func() kmsg.Request {
			r := beat("g", "a", s.m.groups["g"].kind.(*consumerGroup).roster["a"].epoch)
			r.SubscribedTopicNames = []string{"other"}
			return r
		},
		"pattern": func() kmsg.Request {
			r := beat("g", "a", s.m.groups["g"].kind.(*consumerGroup).roster["a"].epoch)
			r.SubscribedTopicRegex = kmsg.StringPtr("t.*")
			return r
		},
		"classic": func() kmsg.Request {
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Version, r.Group, r.Members = 3, "g", []kmsg.LeaveGroupRequestMember{{MemberID: "a"}, {MemberID: "b"}}
			return r
		},
	} {
		before, timers := dumpConsumer(s.m), len(s.timers)
		s.fail = kafka.CoordinatorNotAvailable
		if _, err := s.ask(change(), nil); kafka.CodeOf(err) != kafka.CoordinatorNotAvailable {
			t.Errorf("%s: %v", name, err)
		}
		s.fail = nil
		if got := dumpConsumer(s.m); got != before {
			t.Errorf("%s changed the group\nbefore:\n%s\nafter:\n%s", name, before, got)
		}
		if name != "join" && len(s.timers) != timers {
			t.Errorf("%s: %d timers instead of %d: %v", name, len(s.timers), timers, s.timers)
		}
		delete(s.timers, memberTimer(timerSession, "g", "c")) // of one that never came to be; it finds nothing
	}
}

// TestJoinPhaseOfNobody: static members without a rebalance timeout, all of them silent, do not keep a processor busy.
func TestJoinPhaseOfNobody(t *testing.T) {
	b := newClassicBench(t, 1)
	ids := map[string]string{}
	b.answered = func(p *coordinator.Pending, a coordinator.Answer) {
		if r, ok := a.Body.(*kmsg.JoinGroupResponse); ok {
			ids[*p.Body.(*kmsg.JoinGroupRequest).InstanceID] = r.MemberID
		}
	}
	for _, instance := range []string{"one", "two"} {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.InstanceID, r.ProtocolType = 9, "g", &instance, "consumer"
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 1_800_000, 10_000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p"}}
		b.request("c", r)
	}
	b.advance(15 * time.Second)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation = 3, "g", 1
	for _, instance := range []string{"one", "two"} {
		r := *sync
		r.MemberID, r.InstanceID = ids[instance], &instance
		b.request("c", &r)
	}
	g := b.m.groups["g"].classic()
	if g.phase != phaseStable {
		t.Fatal(g.phase)
	}
	for _, x := range g.roster {
		x.rebalanceMs = 0
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 3, "g", []kmsg.LeaveGroupRequestMember{{MemberID: ids["one"]}}
	b.request("c", leave)
	fired := 0
	for end := b.now.Add(10 * time.Second); fired < 1000; fired++ {
		k, at, ok := b.nextTimer()
		if !ok || at.After(end) {
			break
		}
		b.now = maxTime(b.now, at)
		delete(b.timers, k)
		b.handle(coordinator.TimerFired{Key: k})
	}
	if g.phase != phasePreparing || fired > 20 {
		t.Errorf("%v: %d timers fired in 10 s", g.phase, fired)
	}
}

// TestLongNames: what the log has two bytes to tell the length of is never longer.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("é", 1<<14)[:1<<15-1]
	b := newClassicBench(t, 1)
	var member string
	b.answered = func(_ *coordinator.Pending, a coordinator.Answer) {
		if r, ok := a.Body.(*kmsg.JoinGroupResponse); ok {
			member = r.MemberID
		}
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 9, "g", "consumer", 10_000, 10_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p"}}
	r.InstanceID = &long
	b.request(long, r)
	b.advance(5 * time.Second)
	if len(member) > 1<<15-1 || len(member) < 1<<14 || !strings.HasPrefix(member, "éé") {
		t.Fatalf("a member id of %d bytes", len(member))
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID = 3, "g", 1, member
	b.request(long, sync)
	if got := b.m.groups["g"].state(); got != "Stable" {
		t.Error(got)
	}
	if live, read := stored(b.m), stored(b.replay()); live != read {
		t.Error("the log holds something else")
	}
}

func (g *group) state() string { return g.kind.state() }

// TestReasonsAreCut: what a group remembers of its rebalances does not grow with what clients say.
func TestReasonsAreCut(t *testing.T) {
	g := &group{}
	for range 100 {
		g.note(Rebalance{Reason: strings.Repeat("ä", 1<<14)})
	}
	for _, r := range g.history {
		if len(r.Reason) > longestReason {
			t.Fatalf("%d bytes", len(r.Reason))
		}
	}
}

// TestPatternSizes: patterns that are short and large are refused, long ones of plain names are not.
func TestPatternSizes(t *testing.T) {
	names := make([]string, 1200)
	for i := range names {
		names[i] = fmt.Sprintf("team-%d.orders", i)
	}
	nested := "a"
	for range 4 {
		nested = "(" + nested + "){200}"
	}
	for pattern, ok := range map[string]bool{
		"orders.*": true, `(a|b)\.[a-z]{1,100}`: true, strings.Join(names, "|"): true, `\pL{10}`: true,
		nested: false, strings.Repeat("(.{1000})", 100): false, strings.Repeat(`\pL`, 10_000): false, "((": false,
		"(?=a)": false, "\xff": false, "(a*)*b": true,
	} {
		began := time.Now()
		if err := checkPattern(pattern); (err == nil) != ok {
			t.Errorf("%s: %v", shortened(pattern), err)
		}
		if took := time.Since(began); took > 30*time.Second { // without the bound it is minutes
			t.Errorf("%s took %v", shortened(pattern), took)
		}
	}
}

// TestPatternsAfterALoad: topics that came while nobody led the shard are found at the first heartbeat that may look.
func TestPatternsAfterALoad(t *testing.T) {
	s := newConsumerShard(t, 1)
	s.topic("t1", kafka.UUID{1}, 1)
	r := beat("g", "a", 0)
	r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, kmsg.StringPtr("t.*")
	if _, err := s.beats(r); err != nil {
		t.Fatal(err)
	}
	s.topic("t2", kafka.UUID{2}, 1)
	s.restart()
	s.advance(regexPause + time.Second)
	for range 3 {
		c := s.m.groups["g"].kind.(*consumerGroup)
		if _, err := s.beats(beat("g", "a", c.roster["a"].epoch)); err != nil {
			t.Fatal(err)
		}
		s.advance(2 * time.Second)
	}
	if got := s.m.groups["g"].kind.(*consumerGroup).regexes["t.*"].topics; len(got) != 2 {
		t.Errorf("subscribed to %v", got)
	}
}

// TestRetentionForEver: the largest retention that a client may ask for does not end in the past.
func TestRetentionForEver(t *testing.T) {
	s := newOffsetShard(t)
	s.change(s.topicRecords("t", 1)...)
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation, r.RetentionTimeMillis = 2, "g", -1, 1<<63-1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
	if _, err := s.ask(r, nil); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Hour)
	if g := s.m.groups["g"]; g == nil || g.offsets.empty() {
		t.Error("the offset expired")
	}
}

// TestMemoryOfMembers: floods of ids and of members with large protocols end where they may, members that are there go on, and
// all of it is given back when they are gone, when their groups are, and with the shard.
func TestMemoryOfMembers(t *testing.T) {
	memory := &Memory{Max: 512 << 10}
	b := newClassicBench(t, 1)
	b.m = New(Options{Settings: func() Settings { return b.settings }, Memory: memory}, metadata.New())
	b.settings.MaxSession = time.Hour
	codes := map[kafka.Code]int{}
	var ids []string
	var last kafka.Code
	b.answered = func(_ *coordinator.Pending, a coordinator.Answer) {
		if r, ok := a.Body.(*kmsg.JoinGroupResponse); ok {
			last = kafka.Code(r.ErrorCode)
			codes[last]++
			ids = append(ids, r.MemberID)
		}
	}
	join := func(version int16, group string, size int) *kmsg.JoinGroupRequest {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = version, group, "x", 3_600_000, 1000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p", Metadata: make([]byte, size)}}
		return r
	}
	steady := b.request("c", join(3, "steady", 100))
	b.advance(3500 * time.Millisecond)
	member := ids[0]
	for i := range 3000 {
		b.request("client", join(9, fmt.Sprint("ids-", i%3), 0))
	}
	if codes[kafka.MemberIDRequired] != 3000 || memory.Used() > memory.Max/3 || memory.Used() < memory.Max/5 || len(b.timers) > 350 {
		t.Errorf("%v, %d bytes, %d timers", codes, memory.Used(), len(b.timers))
	}
	// The oldest ids are known no more, the newest are, and groups that nobody floods have room for some.
	comes := func(group, id string) kafka.Code {
		r := join(9, group, 100)
		r.MemberID = id
		if p := b.request("client", r); b.isParked(p) {
			return kafka.None
		}
		return last
	}
	if old, young := comes("ids-0", ids[1]), comes("ids-2", ids[3000]); old != kafka.UnknownMemberID || young != kafka.None {
		t.Errorf("the first of 3000: %v, the last %v", old, young)
	}
	var quiet []string
	for range leastPending {
		b.request("client", join(9, "quiet", 100))
		quiet = append(quiet, ids[len(ids)-1])
	}
	for _, id := range quiet {
		if code := comes("quiet", id); code != kafka.None {
			t.Errorf("a member of a quiet group: %v", code)
		}
	}
	again := join(3, "steady", 100)
	again.MemberID = member
	b.request("c", again)
	if got := b.m.groups["steady"].kind.members(); got != 1 || b.isParked(steady) {
		t.Errorf("the steady group has %d members", got)
	}
	b.advance(2 * time.Hour)
	if used := memory.Used(); used > 2000 {
		t.Errorf("%d bytes after the ids have ended", used)
	}
	clear(codes)
	for i := range 30 {
		b.request("client", join(3, fmt.Sprint("large-", i), 100<<10))
	}
	if codes[kafka.CoordinatorNotAvailable] < 25 || memory.Used() < 400<<10 {
		t.Errorf("%v, %d bytes", codes, memory.Used())
	}
	b.m.Close()
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes after the shard is gone", used)
	}
}

// TestMemoryOfConsumers: members of consumer groups, in either protocol, are bounded alike; those that are there go on, and may
// bring less; what the log brings back counts.
func TestMemoryOfConsumers(t *testing.T) {
	s := newConsumerShard(t, 1)
	memory := &Memory{Max: 1 << 20}
	s.memory = memory
	s.restart()
	topics := func(n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%0200d", i))
		}
		return out
	}
	join := func(member string, n int) error {
		r := beat("g", member, 0)
		r.SubscribedTopicNames = topics(n)
		_, err := s.beats(r)
		return err
	}
	if err := join("a", 3000); err != nil {
		t.Fatal(err)
	}
	full := memory.Used()
	if err := join("b", 1000); kafka.CodeOf(err) != kafka.CoordinatorNotAvailable {
		t.Errorf("a member beyond the limit: %v", err)
	}
	c := kmsg.NewConsumerMemberMetadata()
	c.Topics = topics(1000)
	classic := kmsg.NewPtrJoinGroupRequest()
	classic.Version, classic.Group, classic.ProtocolType, classic.SessionTimeoutMillis = 3, "g", consumerProtocol, 10_000
	classic.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: c.AppendTo(nil)}}
	body, err := s.ask(classic, nil)
	if err != nil || kafka.Code(body.(*kmsg.JoinGroupResponse).ErrorCode) != kafka.CoordinatorNotAvailable {
		t.Errorf("a classic member beyond the limit: %v %v", body, err)
	}
	if memory.Used() != full || full < 3000*200 {
		t.Errorf("%d bytes, were %d", memory.Used(), full)
	}
	epoch := s.m.groups["g"].kind.(*consumerGroup).roster["a"].epoch
	if _, err := s.beats(beat("g", "a", epoch)); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	s.m.Close()
	if memory.Used() != 0 {
		t.Errorf("%d bytes after the shard is gone", memory.Used())
	}
	s.restart()
	if memory.Used() != full {
		t.Errorf("%d bytes after a load, were %d", memory.Used(), full)
	}
	less := beat("g", "a", epoch)
	less.SubscribedTopicNames = topics(1)
	if _, err := s.beats(less); err != nil || memory.Used() > 2000 {
		t.Errorf("%d bytes with one topic: %v", memory.Used(), err)
	}
	if _, err := s.beats(beat("g", "a", -1)); err != nil || memory.Used() != 0 {
		t.Errorf("%d bytes without members: %v", memory.Used(), err)
	}
	s.checkReplay()
}

// TestOffsetsOfOneAnswer: requests that a client's was taken apart into are answered as many offsets as there is room for, and
// a long note takes more of it.
func TestOffsetsOfOneAnswer(t *testing.T) {
	s := newConsumerShard(t, 1)
	s.topic("t", kafka.UUID{1}, 100)
	commit := func(group, note string) {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation = 8, group, -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = "t"
		for i := range int32(100) {
			topic.Partitions = append(topic.Partitions,
				kmsg.OffsetCommitRequestTopicPartition{Partition: i, Offset: 1, LeaderEpoch: -1, Metadata: &note})
		}
		r.Topics = append(r.Topics, topic)
		if _, err := s.ask(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	commit("short", "")
	commit("long", strings.Repeat("x", 2*notePerEntry))
	some := kmsg.OffsetFetchRequestGroupTopic{Topic: "t"}
	for i := range int32(100) {
		some.Partitions = append(some.Partitions, i)
	}
	for _, version := range []int16{7, 9} {
		for _, topics := range [][]kmsg.OffsetFetchRequestGroupTopic{nil, {some}} {
			for group, fits := range map[string]int{"short": 4, "long": 1, "nobody": 4} {
				if group == "nobody" && topics == nil {
					continue
				}
				call := coordinator.Call{Room: new(atomic.Int64)}
				call.Room.Store(450)
				got := 0
				for range 10 {
					r := kmsg.NewPtrOffsetFetchRequest()
					r.Version = version
					if r.Group = group; version < fetchBatch && topics != nil {
						r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: some.Partitions}}
					}
					r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1, Topics: topics}}
					p := coordinator.NewPending(call, r)
					s.event(p)
					switch a, _ := p.Answer().Get(); {
					case a.Err == nil:
						got++
					case kafka.CodeOf(a.Err) != kafka.PolicyViolation:
						t.Fatal(a.Err)
					}
				}
				if got != fits {
					t.Errorf("version %d, group %s: %d answers, want %d", version, group, got, fits)
				}
			}
		}
	}
}

// TestPatternsThatChangeMeanwhile: a group's patterns are evaluated one time after the other, those that come meanwhile too, and
// what was evaluated for nothing does no harm.
func TestPatternsThatChangeMeanwhile(t *testing.T) {
	s := newConsumerShard(t, 1)
	s.topic("t1", kafka.UUID{1}, 1)
	s.topic("u1", kafka.UUID{2}, 1)
	s.holding = true
	subscribe := func(member, pattern string, epoch int32) {
		t.Helper()
		r := beat("g", member, epoch)
		r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, &pattern
		if _, err := s.beats(r); err != nil {
			t.Fatal(err)
		}
	}
	group := func() *consumerGroup { return s.m.groups["g"].kind.(*consumerGroup) }
	next := func() {
		t.Helper()
		if len(s.held) != 1 {
			t.Fatalf("%d evaluations at once", len(s.held))
		}
		w := s.held[0]
		s.held = nil
		s.event(evaluated(w))
	}
	subscribe("a", "t.*", 0)
	subscribe("b", "t.*", 0)
	subscribe("a", "u.*", group().roster["a"].epoch)
	subscribe("b", "(t|u).*", group().roster["b"].epoch)
	next() // of a pattern that nobody has any more
	if got := group().regexes; len(got) != 0 {
		t.Errorf("evaluated %v", got)
	}
	next()
	if len(s.held) != 0 || len(group().regexes["u.*"].topics) != 1 || len(group().regexes["(t|u).*"].topics) != 2 {
		t.Errorf("%d to evaluate, %v", len(s.held), group().regexes)
	}
	subscribe("a", "v.*", group().roster["a"].epoch)
	s.fail = kafka.NotCoordinator // what was evaluated cannot be written
	next()
	if s.fail != nil || group().regexes["v.*"] != nil {
		t.Error("the evaluation did not fail")
	}
	if _, err := s.beats(beat("g", "a", group().roster["a"].epoch)); err != nil {
		t.Fatal(err)
	}
	next() // it is tried again at the next heartbeat
	if group().regexes["v.*"] == nil {
		t.Error("not evaluated again")
	}
	s.checkReplay()
	if _, err := s.beats(beat("g", "b", -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.beats(beat("g", "a", -1)); err != nil {
		t.Fatal(err)
	}
	for len(s.held) > 0 { // of a group without members
		next()
	}
	s.checkReplay()
}
