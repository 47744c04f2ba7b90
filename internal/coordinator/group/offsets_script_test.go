package group

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestOffsetScripts runs the scripts in testdata/offsets: a command is a request or an event, its output the answer and
// what was written.
func TestOffsetScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/offsets", func(t *testing.T, file string) {
		s := &offsetScript{offsetShard: newOffsetShard(t)}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

type offsetScript struct {
	*offsetShard
	args    map[string]string
	printed int // of the log
}

func (s *offsetScript) run(d *datadriven.TestData) string {
	s.args = map[string]string{}
	for _, a := range d.CmdArgs {
		s.args[a.Key] = strings.Join(a.Vals, ",")
	}
	lines := strings.FieldsFunc(d.Input, func(r rune) bool { return r == '\n' })
	out := s.command(d, lines)
	for ; s.printed < len(s.log); s.printed++ {
		out += s.printRecord(s.log[s.printed])
	}
	if out == "" {
		return "ok\n"
	}
	return out
}

func (s *offsetScript) command(d *datadriven.TestData, lines []string) string {
	switch d.Cmd {
	case "topic":
		s.change(s.topicRecords(s.args["name"], int32(s.num("partitions", 1)))...)
	case "remove":
		s.change(s.removal(s.args["name"]))
	case "recreate":
		s.change(append([]metadata.Record{s.removal(s.args["name"])}, s.topicRecords(s.args["name"], 2)...)...)
	case "unseen": // removes a topic while the shard is led elsewhere
		image, _, err := s.image.Apply([]metadata.Record{s.removal(s.args["name"])})
		if err != nil {
			s.t.Fatal(err)
		}
		s.image = image
	case "commit":
		return s.commit(lines)
	case "txn-commit":
		return s.txnCommit(lines)
	case "end":
		s.end(kafka.ProducerID(s.num("pid", 0)), s.has("commit"))
	case "fetch":
		return s.fetch(lines)
	case "delete-offsets":
		return s.deleteOffsets(lines)
	case "delete-group":
		return s.deleteGroup()
	case "list":
		return s.list()
	case "kind":
		s.kind()
	case "advance":
		by, err := time.ParseDuration(s.args["by"])
		if err != nil {
			d.Fatalf(s.t.(*testing.T), "%v", err)
		}
		s.advance(by)
	case "fail":
		s.offsetShard.fail = kafka.CoordinatorNotAvailable
	case "offsets":
		return dumpOffsets(s.m)
	case "restart":
		s.restart()
	case "explain":
		e, ok := s.m.Explain(s.now, s.args["g"])
		return fmt.Sprintf("%v %+v\n", ok, e)
	case "lag":
		var b strings.Builder
		s.m.EachOffset(func(g, topic string, id kafka.UUID, p int32, o kafka.Offset, ms int64) {
			fmt.Fprintf(&b, "%s %s(%d)-%d %d age=%s\n", g, topic, id[0], p, o, s.now.Sub(time.UnixMilli(ms)))
		})
		return b.String()
	default:
		d.Fatalf(s.t.(*testing.T), "unknown command")
	}
	return ""
}

func (s *offsetScript) has(key string) bool { _, ok := s.args[key]; return ok }

