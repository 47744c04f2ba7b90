package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestConsumerScripts plays the scripts in testdata/consumer/scripts: each command is an exchange, and what it prints is
// the answer.
//
//	topic NAME N          the topic has N partitions; 0: it is gone
//	hb MEMBER EPOCH ...   ConsumerGroupHeartbeat; names=a,b regex= own=a:0,1;b:2 (own= alone: nothing) instance= rack=
//	                      timeout=ms assignor= v=
//	join MEMBER ...       JoinGroup; topics= own= instance= protocols= v=; beat: MEMBER GENERATION
//	sync MEMBER GENERATION WHO/TOPIC:N,N...  SyncGroup, of a leader with what it gives to whom; data= is put beside it
//	leave MEMBER...       LeaveGroup
//	commit MEMBER EPOCH TOPIC PARTITION v=; fetch MEMBER EPOCH
//	pass DURATION         time passes and timers fire
//	set KEY VALUE         a setting
//	restart; fail         the coordinator starts anew; the next append fails
//	state                 the group; explain: what Explain tells
func TestConsumerScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/consumer/scripts", func(t *testing.T, path string) {
		s := &consumerScript{consumerShard: newConsumerShard(t, 1), topics: map[string]kafka.UUID{}}
		s.settings.OffsetMetadataMaxBytes = 100
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			out := s.run(d)
			s.checkReplay()
			return strings.TrimRight(out, "\n") + "\n"
		})
	})
}

type consumerScript struct {
	*consumerShard
	topics map[string]kafka.UUID
	named  byte
}

func (s *consumerScript) run(d *datadriven.TestData) string {
	var b strings.Builder
	for _, line := range strings.Split(d.Input, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(s.command(strings.Fields(line)))
		}
	}
	return b.String()
}

func (s *consumerScript) command(f []string) string {
	var words []string
	options := map[string]string{}
	for _, x := range f[1:] {
		if k, v, ok := strings.Cut(x, "="); ok {
			options[k] = v
		} else {
			words = append(words, x)
		}
	}
	switch f[0] {
	case "topic":
		return s.setTopic(words[0], number(words[1]))
	case "hb":
		return s.heartbeat(words[0], int32(number(words[1])), options)
	case "join":
		return s.join(strings.Trim(words[0], "-"), options)
	case "sync":
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, "g", words[0], int32(number(words[1]))
		for _, give := range words[2:] {
			member, parts, _ := strings.Cut(give, "/")
			a := kmsg.ConsumerMemberAssignment{Version: 1, UserData: []byte(options["data"])}
			owned := s.owned(parts)
			for _, name := range slices.Sorted(maps.Keys(owned)) {
				a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: owned[name]})
			}
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: member, MemberAssignment: a.AppendTo(nil)})
		}
		return s.print(r)
	case "beat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, "g", words[0], int32(number(words[1]))
		return s.print(r)
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 5, "g"
		for _, id := range words {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
		}
		return s.print(r)
	case "commit", "fetch":
		return s.offsetRequest(f[0], words, options)
	case "pass":
		d, _ := time.ParseDuration(words[0])
		s.advance(d)
	case "set":
		s.set(words[0], words[1])
	case "restart":
		s.restart()
	case "fail":
		s.fail = kafka.CoordinatorNotAvailable
	case "state":
		return s.state()
	case "explain":
		return s.explain()
	default:
		s.t.Fatalf("no command %q", f[0])
	}
	return ""
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *consumerScript) setTopic(name string, n int) string {
	if _, ok := s.topics[name]; !ok {
		s.named++
		s.topics[name] = kafka.UUID{0: s.named}
	}
	s.topic(name, s.topics[name], n)
	if n == 0 {
		delete(s.topics, name)
	}
	return ""
}

