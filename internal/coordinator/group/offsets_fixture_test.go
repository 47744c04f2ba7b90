package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// offsetShard runs a Machine as the runtime does, on a log in memory and a clock that the test moves.
type offsetShard struct {
	t        testing.TB
	m        *Machine
	image    *metadata.Image
	settings Settings
	now      time.Time
	log      []logged
	timers   map[coordinator.TimerKey]time.Time
	rnd      *rand.Rand
	fail     error // the next append fails with it
	holding  bool  // work is held, and not done at once
	held     []coordinator.Work
	ids      byte // topic ids drawn
}

// logged is a record or, with ended set, a marker.
type logged struct {
	coordinator.Record
	producer coordinator.Stamp
	ended    bool
	commit   bool
}

func newOffsetShard(t testing.TB) *offsetShard {
	s := &offsetShard{
		t: t, image: metadata.New(), now: time.UnixMilli(1_700_000_000_000), timers: map[coordinator.TimerKey]time.Time{},
		rnd: rand.New(rand.NewPCG(1, 2)),
		settings: Settings{
			OffsetMetadataMaxBytes: 16, OffsetsRetention: 7 * 24 * time.Hour, OffsetsCheckInterval: 10 * time.Minute,
		},
	}
	s.m = s.machine()
	s.event(coordinator.Loaded{Image: s.image})
	return s
}

func (s *offsetShard) machine() *Machine {
	return New(Options{
		Settings: func() Settings { return s.settings },
		Consumer: func(*metadata.Image, string) ConsumerSettings {
			return ConsumerSettings{Session: 45 * time.Second, Heartbeat: 5 * time.Second}
		},
	}, s.image)
}

// event handles an event and what follows from it.
func (s *offsetShard) event(e coordinator.Event) {
	s.carryOut(s.m.Handle(s.now, e, s.rnd))
}

func (s *offsetShard) carryOut(r coordinator.Result) {
	var err error
	if len(r.Records) > 0 {
		err = s.append(r)
	}
	for _, t := range r.Timers {
		switch {
		case err != nil: // nothing of it happens
		case t.At.IsZero():
			delete(s.timers, t.Key)
		default:
			s.timers[t.Key] = t.At
		}
	}
	for _, reply := range r.Replies {
		if err != nil {
			reply.Answer = coordinator.Answer{Err: err}
		}
		reply.To.Answer().Set(reply.Answer)
	}
	if r.Then != nil {
		s.carryOut(r.Then(s.now, err))
	}
	for _, w := range r.Outgoing {
		if s.holding {
			s.held = append(s.held, w)
			continue
		}
		s.event(evaluated(w))
	}
	for _, e := range r.Next {
		s.event(e)
	}
}

func (s *offsetShard) append(r coordinator.Result) error {
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	producer := coordinator.NoStamp
	if r.Stamp != nil {
		producer = *r.Stamp
	}
	for _, x := range r.Records {
		s.log = append(s.log, logged{Record: x, producer: producer})
		s.apply(s.m, len(s.log)-1)
	}
	return nil
}

// apply gives one entry of the log to a machine, in memory of its own, as reading a log does.
func (s *offsetShard) apply(m *Machine, i int) {
	l := s.log[i]
	at := coordinator.Origin{Offset: kafka.Offset(i), TimestampMs: s.now.UnixMilli(), Producer: l.producer}
	if l.ended {
		m.Ended(l.producer, l.commit, at)
		return
	}
	r := coordinator.Record{Key: bytes.Clone(l.Key), Value: bytes.Clone(l.Value)}
	if err := m.Apply(r, at); err != nil {
		s.t.Fatalf("record %d: %v", i, err)
	}
	if binary.BigEndian.Uint16(r.Key) != keyOffsetCommit && r.Value == nil {
		for _, g := range m.groups { // at most one
			if f, ok := g.kind.(*fakeKind); ok && bytes.Equal(f.gone.Key, r.Key) {
				m.vacate(g)
			}
		}
	}
}

// end writes a transaction's marker.
func (s *offsetShard) end(id kafka.ProducerID, commit bool) {
	s.log = append(s.log, logged{producer: coordinator.Stamp{ID: id}, ended: true, commit: commit})
	s.apply(s.m, len(s.log)-1)
}

// ask sends a request that is answered at once.
func (s *offsetShard) ask(body kmsg.Request, may func(string) bool) (kmsg.Response, error) {
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1", May: may}, body)
	s.event(p)
	a, ok := p.Answer().Get()
	if !ok {
		s.t.Fatalf("%T was not answered", body)
	}
	return a.Body, a.Err
}

