package group

import (
	"fmt"
	"regexp"
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

// The scripts in testdata/classic are exchanges with one coordinator. Every request has a label, and @label stands for
// the member id that its answer named. UUIDs show as numbers in the order they are seen.
func TestClassicScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/classic", func(t *testing.T, file string) {
		s := newClassicScript(t)
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type classicScript struct {
	*classicBench
	label map[*coordinator.Pending]string
	ids   map[string]string // label to member id
	seen  []string          // UUIDs
	out   strings.Builder
}

func newClassicScript(t *testing.T) *classicScript {
	s := &classicScript{
		classicBench: newClassicBench(t, 1), label: map[*coordinator.Pending]string{}, ids: map[string]string{},
	}
	s.answered = func(p *coordinator.Pending, a coordinator.Answer) {
		fmt.Fprintf(&s.out, "%s: %s\n", s.label[p], s.word(p, a))
	}
	return s
}

func (s *classicScript) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	before := len(s.log)
	switch d.Cmd {
	case "settings":
		s.set(d)
	case "join", "sync", "heartbeat", "leave", "describe":
		for i, line := range strings.Split(strings.TrimSpace(strings.Join([]string{args(d), d.Input}, "\n")), "\n") {
			if strings.TrimSpace(line) != "" {
				s.ask(t, d.Cmd, i, line)
			}
		}
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.advance(by)
	case "fail":
		code, _ := strconv.Atoi(d.CmdArgs[0].Key)
		s.fail = kafka.Code(code)
	case "reload":
		s.reload()
	case "group":
		s.showGroup(d.CmdArgs[0].Key)
	case "commit":
		s.commit(d)
	case "log":
		s.out.WriteString(stored(s.replay()))
	default:
		d.Fatalf(t, "no command %s", d.Cmd)
	}
	if n := len(s.log) - before; n > 0 {
		fmt.Fprintf(&s.out, "wrote %d\n", n)
	}
	return s.mask(s.out.String())
}

func args(d *datadriven.TestData) string {
	var out []string
	for _, a := range d.CmdArgs {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

func (s *classicScript) set(d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "delay":
			s.settings.InitialRebalanceDelay, _ = time.ParseDuration(a.Vals[0])
		case "size":
			s.settings.MaxSize, _ = strconv.Atoi(a.Vals[0])
		}
	}
}

// fields are the words of one request, key=value.
type fields map[string]string

func (s *classicScript) fields(line string) fields {
	f := fields{"g": "g", "v": "9", "session": "10s", "rebalance": "60s", "type": "consumer", "protocols": "range:x",
		"ptype": "consumer", "protocol": "range"}
	for _, w := range strings.Fields(line) {
		k, v, _ := strings.Cut(w, "=")
		f[k] = refs.ReplaceAllStringFunc(v, func(r string) string { return s.ids[r[1:]] })
	}
	return f
}

var refs = regexp.MustCompile(`@\w+`)

func (f fields) ptr(k string) *string {
	if v, ok := f[k]; ok && v != "-" {
		v = strings.ReplaceAll(v, "_", " ")
		return &v
	}
	return nil
}

func (f fields) num(k string) int32 {
	n, _ := strconv.Atoi(f[k])
	return int32(n)
}

func (f fields) millis(k string) int32 {
	d, err := time.ParseDuration(f[k])
	if err != nil {
		panic(err)
	}
	return int32(d.Milliseconds())
}

func (s *classicScript) ask(t *testing.T, cmd string, i int, line string) {
	f := s.fields(line)
	label := f["as"]
	if label == "" {
		label = cmd + strconv.Itoa(i)
	}
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, s.body(t, cmd, f))
	s.label[p] = label
	s.submit(p)
	if s.isParked(p) {
		fmt.Fprintf(&s.out, "%s: parked\n", label)
	}
}

func (s *classicScript) body(t *testing.T, cmd string, f fields) kmsg.Request {
	version := int16(f.num("v"))
	switch cmd {
	case "join":
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID = version, f["g"], f["m"], f.ptr("instance")
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = f.millis("session"), f.millis("rebalance")
		r.ProtocolType, r.Reason = f["type"], f.ptr("reason")
		for p := range strings.SplitSeq(f["protocols"], ",") {
			if name, meta, ok := strings.Cut(p, ":"); ok {
				r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: []byte(meta)})
			}
		}
		return r
	case "sync":
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID = min(version, 5), f["g"], f["m"], f.ptr("instance")
		r.Generation, r.ProtocolType, r.Protocol = f.num("gen"), f.ptr("ptype"), f.ptr("protocol")
		for a := range strings.SplitSeq(f["assign"], ",") {
			if id, part, ok := strings.Cut(a, ":"); ok {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
					MemberID: id, MemberAssignment: []byte(part),
				})
			}
		}
		return r
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID = min(version, 4), f["g"], f["m"], f.ptr("instance")
		r.Generation = f.num("gen")
		return r
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.MemberID = min(version, 5), f["g"], f["m"]
		for m := range strings.SplitSeq(f["members"], ",") {
			if id, instance, ok := strings.Cut(m, "/"); ok {
				l := kmsg.LeaveGroupRequestMember{MemberID: id, Reason: f.ptr("reason")}
				if instance != "" {
					l.InstanceID = &instance
				}
				r.Members = append(r.Members, l)
			}
		}
		return r
	case "describe":
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Version, r.Groups = min(version, 6), []string{f["g"]}
		return r
	}
	t.Fatalf("no request %s", cmd)
	return nil
}

