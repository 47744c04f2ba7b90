package quorum

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"moldau/internal/kafka"
)

// TestCore runs the scripts in testdata/core against one core. See coreScript.run for the commands.
func TestCore(t *testing.T) {
	datadriven.Walk(t, path.Join("testdata", "core"), func(t *testing.T, file string) {
		s := &coreScript{now: time.UnixMilli(0)}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

// coreScript is one core, its pretended log and the time.
type coreScript struct {
	core *Core
	log  *fakeLog
	now  time.Time
	full bool
	out  strings.Builder
}

func dirOf(id kafka.NodeID) kafka.UUID { return kafka.UUID{0: 0xd, 15: byte(id)} }

func keyOf(id kafka.NodeID) ReplicaKey { return ReplicaKey{ID: id, Directory: dirOf(id)} }

func testVoter(id kafka.NodeID) Voter {
	return Voter{Key: keyOf(id), Endpoints: []Endpoint{{"C", fmt.Sprintf("n%d", id), 9093}}, KRaft: supportedKRaft}
}

// args reads a command's arguments.
type args struct{ d *datadriven.TestData }

func (a args) int(key string, missing int64) int64 {
	for _, x := range a.d.CmdArgs {
		if x.Key == key && len(x.Vals) == 1 {
			n, err := strconv.ParseInt(x.Vals[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return missing
}

func (a args) list(key string) []string {
	for _, x := range a.d.CmdArgs {
		if x.Key == key {
			return x.Vals
		}
	}
	return nil
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

// position reads offset-epoch.
func (a args) position(key string) *OffsetAndEpoch {
	for _, x := range a.d.CmdArgs {
		if x.Key == key {
			var p OffsetAndEpoch
			if _, err := fmt.Sscanf(x.Vals[0], "%d-%d", &p.Offset, &p.Epoch); err != nil {
				panic(err)
			}
			return &p
		}
	}
	return nil
}

// run executes a command:
//
//	start id=1 voters=(1,2) [observer] [late] [dynamic] [bootstrap] [epoch= leader= voted=] [log=(n@epoch,...)] [snapshot=o-e]
//	tick ms=N | due (go to the deadline)
//	append n= [voters=]  flushed end=  truncated  full  room
//	vote from= epoch= last= [pre]   begin from= epoch=   end from= epoch= candidates=   fetch from= epoch= at= [hw=] [wait=]
//	answer by=PEER [code=] [top=] [epoch=] [leader=] [granted] [hw=] [diverging=] [snapshot=] [records=n@epoch]
//	lost by=PEER [refused]   resign   shutdown
func (s *coreScript) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	a := args{d}
	switch d.Cmd {
	case "start":
		s.start(a)
	case "tick":
		s.now = s.now.Add(time.Duration(a.int("ms", 0)) * time.Millisecond)
		s.step(Ticked{})
	case "due":
		s.now = s.core.Deadline()
		s.step(Ticked{})
	case "append":
		s.log.append(int(a.int("n", 1)), s.core.epoch)
		s.step(Appended{})
	case "flushed":
		s.log.durable = kafka.Offset(a.int("end", int64(s.log.end)))
		s.step(Flushed{})
	case "truncated":
		s.step(Truncated{})
	case "full": // from now on the disk is
		s.full = true
	case "room":
		s.full = false
	case "lost":
		for _, l := range s.core.links {
			if l.request != 0 && l.peer == kafka.NodeID(a.int("by", -100)) {
				s.step(Lost{Request: l.request, Refused: a.has("refused")})
				return s.out.String()
			}
		}
		t.Fatalf("%s: no request in flight", d.Pos)
	case "resign":
		s.step(ResignAsked{})
	case "shutdown":
		s.step(ShutdownAsked{})
	case "loaded":
		p := a.position("snapshot")
		s.log.start, s.log.end, s.log.durable, s.log.epochs = p.Offset, p.Offset, p.Offset, nil
		s.log.snapshots = []OffsetAndEpoch{*p}
		s.step(SnapshotLoaded{Snapshot: *p, Controls: []ControlRecord{
			{Offset: p.Offset - 1, Body: KRaftVersionRecord{1}},
			{Offset: p.Offset - 1, Body: VotersRecord{s.core.voters.Latest()}}}})
	case "answer":
		s.answer(t, a)
	default:
		s.request(t, a)
	}
	return s.out.String()
}

func (s *coreScript) start(a args) {
	var voters []Voter
	for _, v := range a.list("voters") {
		id, _ := strconv.Atoi(v)
		voters = append(voters, testVoter(kafka.NodeID(id)))
	}
	set, err := NewVoterSet(voters...)
	if err != nil {
		panic(err)
	}
	s.log = &fakeLog{}
	for _, x := range a.list("log") {
		var n int
		var epoch kafka.LeaderEpoch
		if _, err := fmt.Sscanf(x, "%d@%d", &n, &epoch); err != nil {
			panic(err)
		}
		s.log.append(n, epoch)
	}
	s.log.durable = s.log.end
	if p := a.position("snapshot"); p != nil {
		s.log.snapshots = append(s.log.snapshots, *p)
		if a.has("trimmed") {
			s.log.start = p.Offset
		}
	}
	self := keyOf(kafka.NodeID(a.int("id", 1)))
	history := NewVoterHistory(set)
	if a.has("dynamic") || a.has("bootstrap") {
		history = NewVoterHistory(nil)
		at := kafka.Offset(0)
		if a.has("bootstrap") {
			at = bootstrapOffset
		}
		history.AddVersion(at, 1)
		history.AddVoters(at, set)
	}
	c := Config{ClusterID: "c", Self: self, CanVote: !a.has("observer"), Endpoints: testVoter(self.ID).Endpoints,
		AutoJoin: a.has("autojoin"), Late: a.has("late")}
	if a.has("moved") {
		c.Endpoints[0].Port = 19093
	}
	s.core = NewCore(c, s.log, history, rand.New(rand.NewPCG(1, 2)))
	election := ElectionState{Epoch: kafka.LeaderEpoch(a.int("epoch", 0)), Leader: kafka.NodeID(a.int("leader", -1)), Voted: NoReplica}
	if id := kafka.NodeID(a.int("voted", -1)); id >= 0 {
		election.Voted = keyOf(id)
		if history.KRaftVersion() == 0 {
			election.Voted.Directory = kafka.ZeroUUID
		}
	}
	s.step(Started{Election: election})
}

// step feeds an event, prints what comes of it and plays the pump.
func (s *coreScript) step(e Event) {
	a := s.core.Step(s.now, e)
	s.print(a)
	if a.Fatal != nil {
		return
	}
	if a.Truncate != nil {
		s.log.truncate(*a.Truncate)
	}
	if len(a.Control) > 0 && s.full {
		s.step(AppendFailed{})
		return
	}
	if len(a.Control) > 0 {
		base := s.log.end
		s.log.append(len(a.Control), a.Epoch)
		var controls []ControlRecord
		for i, b := range a.Control {
			controls = append(controls, ControlRecord{base + kafka.Offset(i), b})
		}
		s.step(Appended{Controls: controls})
	}
	if len(a.Fetched) > 0 {
		s.log.append(int(a.Fetched[0]), kafka.LeaderEpoch(a.Fetched[1]))
		s.step(Appended{})
	}
}

func (s *coreScript) print(a Actions) {
	c := s.core
	if a.Fatal != nil {
		fmt.Fprintf(&s.out, "fatal: %v\n", a.Fatal)
	}
	if p := a.Persist; p != nil {
		fmt.Fprintf(&s.out, "persist epoch=%d leader=%d voted=%d\n", p.Epoch, p.Leader, p.Voted.ID)
	}
	if a.Truncate != nil {
		fmt.Fprintf(&s.out, "truncate to %d\n", *a.Truncate)
	}
	for _, b := range a.Control {
		switch b := b.(type) {
		case LeaderChangeRecord:
			fmt.Fprintf(&s.out, "append LeaderChange leader=%d voters=%v granting=%v\n", b.Leader, b.Voters, b.Granting)
		case KRaftVersionRecord:
			fmt.Fprintf(&s.out, "append KRaftVersion %d\n", b.Version)
		case VotersRecord:
			fmt.Fprintf(&s.out, "append KRaftVoters %v\n", b.Voters.ids())
		}
	}
	if len(a.Fetched) > 0 {
		fmt.Fprintf(&s.out, "append %d fetched\n", a.Fetched[0])
	}
	if a.Piece != nil {
		fmt.Fprintf(&s.out, "piece of %s at %d: %d of %d bytes\n", a.Piece.Snapshot, a.Piece.Position, len(a.Piece.Bytes), a.Piece.Size)
	}
	for _, m := range a.Send {
		fmt.Fprintf(&s.out, "send %s\n", describeMessage(m))
	}
	for _, m := range a.SendSynced {
		fmt.Fprintf(&s.out, "send when synced %s\n", describeMessage(m))
	}
	fmt.Fprintf(&s.out, "%dms %s epoch=%d leader=%d voted=%d hw=%d", s.now.UnixMilli(), c.role, c.epoch, c.leader, c.voted.ID,
		c.highWatermark)
	if d := c.Deadline(); !d.IsZero() {
		fmt.Fprintf(&s.out, " due=%dms", d.UnixMilli())
	}
	s.out.WriteByte('\n')
}

func describeMessage(m Message) string {
	to := fmt.Sprintf("#%d to %d ", m.Request, m.Peer.ID)
	verdict := func(v Verdict) string {
		if v.Top != kafka.None {
			return "top " + v.Top.Name()
		}
		return fmt.Sprintf("%s leader=%d epoch=%d endpoints=%d", v.Code.Name(), v.Leader, v.Epoch, len(v.LeaderEndpoints))
	}
	switch b := m.Body.(type) {
	case *VoteRequest:
		kind := "Vote"
		if b.PreVote {
			kind = "pre-Vote"
		}
		return fmt.Sprintf("%s%s voter=%d epoch=%d last=%s", to, kind, b.Voter.ID, b.Epoch, b.Last)
	case *AddVoterRequest:
		return fmt.Sprintf("%sAddVoter %d endpoints=%d", to, b.Voter.ID, len(b.Endpoints))
	case *RemoveVoterRequest:
		return fmt.Sprintf("%sRemoveVoter %s", to, b.Voter)
	case *UpdateVoterRequest:
		return fmt.Sprintf("%sUpdateVoter %d epoch=%d", to, b.Voter.Key.ID, b.Epoch)
	case *ApiVersionsRequest:
		return to + "ApiVersions"
	case *ChangeVoterResponse:
		return fmt.Sprintf("%sanswer %s %q", to, b.Code.Name(), b.Message)
	case *UpdateVoterResponse:
		return fmt.Sprintf("%sanswer %s", to, verdict(b.Verdict))
	case *VoteResponse:
		return fmt.Sprintf("%sanswer %s granted=%v", to, verdict(b.Verdict), b.Granted)
	case *BeginQuorumEpochRequest:
		return fmt.Sprintf("%sBeginQuorumEpoch epoch=%d", to, b.Epoch)
	case *BeginQuorumEpochResponse:
		return fmt.Sprintf("%sanswer %s", to, verdict(b.Verdict))
	case *EndQuorumEpochRequest:
		return fmt.Sprintf("%sEndQuorumEpoch epoch=%d candidates=%v", to, b.Epoch, idsOf(b.Candidates))
	case *EndQuorumEpochResponse:
		return fmt.Sprintf("%sanswer %s", to, verdict(b.Verdict))
	case *FetchRequest:
		return fmt.Sprintf("%sFetch epoch=%d at=%d-%d hw=%d", to, b.Epoch, b.Offset, b.LastEpoch, b.HighWatermark)
	case *FetchSnapshotRequest:
		return fmt.Sprintf("%sFetchSnapshot epoch=%d %s at %d", to, b.Epoch, b.Snapshot, b.Position)
	case *FetchSnapshotResponse:
		return fmt.Sprintf("%sanswer %s", to, verdict(b.Verdict))
	case *FetchResponse:
		s := fmt.Sprintf("%sanswer %s hw=%d", to, verdict(b.Verdict), b.HighWatermark)
		if b.Diverging != nil {
			s += " diverging=" + b.Diverging.String()
		}
		if b.Snapshot != nil {
			s += " snapshot=" + b.Snapshot.String()
		}
		if b.From != kafka.NoOffset {
			s += fmt.Sprintf(" from=%d", b.From)
		}
		return s
	}
	return fmt.Sprintf("%s%T", to, m.Body)
}

func idsOf(keys []ReplicaKey) []kafka.NodeID {
	var out []kafka.NodeID
	for _, k := range keys {
		out = append(out, k.ID)
	}
	return out
}

func (s *coreScript) request(t *testing.T, a args) {
	from := kafka.NodeID(a.int("from", 2))
	epoch := kafka.LeaderEpoch(a.int("epoch", int64(s.core.epoch)))
	key := keyOf(from)
	if a.has("otherdir") {
		key.Directory = kafka.UUID{1}
	}
	var body Body
	cluster := "c"
	if a.has("othercluster") {
		cluster = "x"
	}
	switch a.d.Cmd {
	case "vote":
		voter := s.core.config.Self
		if a.has("notme") {
			voter = keyOf(77)
		}
		body = &VoteRequest{ClusterID: &cluster, Voter: voter, Candidate: key, Epoch: epoch, Last: *a.position("last"),
			PreVote: a.has("pre")}
	case "begin":
		r := &BeginQuorumEpochRequest{ClusterID: &cluster, Voter: s.core.config.Self, Leader: from, Epoch: epoch,
			LeaderEndpoints: testVoter(from).Endpoints}
		if a.has("notme") {
			r.Voter = keyOf(77)
		}
		body = r
	case "end":
		r := &EndQuorumEpochRequest{ClusterID: &cluster, Leader: from, Epoch: epoch}
		for _, v := range a.list("candidates") {
			id, _ := strconv.Atoi(v)
			r.Candidates = append(r.Candidates, keyOf(kafka.NodeID(id)))
		}
		body = r
	case "fetch":
		p := a.position("at")
		body = &FetchRequest{ClusterID: &cluster, Replica: key, Epoch: epoch, Offset: p.Offset, LastEpoch: p.Epoch,
			HighWatermark: kafka.Offset(a.int("hw", -1)), MaxWaitMs: int32(a.int("wait", 500)), MaxBytes: 1 << 20}
	case "add":
		body = &AddVoterRequest{ClusterID: &cluster, Voter: key, Endpoints: testVoter(from).Endpoints,
			AckWhenCommitted: !a.has("noack")}
	case "remove":
		body = &RemoveVoterRequest{ClusterID: &cluster, Voter: key}
	case "update":
		v := testVoter(from)
		v.KRaft.Max = int16(a.int("max", 1))
		v.Endpoints[0].Port = uint16(a.int("port", 9093))
		body = &UpdateVoterRequest{ClusterID: &cluster, Epoch: epoch, Voter: v}
	case "fetchsnapshot":
		body = &FetchSnapshotRequest{ClusterID: &cluster, Replica: key, Epoch: epoch, Snapshot: *a.position("id"),
			MaxBytes: 1 << 20}
	default:
		t.Fatalf("%s: unknown command", a.d.Cmd)
	}
	s.step(Arrived{Message{Request: uint64(a.int("request", 900)), Peer: Peer{ID: from}, Body: body}})
}

func (s *coreScript) answer(t *testing.T, a args) {
	var request uint64
	for _, l := range s.core.links {
		if l.request != 0 && l.peer == kafka.NodeID(a.int("by", -100)) {
			request = l.request
		}
	}
	l := s.core.links.find(request)
	if l == nil {
		t.Fatalf("%s: no request in flight", a.d.Pos)
	}
	v := Verdict{Top: kafka.Code(a.int("top", 0)), Code: kafka.Code(a.int("code", 0)), Leader: kafka.NodeID(a.int("leader", -1)),
		Epoch: kafka.LeaderEpoch(a.int("epoch", int64(s.core.epoch)))}
	if v.Leader >= 0 {
		v.LeaderEndpoints = testVoter(v.Leader).Endpoints
	}
	var body Body
	switch q := l.body.(type) {
	case *VoteRequest:
		body = &VoteResponse{v, a.has("granted")}
	case *BeginQuorumEpochRequest:
		body = &BeginQuorumEpochResponse{v}
	case *ApiVersionsRequest:
		body = &ApiVersionsResponse{Top: v.Top, KRaft: VersionRange{0, int16(a.int("max", 1))}}
	case *UpdateVoterRequest:
		body = &UpdateVoterResponse{v}
	case *AddVoterRequest, *RemoveVoterRequest:
		body = &ChangeVoterResponse{Code: v.Code}
	case *EndQuorumEpochRequest:
		body = &EndQuorumEpochResponse{v}
	case *FetchRequest:
		r := &FetchResponse{Verdict: v, HighWatermark: kafka.Offset(a.int("hw", -1)), From: kafka.NoOffset,
			Diverging: a.position("diverging"), Snapshot: a.position("snapshot")}
		if x := a.list("records"); x != nil {
			var n, epoch int
			if _, err := fmt.Sscanf(x[0], "%d@%d", &n, &epoch); err != nil {
				t.Fatal(err)
			}
			r.Records = []byte{byte(n), byte(epoch)}
		}
		body = r
	case *FetchSnapshotRequest:
		body = &FetchSnapshotResponse{Verdict: v, Snapshot: q.Snapshot, Position: q.Position, Size: a.int("size", 10),
			Bytes: make([]byte, a.int("bytes", 10))}
	}
	s.step(Arrived{Message{Request: request, Peer: Peer{ID: l.peer}, Body: body}})
}

// TestVotersFollowTheLog: a voter set is in force from its append on, and a truncation takes it back.
func TestVotersFollowTheLog(t *testing.T) {
	s := &coreScript{now: testTime(), log: &fakeLog{}}
	s.log.append(5, 2)
	s.log.durable = 5
	h := NewVoterHistory(nil)
	h.AddVersion(0, 1)
	h.AddVoters(0, VoterSet{testVoter(1), testVoter(2)})
	s.core = NewCore(testConfig(1), s.log, h, testRand(1))
	s.step(Started{ElectionState{Epoch: 3, Leader: 2, Voted: NoReplica}})
	s.log.append(1, 2)
	s.step(Appended{[]ControlRecord{{5, VotersRecord{VoterSet{testVoter(2), testVoter(3)}}}}})
	if set := s.core.voters.Latest(); set.Contains(keyOf(1)) || !set.Contains(keyOf(3)) {
		t.Fatalf("voters %v", set.ids())
	}
	if !s.core.standsForElection() {
		t.Error("a removal that is not committed ends all hope")
	}
	s.log.truncate(5)
	s.step(Truncated{})
	if set := s.core.voters.Latest(); !set.Contains(keyOf(1)) || set.Contains(keyOf(3)) {
		t.Errorf("voters %v", set.ids())
	}
}
