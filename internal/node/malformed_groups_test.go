package node

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// joinRequest is a JoinGroup of a consumer without a member id.
func joinRequest(version int16, group string, metadata []byte) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.ProtocolType = version, group, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 6_000, 6_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata}}
	return r
}

// beatRequest is the ConsumerGroupHeartbeat of a member that joins.
func beatRequest(group, member string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.RebalanceTimeoutMillis = 1, group, member, 10_000
	r.Topics, r.SubscribedTopicNames = []kmsg.ConsumerGroupHeartbeatRequestTopic{}, topics
	if topics == nil {
		r.SubscribedTopicNames = []string{}
	}
	return r
}

func commitRequest(version int16, group, topic string, partitions ...int32) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = version, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		x := kmsg.NewOffsetCommitRequestTopicPartition()
		x.Partition, x.Offset = p, 1
		t.Partitions = append(t.Partitions, x)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// codeOf is the code of answers that have one for the whole request.
func groupCode(resp kmsg.Response) kafka.Code {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.OffsetCommitResponse:
		return kafka.Code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.OffsetFetchResponse:
		if len(r.Groups) > 0 {
			return kafka.Code(r.Groups[0].ErrorCode)
		}
		return kafka.Code(r.ErrorCode)
	}
	return kafka.UnknownServerError
}

// wants is a request about groups and the codes that it may be answered with.
func wants(name string, r kmsg.Request, any ...kafka.Code) hostile {
	return request(name, r, func(resp kmsg.Response) error {
		if got := groupCode(resp); !slices.Contains(any, got) {
			return fmt.Errorf("%v instead of %v", got, any)
		}
		return nil
	})
}

// unreadable is a request that costs its sender the connection.
func unreadable(name string, r kmsg.Request) hostile {
	return hostile{name: name, send: func(*suite) []byte { return frame(r, 1) }, want: closed}
}

// longStringCases give every string of a flexible request one character more than any string in a record can have. Kafka
// cannot read such a request either.
func longStringCases() []hostile {
	long := strings.Repeat("x", 1<<15)
	var out []hostile
	add := func(name string, r kmsg.Request) { out = append(out, unreadable(name, r)) }
	join := joinRequest(9, long, nil)
	add("join: group", join)
	join = joinRequest(9, "g", nil)
	join.MemberID = long
	add("join: member", join)
	join = joinRequest(9, "g", nil)
	join.InstanceID = &long
	add("join: instance", join)
	join = joinRequest(9, "g", nil)
	join.ProtocolType = long
	add("join: protocol type", join)
	join = joinRequest(9, "g", nil)
	join.Protocols[0].Name = long
	add("join: protocol", join)
	join = joinRequest(9, "g", nil)
	join.Reason = &long
	add("join: reason", join)
	beat := beatRequest(long, "m", "healthy")
	add("beat: group", beat)
	add("beat: member", beatRequest("g", long, "healthy"))
	add("beat: topic", beatRequest("g", "m", long))
	beat = beatRequest("g", "m")
	beat.SubscribedTopicRegex = &long
	add("beat: pattern", beat)
	beat = beatRequest("g", "m")
	beat.RackID = &long
	add("beat: rack", beat)
	commit := commitRequest(9, long, "healthy", 0)
	add("commit: group", commit)
	commit = commitRequest(9, "g", "healthy", 0)
	commit.Topics[0].Partitions[0].Metadata = &long
	add("commit: metadata", commit)
	deletes := kmsg.NewPtrDeleteGroupsRequest()
	deletes.Version, deletes.Groups = 2, []string{long}
	add("delete: group", deletes)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{long}
	add("find: group", find)
	return out
}

// lyingSubscriptions are bytes that a consumer's subscription cannot be.
func lyingSubscriptions() map[string][]byte {
	many := binary.BigEndian.AppendUint32([]byte{0, 3}, 1<<31-1)
	negative := binary.BigEndian.AppendUint32([]byte{0, 0}, 1<<32-5)
	longTopic := append(binary.BigEndian.AppendUint32([]byte{0, 1}, 1), 0x7f, 0xff, 'a')
	utf8 := append(binary.BigEndian.AppendUint32([]byte{0, 1}, 1), 0, 2, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0)
	return map[string][]byte{"empty": {}, "one byte": {0}, "version": {0xff, 0xff, 0, 0, 0, 0}, "many": many, "negative": negative,
		"long topic": longTopic, "invalid UTF-8": utf8, "zeros": make([]byte, 1<<19)}
}