func (s *offsetScript) num(key string, otherwise int64) int64 {
	v, ok := s.args[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// may hides the topic that the command names.
func (s *offsetScript) may() func(string) bool {
	if !s.has("hidden") {
		return nil
	}
	return func(topic string) bool { return topic != s.args["hidden"] }
}

func (s *offsetScript) send(r kmsg.Request) (kmsg.Response, string) {
	resp, err := s.ask(r, s.may())
	if err != nil {
		if msg := kafka.MessageOf(err); msg != "" {
			return nil, fmt.Sprintf("%s: %s\n", kafka.CodeOf(err).Name(), msg)
		}
		return nil, kafka.CodeOf(err).Name() + "\n"
	}
	if resp.GetVersion() != r.GetVersion() {
		s.t.Fatalf("answered version %d in version %d", r.GetVersion(), resp.GetVersion())
	}
	// what does not survive the wire is not worth printing
	back := r.ResponseKind()
	if err := back.ReadFrom(resp.AppendTo(nil)); err != nil {
		s.t.Fatal(err)
	}
	return back, ""
}

// target reads "topic" or "#3" (a topic id) at the start of a line.
func (s *offsetScript) target(word string) (string, kafka.UUID) {
	if n, ok := strings.CutPrefix(word, "#"); ok {
		id, err := strconv.Atoi(n)
		if err != nil {
			s.t.Fatal(err)
		}
		return "", kafka.UUID{0: byte(id)}
	}
	return word, kafka.UUID{}
}

func (s *offsetScript) commitTopics(lines []string) []kmsg.OffsetCommitRequestTopic {
	var out []kmsg.OffsetCommitRequestTopic
	for _, l := range lines {
		w := strings.Fields(l)
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = s.target(w[0])
		for _, x := range w[1:] {
			f := strings.Split(x, ":") // partition:offset[:metadata[:leader epoch]]
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			n, err := strconv.Atoi(f[0])
			if err != nil {
				s.t.Fatal(err)
			}
			p.Partition = int32(n)
			if p.Offset, err = strconv.ParseInt(f[1], 10, 64); err != nil {
				s.t.Fatal(err)
			}
			if len(f) > 2 && f[2] != "null" {
				p.Metadata = kmsg.StringPtr(f[2])
			}
			if len(f) > 3 {
				e, _ := strconv.Atoi(f[3])
				p.LeaderEpoch = int32(e)
			}
			t.Partitions = append(t.Partitions, p)
		}
		out = append(out, t)
	}
	return out
}

func (s *offsetScript) instance() *string {
	if v, ok := s.args["instance"]; ok {
		return &v
	}
	return nil
}

func (s *offsetScript) commit(lines []string) string {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID = int16(s.num("v", 9)), s.args["g"], s.args["member"]
	r.Generation, r.RetentionTimeMillis, r.InstanceID = int32(s.num("epoch", -1)), s.num("retention", -1), s.instance()
	r.Topics = s.commitTopics(lines)
	resp, failure := s.send(r)
	if resp == nil {
		return failure
	}
	var b strings.Builder
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d %s\n", topicName(t.Topic, t.TopicID), p.Partition, kafka.Code(p.ErrorCode).Name())
		}
	}
	return b.String()
}

func (s *offsetScript) txnCommit(lines []string) string {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.Group, r.MemberID = int16(s.num("v", 5)), s.args["g"], s.args["member"]
	r.Generation, r.InstanceID = int32(s.num("epoch", -1)), s.instance()
	r.ProducerID, r.ProducerEpoch, r.TransactionalID = s.num("pid", 0), int16(s.num("producer-epoch", 0)), "t"
	for _, t := range s.commitTopics(lines) {
		x := kmsg.NewTxnOffsetCommitRequestTopic()
		x.Topic, x.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			x.Partitions = append(x.Partitions, kmsg.TxnOffsetCommitRequestTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata,
			})
		}
		r.Topics = append(r.Topics, x)
	}
	resp, failure := s.send(r)
	if resp == nil {
		return failure
	}
	var b strings.Builder
	for _, t := range resp.(*kmsg.TxnOffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d %s\n", topicName(t.Topic, t.TopicID), p.Partition, kafka.Code(p.ErrorCode).Name())
		}
	}
	return b.String()
}

func topicName(name string, id kafka.UUID) string {
	if name == "" && !id.IsZero() {
		return fmt.Sprintf("#%d", id[0])
	}
	return name
}

func (s *offsetScript) fetch(lines []string) string {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.Group, r.RequireStable = int16(s.num("v", 9)), s.args["g"], s.has("stable")
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = s.args["g"], int32(s.num("epoch", -1))
	if m, ok := s.args["member"]; ok {
		g.MemberID = &m
	}
	if !s.has("all") {
		r.Topics, g.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, l := range lines {
		w := strings.Fields(l)
		name, id := s.target(w[0])
		var partitions []int32
		for _, x := range w[1:] {
			n, _ := strconv.Atoi(x)
			partitions = append(partitions, int32(n))
		}
		r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: partitions})
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: id, Partitions: partitions})
	}
	if r.Version >= 8 {
		r.Group, r.Topics, r.Groups = "", nil, []kmsg.OffsetFetchRequestGroup{g}
	}
	back := kmsg.NewPtrOffsetFetchRequest()
	back.Version = r.Version
	if err := back.ReadFrom(r.AppendTo(nil)); err != nil {
		s.t.Fatal(err)
	}
	resp, failure := s.send(back)
	if resp == nil {
		return failure
	}
	return printFetched(resp.(*kmsg.OffsetFetchResponse))
}

