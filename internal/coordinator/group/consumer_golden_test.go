package group

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// goldenLine is one step of what Apache Kafka 4.4.0 did: a topic as it is from here on, or a request, its response and
// the records that it put into __consumer_offsets because of it. Bytes are in hex; a tombstone has the value "-".
type goldenLine struct {
	Note     string
	At       int64 // ms
	Topic    string
	ID       string
	Parts    int
	Key      int16
	Version  int16
	Request  string
	Response string
	Records  [][2]string
}

// TestGolden replays what was asked of Apache Kafka and expects its answers and its records, byte for byte but for orders
// that are of no consequence: topics within a record, and members within a step. Wordings of errors are our own.
func TestGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/consumer/golden/*.jsonl")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { playGolden(t, file) })
	}
}

func playGolden(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newConsumerShard(t, 1)
	s.settings.InitialRebalanceDelay = 0
	ids := &goldenIDs{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var l goldenLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			s.now = time.UnixMilli(l.At)
		}
		playGoldenLine(t, s, ids, n, l)
		s.checkReplay()
	}
}

func playGoldenLine(t *testing.T, s *consumerShard, ids *goldenIDs, n int, l goldenLine) {
	before := len(s.log)
	at, version := goldenTime(t, l)
	s.advance(at.Sub(s.now))
	if version != 0 {
		s.image = s.image.WithPosition(kafka.Offset(version), 1, at.UnixMilli())
		s.m.image = s.image
	}
	if l.Topic != "" {
		s.topic(l.Topic, kafka.UUID(goldenBytes(t, l.ID)), l.Parts)
		return
	}
	if l.Key != 0 {
		request, response := kmsg.RequestForKey(l.Key), kmsg.ResponseForKey(l.Key)
		request.SetVersion(l.Version)
		response.SetVersion(l.Version)
		if err := request.ReadFrom(ids.ours(goldenBytes(t, l.Request))); err != nil {
			t.Fatal(err)
		}
		got := s.askAs("probe", request)
		ids.learn(t, goldenBytes(t, l.Response), got)
		if err := response.ReadFrom(ids.ours(goldenBytes(t, l.Response))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(comparable848(response), comparable848(got), cmp.AllowUnexported(kmsg.Tags{})); diff != "" {
			t.Errorf("line %d, %s: Kafka's answer (-), ours (+):\n%s", n, l.Note, diff)
		}
	}
	want := make([]coordinator.Record, len(l.Records))
	for i, r := range l.Records {
		want[i].Key = ids.ours(goldenBytes(t, r[0]))
		if r[1] != "-" {
			want[i].Value = ids.ours(goldenBytes(t, r[1]))
		}
	}
	var got []coordinator.Record
	for _, r := range s.log[before:] {
		got = append(got, r.Record)
	}
	compareRecords(t, n, l.Note, ordered(want), ordered(got))
}

// goldenIDs maps the ids that Kafka gave to members to those that we give: they are of one length.
type goldenIDs struct{ pairs [][2][]byte }

func (g *goldenIDs) ours(b []byte) []byte {
	for _, p := range g.pairs {
		b = bytes.ReplaceAll(b, p[0], p[1])
	}
	return b
}

// learn notes the id in a JoinGroup response. What Kafka knows already is not replaced again.
func (g *goldenIDs) learn(t *testing.T, theirs []byte, ours kmsg.Response) {
	o, ok := ours.(*kmsg.JoinGroupResponse)
	if !ok {
		return
	}
	r := kmsg.NewPtrJoinGroupResponse()
	r.SetVersion(o.Version)
	if err := r.ReadFrom(theirs); err != nil {
		t.Fatal(err)
	}
	if id := g.ours([]byte(r.MemberID)); len(id) > 0 && len(id) == len(o.MemberID) && string(id) != o.MemberID {
		g.pairs = append(g.pairs, [2][]byte{[]byte(r.MemberID), []byte(o.MemberID)})
	}
}

// goldenTime is when a step took place: where Kafka has written down the time, that one.
func goldenTime(t *testing.T, l goldenLine) (at time.Time, imageVersion int64) {
	at = time.UnixMilli(l.At)
	for _, r := range l.Records {
		if r[1] == "-" {
			continue
		}
		v := goldenBytes(t, r[1])
		switch binary.BigEndian.Uint16(goldenBytes(t, r[0])) {
		case keyTargetMetadata:
			if len(v) == 17 {
				at = time.UnixMilli(int64(binary.BigEndian.Uint64(v[9:])))
			}
		case keyOffsetCommit: // with empty metadata
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(v[15:])))
		case keyConsumerRegex:
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(v[len(v)-9:])))
			imageVersion = int64(binary.BigEndian.Uint64(v[len(v)-17:]))
		}
	}
	return at, imageVersion
}

func goldenBytes(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// askAs sends a request that is answered at once, as a client of that name.
func (s *consumerShard) askAs(client string, body kmsg.Request) kmsg.Response {
	s.t.Helper()
	p := coordinator.NewPending(coordinator.Call{ClientID: client, ClientHost: "/127.0.0.1"}, body)
	s.event(p)
	s.advance(0)
	a, ok := p.Answer().Get()
	if !ok {
		s.t.Fatalf("%T was not answered", body)
	}
	if a.Err == nil {
		return a.Body
	}
	return errorResponse(body, a.Err)
}

// errorResponse is what the handler makes of an error.
func errorResponse(body kmsg.Request, err error) kmsg.Response {
	code := int16(kafka.CodeOf(err))
	r := body.ResponseKind()
	switch r := r.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		r.ErrorCode, r.ErrorMessage = code, kmsg.StringPtr(err.Error())
	case *kmsg.JoinGroupResponse:
		r.ErrorCode = code
	case *kmsg.SyncGroupResponse:
		r.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.LeaveGroupResponse:
		r.ErrorCode = code
	case *kmsg.DeleteGroupsResponse:
		r.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: body.(*kmsg.DeleteGroupsRequest).Groups[0], ErrorCode: code}}
	}
	return r
}

// comparable848 makes responses comparable: orders that do not matter are fixed, wordings are dropped.
func comparable848(r kmsg.Response) kmsg.Response {
	switch r := r.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.ErrorMessage != nil {
			r.ErrorMessage = kmsg.StringPtr("some message")
		}
		if r.Assignment != nil {
			slices.SortFunc(r.Assignment.Topics, func(a, b kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic) int {
				return compareUUID(a.TopicID, b.TopicID)
			})
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		for i := range r.Groups {
			g := &r.Groups[i]
			if g.ErrorMessage != nil {
				g.ErrorMessage = kmsg.StringPtr("some message")
			}
			slices.SortFunc(g.Members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int {
				return strings.Compare(a.MemberID, b.MemberID)
			})
			for j := range g.Members {
				sortAssignment(&g.Members[j].Assignment)
				sortAssignment(&g.Members[j].TargetAssignment)
				if len(g.Members[j].SubscribedTopics) == 0 {
					g.Members[j].SubscribedTopics = nil
				}
			}
			if len(g.Members) == 0 {
				g.Members = nil
			}
		}
	case *kmsg.SyncGroupResponse:
		if len(r.MemberAssignment) == 0 {
			r.MemberAssignment = nil
		}
	case *kmsg.DeleteGroupsResponse:
		for i := range r.Groups {
			r.Groups[i].ErrorMessage = nil
		}
	}
	return r
}

func sortAssignment(a *kmsg.Assignment) {
	slices.SortFunc(a.TopicPartitions, func(a, b kmsg.AssignmentTopicPartition) int {
		return compareUUID(a.TopicID, b.TopicID)
	})
}

// ordered sorts runs of records of one type, and of one kind (value or tombstone), by key.
func ordered(all []coordinator.Record) []coordinator.Record {
	same := func(a, b coordinator.Record) bool {
		return bytes.Equal(a.Key[:2], b.Key[:2]) && (a.Value == nil) == (b.Value == nil)
	}
	out := slices.Clone(all)
	for i := 0; i < len(out); {
		j := i + 1
		for j < len(out) && same(out[i], out[j]) {
			j++
		}
		slices.SortStableFunc(out[i:j], func(a, b coordinator.Record) int { return bytes.Compare(a.Key, b.Key) })
		i = j
	}
	return out
}

func compareRecords(t *testing.T, n int, note string, want, got []coordinator.Record) {
	t.Helper()
	show := func(all []coordinator.Record) string {
		var b strings.Builder
		for _, r := range all {
			v := "-"
			if r.Value != nil {
				v = hex.EncodeToString(r.Value)
			}
			b.WriteString(hex.EncodeToString(r.Key[:2]) + " " + string(r.Key[2:]) + " = " + v + "\n")
		}
		return b.String()
	}
	if !slices.EqualFunc(want, got, sameRecord) {
		t.Errorf("line %d, %s: Kafka's records:\n%sours:\n%s", n, note, show(want), show(got))
	}
}

// sameRecord compares records. Topics may be in another order: then all bytes are there, and ours reads the same.
func sameRecord(want, got coordinator.Record) bool {
	if !bytes.Equal(want.Key, got.Key) {
		return false
	}
	if sameBytes(want.Value, got.Value) {
		return true
	}
	if got.Value != nil && binary.BigEndian.Uint16(got.Key) == keyGroupMetadata {
		return sameClassic(want.Value, got.Value)
	}
	if want.Value == nil || got.Value == nil || !bytes.Equal(sortedBytes(want.Value), sortedBytes(got.Value)) {
		return false
	}
	return readBack(want) != "" && readBack(want) == readBack(got)
}

func sortedBytes(b []byte) []byte { return slices.Sorted(slices.Values(b)) }

// readBack applies a record to an empty machine and prints what became of it.
func readBack(r coordinator.Record) string {
	m := New(Options{}, nil)
	if m.Apply(r, coordinator.Origin{}) != nil {
		return ""
	}
	text := dumpConsumer(m)
	for _, g := range m.groups {
		for id, target := range g.kind.(*consumerGroup).targets {
			text += id
			for _, topic := range target.topics() {
				text += topic.String()
				for _, p := range target[topic] {
					text += string(rune('0' + p))
				}
			}
		}
	}
	return text
}

// sameClassic compares the records of classic groups but for the time and, as the order of members decides about it, the
// leader.
func sameClassic(want, got []byte) bool {
	a, err := parseGroupMetadata(want)
	b, err2 := parseGroupMetadata(got)
	if err != nil || err2 != nil {
		return false
	}
	for _, g := range []*groupMetadata{a, b} {
		g.sinceMs = 0
		if g.leader != nil {
			*g.leader = "somebody"
		}
		slices.SortFunc(g.members, func(x, y memberMetadata) int { return strings.Compare(x.id, y.id) })
	}
	return cmp.Equal(a, b, cmp.AllowUnexported(groupMetadata{}, memberMetadata{}))
}