func groupCases() []hostile {
	var out []hostile
	add := func(h hostile) { out = append(out, h) }
	for name, b := range lyingSubscriptions() {
		for _, version := range []int16{3, 9} { // one is parked, the other gets an id
			add(hostile{name: fmt.Sprint("a subscription that lies: ", name, version),
				send: func(*suite) []byte { return frame(joinRequest(version, "lies-"+name, b), 1) },
				want: func(s *suite, c *wire) error {
					if version == 9 {
						resp, err := c.read(joinRequest(9, "", nil), 1)
						if err == nil && groupCode(resp) != kafka.MemberIDRequired {
							err = groupCode(resp)
						}
						return err
					}
					return nil
				}})
		}
	}
	for _, ms := range []int32{-1, -1 << 31, 0, 5999, 1<<31 - 1} {
		r := joinRequest(9, "sessions", nil)
		r.SessionTimeoutMillis = ms
		add(wants(fmt.Sprint("session of ", ms), r, kafka.InvalidSessionTimeout))
	}
	r := joinRequest(9, "", nil)
	add(wants("no group", r, kafka.InvalidGroupID))
	r = joinRequest(9, "no-protocol", nil)
	r.Protocols = nil
	add(wants("no protocol", r, kafka.InconsistentGroupProtocol))
	r = joinRequest(9, "no-type", nil)
	r.ProtocolType = ""
	add(wants("no protocol type", r, kafka.InconsistentGroupProtocol))
	r = joinRequest(9, "unknown", nil)
	r.MemberID = "nobody"
	add(wants("an invented member", r, kafka.UnknownMemberID))
	r = joinRequest(9, "bad\xffgroup", nil)
	add(wants("a group in invalid UTF-8", r, kafka.MemberIDRequired))
	instance := strings.Repeat("i", 1<<15-1)
	r = joinRequest(9, "long-instance", nil)
	r.InstanceID = &instance
	add(wants("a member id that would be too long", r, kafka.None))
	for _, generation := range []int32{-1 << 31, -1, 0, 1<<31 - 1} {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Version, beat.Group, beat.Generation, beat.MemberID = 4, "sessions", generation, "m"
		add(wants(fmt.Sprint("heartbeat of generation ", generation), beat, kafka.UnknownMemberID))
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.Generation, sync.MemberID = 4, "sessions", generation, "m"
		add(wants(fmt.Sprint("sync of generation ", generation), sync, kafka.UnknownMemberID))
		commit := commitRequest(8, "healthy-group", "healthy", 0)
		commit.Generation, commit.MemberID = generation, "m"
		add(wants(fmt.Sprint("commit of generation ", generation), commit, kafka.UnknownMemberID, kafka.IllegalGeneration,
			kafka.None)) // an absent group takes commits of no generation
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group = 5, "lies-zeros"
	leave.Members = make([]kmsg.LeaveGroupRequestMember, 100_000)
	add(wants("leave of 100,000 members", leave, kafka.None))
	leave = kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group = 5, "lies-zeros"
	add(wants("leave of nobody", leave, kafka.None))
	return append(append(out, offsetCases()...), beatCases()...)
}

func offsetCases() []hostile {
	var out []hostile
	add := func(h hostile) { out = append(out, h) }
	same := make([]int32, 100_000)
	add(wants("the same partition 100,000 times", commitRequest(8, "offsets", "healthy", same...), kafka.UnknownServerError))
	add(wants("a negative partition", commitRequest(8, "offsets", "healthy", -1), kafka.UnknownTopicOrPartition))
	add(wants("a partition far away", commitRequest(8, "offsets", "healthy", 1<<31-1), kafka.UnknownTopicOrPartition))
	add(wants("a topic in invalid UTF-8", commitRequest(8, "offsets", "\xff\xfe", 0), kafka.UnknownTopicOrPartition))
	long := strings.Repeat("m", 1<<15-1)
	r := commitRequest(8, "offsets", "healthy", 0)
	r.Topics[0].Partitions[0].Metadata = &long
	add(wants("much metadata", r, kafka.OffsetMetadataTooLarge))
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 8
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "offsets", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "healthy",
		Partitions: make([]int32, 200_000)}}}}
	add(wants("fetch of the same partition 200,000 times", fetch, kafka.None))
	deletion := kmsg.NewPtrOffsetDeleteRequest()
	deletion.Group = "offsets"
	deletion.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "healthy",
		Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 100_000)}}
	add(wants("deletion of the same offset 100,000 times", deletion, kafka.None, kafka.GroupIDNotFound))
	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.StatesFilter = 5, make([]string, 100_000)
	add(request("list with 100,000 filters", list, func(kmsg.Response) error { return nil }))
	for _, n := range []int{1000, 100_000} {
		d := kmsg.NewPtrDescribeGroupsRequest()
		d.Version, d.Groups = 5, make([]string, n)
		add(request(fmt.Sprint("describe of ", n, " groups"), d, func(resp kmsg.Response) error {
			if got := len(resp.(*kmsg.DescribeGroupsResponse).Groups); got != n {
				return fmt.Errorf("%d groups", got)
			}
			return nil
		}))
	}
	return out
}