func printFetched(r *kmsg.OffsetFetchResponse) string {
	var b strings.Builder
	one := func(topic string, p kmsg.OffsetFetchResponseGroupTopicPartition) {
		fmt.Fprintf(&b, "%s-%d %d epoch=%d %q", topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata)
		if p.ErrorCode != 0 {
			fmt.Fprintf(&b, " %s", kafka.Code(p.ErrorCode).Name())
		}
		b.WriteByte('\n')
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			one(t.Topic, kmsg.OffsetFetchResponseGroupTopicPartition(p))
		}
	}
	for _, g := range r.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				one(topicName(t.Topic, t.TopicID), p)
			}
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *offsetScript) deleteOffsets(lines []string) string {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = s.args["g"]
	for _, l := range lines {
		w := strings.Fields(l)
		t := kmsg.OffsetDeleteRequestTopic{Topic: w[0]}
		for _, x := range w[1:] {
			n, _ := strconv.Atoi(x)
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: int32(n)})
		}
		r.Topics = append(r.Topics, t)
	}
	resp, failure := s.send(r)
	if resp == nil {
		return failure
	}
	var b strings.Builder
	for _, t := range resp.(*kmsg.OffsetDeleteResponse).Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d %s\n", t.Topic, p.Partition, kafka.Code(p.ErrorCode).Name())
		}
	}
	return b.String()
}

func (s *offsetScript) deleteGroup() string {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Version, r.Groups = 3, []string{s.args["g"]}
	resp, failure := s.send(r)
	if resp == nil {
		return failure
	}
	g := resp.(*kmsg.DeleteGroupsResponse).Groups[0]
	return fmt.Sprintf("%s %s\n", g.Group, kafka.Code(g.ErrorCode).Name())
}

func (s *offsetScript) list() string {
	r := kmsg.NewPtrListGroupsRequest()
	r.Version = 5
	if s.has("states") {
		r.StatesFilter = strings.Split(s.args["states"], ",")
	}
	if s.has("types") {
		r.TypesFilter = strings.Split(s.args["types"], ",")
	}
	resp, failure := s.send(r)
	if resp == nil {
		return failure
	}
	var b strings.Builder
	for _, g := range resp.(*kmsg.ListGroupsResponse).Groups {
		fmt.Fprintf(&b, "%s %q %s %s\n", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
	}
	if b.Len() == 0 {
		return "none\n"
	}
	return b.String()
}

// kind gives a group members of a made-up kind.
func (s *offsetScript) kind() {
	g := s.m.groups[s.args["g"]]
	if g == nil {
		g = s.m.create(s.args["g"])
	}
	f := &fakeKind{typ: s.args["type"], protocol: s.args["protocol"], now: s.args["state"]}
	f.gone = coordinator.Record{Key: append([]byte{0, keyGroupMetadata, 0, byte(len(g.id))}, g.id...)}
	if s.has("subscribed") {
		f.subscriptions = strings.Split(s.args["subscribed"], ",")
	}
	switch s.args["expires"] {
	case "since":
		f.exp = expiry{mode: expireSince, since: s.now}
	case "commit":
		f.exp = expiry{mode: expireByCommit}
	}
	codes := map[string]kafka.Code{}
	for _, c := range kafka.Codes() {
		codes[c.Name()] = c
	}
	if c, ok := codes[s.args["commit-error"]]; ok {
		f.commitErr = c
	}
	if c, ok := codes[s.args["fetch-error"]]; ok {
		f.fetchErr = c
	}
	if s.has("judged") { // the partition that is refused
		f.judged = map[int32]error{int32(s.num("judged", 0)): kafka.StaleMemberEpoch}
	}
	g.kind = f
}

func (s *offsetScript) printRecord(l logged) string {
	switch {
	case l.ended && l.commit:
		return fmt.Sprintf("  commit of %d\n", l.producer.ID)
	case l.ended:
		return fmt.Sprintf("  abort of %d\n", l.producer.ID)
	case binary.BigEndian.Uint16(l.Key) != keyOffsetCommit:
		return fmt.Sprintf("  type %d deleted=%v\n", binary.BigEndian.Uint16(l.Key), l.Value == nil)
	}
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(l.Key); err != nil {
		s.t.Fatal(err)
	}
	who := ""
	if l.producer.ID != kafka.NoProducer {
		who = fmt.Sprintf(" by %d/%d", l.producer.ID, l.producer.Epoch)
	}
	if l.Value == nil {
		return fmt.Sprintf("  delete %s %s-%d%s\n", k.Group, k.Topic, k.Partition, who)
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(l.Value); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("  v%d %s %s-%d %d epoch=%d %q id=%d%s\n", v.Version, k.Group, k.Topic, k.Partition, v.Offset,
		v.LeaderEpoch, v.Metadata, v.TopicID[0], who)
}