func (s *consumerScript) set(key, value string) {
	switch key {
	case "upgrade":
		s.settings.Upgrade = value == "on"
	case "downgrade":
		s.settings.Downgrade = value == "on"
	case "protocol":
		s.settings.ConsumerProtocol = value == "on"
	case "consumer.max.size":
		s.settings.ConsumerMaxSize = number(value)
	case "assignors":
		s.settings.Assignors = strings.Split(value, ",")
	case "unsettled":
		s.conf.Unsettled, _ = time.ParseDuration(value)
	case "session":
		s.conf.Session, _ = time.ParseDuration(value)
	default:
		s.t.Fatalf("no setting %q", key)
	}
}

// owned reads "a:0,1;b:2".
func (s *consumerScript) owned(text string) map[string][]int32 {
	out := map[string][]int32{}
	for _, t := range strings.Split(text, ";") {
		if name, numbers, ok := strings.Cut(t, ":"); ok {
			for _, n := range strings.Split(numbers, ",") {
				out[name] = append(out[name], int32(number(n)))
			}
		}
	}
	return out
}

func (s *consumerScript) heartbeat(member string, epoch int32, o map[string]string) string {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, "g", strings.Trim(member, "-"), epoch, -1
	if epoch == 0 {
		r.RebalanceTimeoutMillis = 5000
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for k, v := range o {
		v := v
		switch k {
		case "names":
			r.SubscribedTopicNames = strings.FieldsFunc(v, func(c rune) bool { return c == ',' })
			if r.SubscribedTopicNames == nil {
				r.SubscribedTopicNames = []string{}
			}
		case "regex":
			r.SubscribedTopicRegex = &v
		case "own":
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			owned := s.owned(v)
			for _, name := range slices.Sorted(maps.Keys(owned)) {
				r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.topics[name], Partitions: owned[name]})
			}
		case "instance":
			r.InstanceID = &v
		case "rack":
			r.RackID = &v
		case "timeout":
			r.RebalanceTimeoutMillis = int32(number(v))
		case "assignor":
			r.ServerAssignor = &v
		case "v":
			r.Version = int16(number(v))
		case "group":
			r.Group = v
		case "nil":
			r.Topics = nil
		}
	}
	return s.print(r)
}

func (s *consumerScript) join(member string, o map[string]string) string {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Generation = 1, -1
	m.Topics = strings.Split(o["topics"], ",")
	owned := s.owned(o["own"])
	for _, name := range slices.Sorted(maps.Keys(owned)) {
		m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: owned[name]})
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.ProtocolType = 3, "g", member, consumerProtocol
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10000, 5000
	if i, ok := o["instance"]; ok {
		r.InstanceID, r.Version = &i, 5
	}
	if v, ok := o["v"]; ok {
		r.Version = int16(number(v))
	}
	protocols := "range"
	if p, ok := o["protocols"]; ok {
		protocols = p
	}
	for _, p := range strings.Split(protocols, ",") {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: m.AppendTo(nil)})
	}
	if data, ok := o["raw"]; ok {
		r.Protocols[0].Metadata = []byte(data)
	}
	return s.print(r)
}