func beatCases() []hostile {
	var out []hostile
	add := func(h hostile) { out = append(out, h) }
	change := func(f func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
		r := beatRequest("beats", "m", "healthy")
		f(r)
		return r
	}
	type beat = kmsg.ConsumerGroupHeartbeatRequest
	add(wants("beat: no group", change(func(r *beat) { r.Group = "" }), kafka.InvalidRequest))
	add(wants("beat: no member", change(func(r *beat) { r.MemberID = "" }), kafka.InvalidRequest))
	add(wants("beat: epoch -3", change(func(r *beat) { r.MemberEpoch = -3 }), kafka.InvalidRequest))
	add(wants("beat: epoch of nobody", change(func(r *beat) { r.MemberEpoch = 1<<31 - 1 }), kafka.GroupIDNotFound))
	add(wants("beat: leaves for a while without instance", change(func(r *beat) { r.MemberEpoch = -2 }), kafka.InvalidRequest))
	add(wants("beat: owns at once", change(func(r *beat) { r.Topics = make([]kmsg.ConsumerGroupHeartbeatRequestTopic, 1) }),
		kafka.InvalidRequest))
	add(wants("beat: no subscription", change(func(r *beat) { r.SubscribedTopicNames = nil }), kafka.InvalidRequest))
	add(wants("beat: assignor", change(func(r *beat) { r.ServerAssignor = kmsg.StringPtr("\xff") }), kafka.UnsupportedAssignor))
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprint("topic-that-is-nowhere-", i)
	}
	add(wants("beat: 100,000 topics", change(func(r *beat) { r.SubscribedTopicNames = names }), kafka.UnknownServerError))
	for name, pattern := range patternBombs() {
		add(wants("beat: pattern "+name, change(func(r *beat) {
			r.Group, r.SubscribedTopicNames, r.SubscribedTopicRegex = "bomb "+name, nil, &pattern
		}), kafka.InvalidRegularExpression))
	}
	return out
}

// patternBombs are regular expressions that are wrong, or short and large.
func patternBombs() map[string]string {
	nested := "a"
	for range 4 {
		nested = "(" + nested + "){200}"
	}
	return map[string]string{
		"unbalanced": "((", "look ahead": "(?=a)", "back reference": `(a)\1`, "invalid UTF-8": "\xff",
		"nested": nested, "repeated": strings.Repeat("(.{1000})", 3600),
		"classes": strings.Repeat(`\pL`, 10_900), "deep": strings.Repeat("(", 16_000) + strings.Repeat(")", 16_000),
	}
}