// advance moves the clock and fires what becomes due, in order.
func (s *offsetShard) advance(d time.Duration) {
	until := s.now.Add(d)
	for {
		due := slices.SortedFunc(maps.Keys(s.timers), func(a, b coordinator.TimerKey) int {
			if c := s.timers[a].Compare(s.timers[b]); c != 0 {
				return c
			}
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		})
		if len(due) == 0 || s.timers[due[0]].After(until) {
			s.now = until
			return
		}
		if at := s.timers[due[0]]; at.After(s.now) {
			s.now = at
		}
		delete(s.timers, due[0])
		s.event(coordinator.TimerFired{Key: due[0]})
	}
}

// reload gives a new machine that has read the log.
func (s *offsetShard) reload() *Machine {
	m := s.machine()
	for i := range s.log {
		s.apply(m, i)
	}
	return m
}

// restart replaces the machine by one that has read the log.
func (s *offsetShard) restart() {
	s.m = s.reload()
	clear(s.timers)
	s.event(coordinator.Loaded{Image: s.image})
}

// change applies records to the image.
func (s *offsetShard) change(records ...metadata.Record) {
	image, diff, err := s.image.Apply(records)
	if err != nil {
		s.t.Fatal(err)
	}
	s.image = image
	s.event(coordinator.ImageChanged{Image: image, Diff: diff})
}

// topicRecords creates a topic under a new id.
func (s *offsetShard) topicRecords(name string, partitions int32) []metadata.Record {
	s.ids++
	id := kafka.UUID{0: s.ids}
	out := []metadata.Record{&metadata.TopicRecord{Name: name, TopicID: id}}
	for i := range partitions {
		out = append(out, &metadata.PartitionRecord{
			PartitionID: i, TopicID: id, Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1,
		})
	}
	return out
}

func (s *offsetShard) removal(name string) metadata.Record {
	t, ok := s.image.Topic(name)
	if !ok {
		s.t.Fatalf("no topic %s", name)
	}
	return &metadata.RemoveTopicRecord{TopicID: t.ID}
}

// dump prints the persistent offsets of a machine.
func dumpOffsets(m *Machine) string {
	var b strings.Builder
	line := func(g *group, kind, topic string, c *committed) {
		fmt.Fprintf(&b, "%s %s%s-%d %d epoch=%d %q", g.id, kind, topic, c.partition, c.offset, c.leaderEpoch, c.metadata)
		if c.expireMs != noExpiry {
			fmt.Fprintf(&b, " expires=+%s", time.Duration(c.expireMs-c.commitMs)*time.Millisecond)
		}
		fmt.Fprintf(&b, " id=%d at=%d\n", c.topicID[0], c.record)
	}
	for _, id := range m.ids() {
		g := m.groups[id]
		for topic, c := range g.offsets.all() {
			line(g, "", topic, c)
		}
		for _, p := range slices.Sorted(maps.Keys(g.pending)) {
			for topic, c := range g.pending[p].all() {
				line(g, fmt.Sprintf("pending(%d) ", p), topic, c)
			}
		}
	}
	return b.String()
}

// fakeKind stands in for a group with members.
type fakeKind struct {
	kind
	typ, protocol, now string
	subscriptions      []string
	exp                expiry
	commitErr          error
	judged             map[int32]error
	fetchErr           error
	gone               coordinator.Record
}

func (f *fakeKind) groupType() string    { return f.typ }
func (f *fakeKind) protocolType() string { return f.protocol }
func (f *fakeKind) state() string        { return f.now }
func (f *fakeKind) generation() int32    { return 3 }
func (f *fakeKind) expires() expiry      { return f.exp }
func (f *fakeKind) checkDelete() error {
	if f.now != "Empty" {
		return kafka.NonEmptyGroup
	}
	return nil
}
func (f *fakeKind) subscribed(topic string) bool     { return slices.Contains(f.subscriptions, topic) }
func (f *fakeKind) checkFetch(*string, int32) error  { return f.fetchErr }
func (f *fakeKind) tombstones() []coordinator.Record { return []coordinator.Record{f.gone} }
func (f *fakeKind) waits(time.Time) []MemberWait     { return []MemberWait{{Member: "m"}} }
func (f *fakeKind) checkCommit(time.Time, commitCheck) (func(kafka.UUID, int32) error, []coordinator.Timer, error) {
	if f.judged == nil {
		return nil, nil, f.commitErr
	}
	return func(_ kafka.UUID, p int32) error { return f.judged[p] }, nil, f.commitErr
}

// evaluated does the work that a machine asks for.
func evaluated(w coordinator.Work) coordinator.Event {
	x := w.(*EvaluatePatterns)
	for x.Step() {
	}
	return x.Evaluated()
}

func matchingTopics(image *metadata.Image, pattern string) []string {
	return evaluated(newEvaluatePatterns(regexDue{}, image, []string{pattern})).(patternsEvaluated).topics[pattern]
}