func (s *consumerScript) offsetRequest(command string, w []string, o map[string]string) string {
	if command == "fetch" {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version = 9
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = "g", &w[0], int32(number(w[1]))
		r.Groups = append(r.Groups, g)
		return s.print(r)
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 9, "g", strings.Trim(w[0], "-"), int32(number(w[1]))
	if v, ok := o["v"]; ok {
		r.Version = int16(number(v))
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = w[2]
	for _, n := range strings.Split(w[3], ",") {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(number(n)), 7
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return s.print(r)
}

// print sends a request and prints its answer.
func (s *consumerScript) print(body kmsg.Request) string {
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, body)
	s.event(p)
	s.advance(0)
	a, ok := p.Answer().Get()
	s.fail = nil
	switch {
	case !ok:
		return "waits\n"
	case a.Err != nil && kafka.MessageOf(a.Err) != "":
		return kafka.CodeOf(a.Err).Name() + ": " + a.Err.Error() + "\n"
	case a.Err != nil:
		return kafka.CodeOf(a.Err).Name() + "\n"
	}
	switch r := a.Body.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		out := fmt.Sprintf("%s epoch=%d", *r.MemberID, r.MemberEpoch)
		if r.Assignment != nil {
			parts := partitions{}
			for _, t := range r.Assignment.Topics {
				parts.add(t.TopicID, t.Partitions)
			}
			out += " has " + s.text(parts)
		}
		if s.conf.Unsettled > 0 && r.HeartbeatIntervalMillis > 0 {
			out += fmt.Sprintf(" next=%dms", r.HeartbeatIntervalMillis)
		}
		return out + "\n"
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 {
			return fmt.Sprintf("%s member=%q\n", kafka.Code(r.ErrorCode).Name(), r.MemberID)
		}
		return fmt.Sprintf("%s generation=%d protocol=%s leader=%q members=%d\n", r.MemberID, r.Generation, *r.Protocol, r.LeaderID, len(r.Members))
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			return kafka.Code(r.ErrorCode).Name() + "\n"
		}
		var m kmsg.ConsumerMemberAssignment
		_ = m.ReadFrom(r.MemberAssignment)
		return fmt.Sprintf("has %v\n", m.Topics)
	case *kmsg.HeartbeatResponse:
		return kafka.Code(r.ErrorCode).Name() + "\n"
	case *kmsg.LeaveGroupResponse:
		var codes []string
		for _, m := range r.Members {
			codes = append(codes, m.MemberID+" "+kafka.Code(m.ErrorCode).Name())
		}
		return strings.Join(codes, ", ") + "\n"
	case *kmsg.OffsetCommitResponse:
		var codes []string
		for _, p := range r.Topics[0].Partitions {
			codes = append(codes, fmt.Sprintf("%d %s", p.Partition, kafka.Code(p.ErrorCode).Name()))
		}
		return strings.Join(codes, ", ") + "\n"
	case *kmsg.OffsetFetchResponse:
		return kafka.Code(r.Groups[0].ErrorCode).Name() + "\n"
	}
	return fmt.Sprintf("%T\n", a.Body)
}

// text names partitions.
func (s *consumerScript) text(p partitions) string {
	var out []string
	for id, numbers := range p {
		name := "?"
		for n, i := range s.topics {
			if i == id {
				name = n
			}
		}
		var list []string
		for _, n := range numbers {
			list = append(list, fmt.Sprint(n))
		}
		out = append(out, name+":"+strings.Join(list, ","))
	}
	slices.Sort(out)
	return "[" + strings.Join(out, " ") + "]"
}

func (s *consumerScript) state() string {
	g := s.m.groups["g"]
	if g == nil {
		return "no group\n"
	}
	out := fmt.Sprintf("%s %s epoch=%d", g.kind.groupType(), g.kind.state(), g.kind.generation())
	c, ok := g.kind.(*consumerGroup)
	if !ok {
		return out + fmt.Sprintf(" members=%d\n", g.kind.members())
	}
	out += fmt.Sprintf(" assignment=%d\n", c.assignmentEpoch)
	for _, id := range sortedMembers(c) {
		m := c.roster[id]
		out += fmt.Sprintf("  %s epoch=%d state=%d has %s", id, m.epoch, m.state, s.text(m.assigned.partitions()))
		if len(m.revoking) > 0 {
			out += " gives up " + s.text(m.revoking.partitions())
		}
		out += " shall have " + s.text(c.targets[id]) + "\n"
	}
	return out
}

func (s *consumerScript) explain() string {
	e, ok := s.m.Explain(s.now, "g")
	if !ok {
		return "no group\n"
	}
	out := fmt.Sprintf("%s %s %d\n", e.Type, e.State, e.Generation)
	for _, m := range e.Members {
		out += fmt.Sprintf("  %s (%s) at %d has %v: %s\n", m.Member, m.Protocol, m.Epoch, m.Assigned, m.Waits)
	}
	for _, h := range e.History {
		out += fmt.Sprintf("  to %d by %q: %s\n", h.Generation, h.Member, h.Reason)
	}
	return out
}