// groupsReady makes the topic of offsets and waits until it is loaded.
func (s *suite) groupsReady() {
	s.t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		resp, err := s.good.ask(commitRequest(8, "healthy-group", "healthy", 0))
		if err != nil {
			s.t.Fatal(err)
		}
		if groupCode(resp) == kafka.None {
			break
		}
		if time.Since(began) > patience {
			s.t.Fatal(groupCode(resp))
		}
		if _, err := s.good.ask(find); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestMalformedGroups(t *testing.T) {
	s := newSuite(t, map[string]string{"offsets.topic.num.partitions": "1",
		"group.initial.rebalance.delay.ms": "0"})
	s.groupsReady()
	before := measure()
	for _, h := range slices.Concat(longStringCases(), groupCases()) {
		began := time.Now()
		s.check(h)
		resp, err := s.good.ask(commitRequest(8, "healthy-group", "healthy", 0))
		if err != nil || groupCode(resp) != kafka.None {
			t.Fatalf("after %s: the healthy client cannot commit: %v", h.name, err)
		}
		if took := time.Since(began); took > 6*patience {
			t.Errorf("%s: took %v", h.name, took)
		}
	}
	s.settled(before)
}

// TestFloodsOfGroups: ids that nobody uses, members with large protocols, members beyond a group's size and empty groups are
// bounded, and nobody else waits for them.
func TestFloodsOfGroups(t *testing.T) {
	s := newSuite(t, map[string]string{"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "60000",
		"moldau.group.memory.max.bytes": "4194304", "group.max.size": "3", "group.consumer.max.size": "3"})
	s.groupsReady()
	n := 3000
	if long() {
		n = 100_000
	}
	before := measure()
	flood := func(name string, count int, request func(i int) kmsg.Request, look func(kafka.Code) bool) {
		t.Helper()
		c, seen := s.dial(), map[kafka.Code]int{}
		defer c.Close()
		began, slowest := time.Now(), time.Duration(0)
		for i := range count {
			resp, err := c.ask(request(i))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			seen[groupCode(resp)]++
			if i%max(count/20, 1) == 0 {
				at := time.Now()
				if resp, err = s.good.ask(commitRequest(8, "healthy-group", "healthy", 0)); err != nil || groupCode(resp) != kafka.None {
					t.Fatalf("%s: the healthy client cannot commit: %v", name, err)
				}
				slowest = max(slowest, time.Since(at))
			}
		}
		s.healthy(name)
		for code := range seen {
			if !look(code) {
				t.Errorf("%s: %v", name, seen)
				break
			}
		}
		t.Logf("%s: %v in %v; the healthy client's slowest commit took %v; %d KiB of members", name, seen,
			time.Since(began).Round(time.Millisecond), slowest.Round(time.Microsecond), s.node.coordinators.memory.Used()>>10)
		if used := s.node.coordinators.memory.Used(); used > 4<<20 {
			t.Errorf("%s: members take %d bytes", name, used)
		}
	}
	is := func(any ...kafka.Code) func(kafka.Code) bool {
		return func(c kafka.Code) bool { return slices.Contains(any, c) }
	}
	flood("ids", n*4, func(i int) kmsg.Request { return joinRequest(9, "ids", nil) },
		is(kafka.MemberIDRequired, kafka.CoordinatorNotAvailable))
	flood("10 MiB of metadata", 3, func(i int) kmsg.Request { return joinRequest(9, "large", make([]byte, 10<<20)) },
		is(kafka.CoordinatorNotAvailable))
	flood("consumers", 200, func(i int) kmsg.Request { return beatRequest("consumers", fmt.Sprint("m", i), "healthy") },
		is(kafka.None, kafka.GroupMaxSizeReached))
	flood("groups with one commit", n, func(i int) kmsg.Request { return commitRequest(8, fmt.Sprint("group-", i), "healthy", 0) },
		is(kafka.None))
	flood("empty groups", n, func(i int) kmsg.Request { return joinRequest(9, fmt.Sprint("empty-", i), nil) },
		is(kafka.MemberIDRequired, kafka.CoordinatorNotAvailable))
	s.settled(before)
}

// TestLargePatterns: a pattern that takes long to match keeps nobody else waiting, nor the node from stopping.
func TestLargePatterns(t *testing.T) {
	s := newSuite(t, map[string]string{"offsets.topic.num.partitions": "1"})
	s.groupsReady()
	for i := range 40 {
		s.create(fmt.Sprint(strings.Repeat("orders-a-", 20), i))
	}
	for i := range 4 {
		pattern := strings.Repeat("(a|.)?", 4000) + fmt.Sprint("!", i)
		r := beatRequest(fmt.Sprint("large-", i), "m")
		r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, &pattern
		resp, err := s.good.ask(r)
		if err != nil || groupCode(resp) != kafka.None {
			t.Fatal(err, groupCode(resp))
		}
	}
	slowest := time.Duration(0)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		at := time.Now()
		if resp, err := s.good.ask(commitRequest(8, "healthy-group", "healthy", 0)); err != nil || groupCode(resp) != kafka.None {
			t.Fatal(err, groupCode(resp))
		}
		slowest = max(slowest, time.Since(at))
	}
	s.healthy("large patterns")
	if slowest > patience {
		t.Errorf("a commit took %v", slowest)
	}
	began := time.Now()
	s.node.Kill()
	if took := time.Since(began); took > 6*patience {
		t.Errorf("the node ended after %v", took)
	}
	t.Logf("slowest commit %v, ended within %v", slowest, time.Since(began))
}