func (s *classicScript) word(p *coordinator.Pending, a coordinator.Answer) string {
	if a.Err != nil {
		return "error " + kafka.CodeOf(a.Err).Name()
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch r := a.Body.(type) {
	case *kmsg.JoinGroupResponse:
		s.ids[s.label[p]] = r.MemberID
		say("%s gen=%d type=%s protocol=%s leader=%q me=%q", kafka.Code(r.ErrorCode).Name(), r.Generation, opt(r.ProtocolType),
			opt(r.Protocol), r.LeaderID, r.MemberID)
		if r.SkipAssignment {
			say("skip")
		}
		for _, m := range r.Members {
			say("%s/%s/%s", m.MemberID, opt(m.InstanceID), m.ProtocolMetadata)
		}
	case *kmsg.SyncGroupResponse:
		say("%s type=%s protocol=%s assignment=%q", kafka.Code(r.ErrorCode).Name(), opt(r.ProtocolType), opt(r.Protocol),
			r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		say("%s", kafka.Code(r.ErrorCode).Name())
	case *kmsg.LeaveGroupResponse:
		say("%s", kafka.Code(r.ErrorCode).Name())
		for _, m := range r.Members {
			say("%s/%s=%s", m.MemberID, opt(m.InstanceID), kafka.Code(m.ErrorCode).Name())
		}
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			say("%s %q state=%s type=%q protocol=%q", kafka.Code(g.ErrorCode).Name(), opt(g.ErrorMessage), g.State,
				g.ProtocolType, g.Protocol)
			for _, m := range g.Members {
				say("%s/%s/%s%s/%q/%q", m.MemberID, opt(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata,
					m.MemberAssignment)
			}
		}
	}
	if a.Body.GetVersion() != p.Body.GetVersion() {
		say("BUT IN VERSION %d", a.Body.GetVersion())
	}
	return strings.Join(out, " ")
}

// commit shows what checkCommit thinks of a member.
func (s *classicScript) commit(d *datadriven.TestData) {
	f := s.fields(args(d))
	_, timers, err := s.m.groups[f["g"]].kind.checkCommit(s.now, commitCheck{
		member: f["m"], instance: f.ptr("instance"), epoch: f.num("gen"), version: 9, txn: f["txn"] != "",
	})
	for _, t := range timers {
		s.timers[t.Key] = t.At
	}
	fmt.Fprintln(&s.out, kafka.CodeOf(err).Name())
}

// showGroup prints the live state, the timers and the history of a group.
func (s *classicScript) showGroup(id string) {
	g := s.m.groups[id]
	if g == nil {
		s.out.WriteString("no such group\n")
		return
	}
	c := g.classic()
	fmt.Fprintf(&s.out, "%s generation %d, leader %q, protocol %q\n", c.state(), c.generation(), c.leader, c.protocol)
	for _, w := range c.waits(s.now) {
		fmt.Fprintf(&s.out, "  %s %s: %s\n", w.Member, w.Instance, w.Waits)
	}
	for _, h := range g.history {
		fmt.Fprintf(&s.out, "  -> %d by %q: %s\n", h.Generation, h.Member, h.Reason)
	}
	var due []string
	for k, at := range s.timers {
		if k.Scope == id {
			kind := map[uint8]string{timerJoin: "join", timerSync: "sync", timerMember: "session", timerPendingMember: "pending"}
			due = append(due, fmt.Sprintf("  timer %s %s in %s\n", kind[k.Kind], s.mask(k.Member), at.Sub(s.now)))
		}
	}
	slices.Sort(due)
	s.out.WriteString(strings.Join(due, ""))
}

// mask replaces UUIDs by numbers.
func (s *classicScript) mask(text string) string {
	return uuids.ReplaceAllStringFunc(text, func(u string) string {
		i := slices.Index(s.seen, u)
		if i < 0 {
			s.seen = append(s.seen, u)
			i = len(s.seen) - 1
		}
		return fmt.Sprintf("#%d", i+1)
	})
}
