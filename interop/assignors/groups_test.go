package assignors

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/broker"
)

// topicID is a topic's id; Kafka writes ids in base64.
type topicID [16]byte

func (id topicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// compare orders ids as Java does: as two signed numbers.
func (id topicID) compare(other topicID) int {
	for at := 0; at < 16; at += 8 {
		a, b := int64(binary.BigEndian.Uint64(id[at:])), int64(binary.BigEndian.Uint64(other[at:]))
		if a != b {
			if a < b {
				return -1
			}
			return 1
		}
	}
	return 0
}

// bucket is where a hash table of Java with 16 places keeps the id.
func (id topicID) bucket() uint32 {
	x := binary.BigEndian.Uint64(id[:]) ^ binary.BigEndian.Uint64(id[8:])
	h := uint32(x>>32) ^ uint32(x)
	return (h ^ h>>16) & 15
}

// liveTopic is a topic of the broker.
type liveTopic struct {
	name       string
	id         topicID
	partitions int32
}

// TestLiveGroups drives groups of the consumer protocol with raw heartbeats: members come, go and change their
// subscriptions, and after each step the target assignment must be legal. Apache Kafka computes targets in the order of
// its hash tables; topics and member ids are chosen so that this is the order of the ids, which makes what is recorded
// of it exact.
func TestLiveGroups(t *testing.T) {
	n := broker.Start(t, "group.consumer.assignment.interval.ms=0", "offsets.topic.num.partitions=1")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if !serves(t, ctx, cl, kmsg.ConsumerGroupHeartbeat) {
		t.Skip("the broker does not serve ConsumerGroupHeartbeat")
	}
	topics := hashOrdered(createTopics(t, ctx, cl, 60))
	rnd := rand.New(rand.NewPCG(seed(t), 1))
	var answers []recorded
	for i := range 24 {
		l := &liveGroup{ctx: ctx, cl: cl, name: fmt.Sprintf("g%d", i), rnd: rnd, members: map[string]*liveMember{},
			assignor: []string{"uniform", "uniform", "range"}[i%3], mixed: i%2 == 0}
		for _, j := range rnd.Perm(len(topics))[:min(len(topics), 2+rnd.IntN(5))] {
			l.topics = append(l.topics, topics[j])
		}
		slices.SortFunc(l.topics, func(a, b liveTopic) int { return a.id.compare(b.id) })
		l.all = subset(rnd, len(l.topics))
		for range 10 {
			r := l.step(t)
			checkRecorded(t, r)
			answers = append(answers, r)
		}
	}
	record(t, "kafka-groups.jsonl", answers)
	n.Stop(t)
}

func serves(t *testing.T, ctx context.Context, cl *kgo.Client, key kmsg.Key) bool {
	t.Helper()
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key.Int16() })
}

func createTopics(t *testing.T, ctx context.Context, cl *kgo.Client, n int) []liveTopic {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	for i := range n {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("t%02d", i), int32(1+i*7%12), 1
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	var out []liveTopic
	for i, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			t.Fatal(err)
		}
		out = append(out, liveTopic{name: topic.Topic, id: topic.TopicID, partitions: req.Topics[i].NumPartitions})
	}
	return out
}

// hashOrdered picks as many topics as it can whose order in a hash table is that of their ids.
func hashOrdered(topics []liveTopic) []liveTopic {
	slices.SortFunc(topics, func(a, b liveTopic) int { return a.id.compare(b.id) })
	best := make([][]liveTopic, len(topics)) // the longest choice that ends with the i-th
	var longest []liveTopic
	for i, topic := range topics {
		for j := range i {
			if topics[j].id.bucket() < topic.id.bucket() && len(best[j]) > len(best[i]) {
				best[i] = best[j]
			}
		}
		best[i] = append(slices.Clone(best[i]), topic)
		if len(best[i]) > len(longest) {
			longest = best[i]
		}
	}
	return longest
}

// liveMembers are the ids members may have: Java's hash tables keep them in this order.
const liveMembers = "abcdefghijkl"

type liveMember struct {
	instance *string
	epoch    int32
	topics   []int
	target   map[int][]int32
}

type liveGroup struct {
	ctx      context.Context
	cl       *kgo.Client
	rnd      *rand.Rand
	name     string
	assignor string
	mixed    bool // members subscribe to different topics
	topics   []liveTopic
	all      []int
	members  map[string]*liveMember
}

// step does something to the group and returns what it was asked and what it answered.
func (l *liveGroup) step(t *testing.T) recorded {
	t.Helper()
	id := string(liveMembers[l.rnd.IntN(len(liveMembers))])
	m, in := l.members[id]
	switch {
	case !in:
		m = &liveMember{topics: l.subscription()}
		if l.rnd.IntN(3) == 0 {
			instance := fmt.Sprintf("i%d%s", l.rnd.IntN(5), id)
			m.instance = &instance
		}
		l.members[id] = m
		l.heartbeat(t, id, m, 0)
	case l.mixed && l.rnd.IntN(2) == 0:
		m.topics = l.subscription()
		l.heartbeat(t, id, m, m.epoch)
	case len(l.members) > 1:
		l.heartbeat(t, id, m, -1)
		delete(l.members, id)
	}
	r := recorded{Assignor: l.assignor}
	for _, topic := range l.topics {
		r.Topics = append(r.Topics, recordedTopic{ID: topic.id.String(), Partitions: topic.partitions})
	}
	targets := l.targets(t)
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		m := l.members[id]
		r.Members = append(r.Members, recordedMember{ID: id, Instance: m.instance, Topics: m.topics, Owned: m.target,
			Want: targets[id]})
		m.target = targets[id]
	}
	return r
}

func (l *liveGroup) subscription() []int {
	if l.mixed {
		return subset(l.rnd, len(l.topics))
	}
	return l.all
}

// heartbeat joins with epoch 0, leaves with -1, and tells the member's subscription otherwise.
func (l *liveGroup) heartbeat(t *testing.T, id string, m *liveMember, epoch int32) {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.InstanceID = m.instance
	if epoch >= 0 {
		req.RebalanceTimeoutMillis, req.ServerAssignor = 60000, &l.assignor
		for _, topic := range m.topics {
			req.SubscribedTopicNames = append(req.SubscribedTopicNames, l.topics[topic].name)
		}
	}
	if epoch == 0 {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	l.send(t, req, id, m, epoch)
}

func (l *liveGroup) send(t *testing.T, req *kmsg.ConsumerGroupHeartbeatRequest, id string, m *liveMember, epoch int32) {
	t.Helper()
	req.Group, req.MemberID, req.MemberEpoch = l.name, id, epoch
	for try := 0; ; try++ {
		resp, err := req.RequestWith(l.ctx, l.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		// The topic of the groups is created and loaded now, for the first of them.
		if kerr.IsRetriable(err) && try < 600 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("%s of %s with epoch %d: %v", id, l.name, epoch, err)
		}
		m.epoch = resp.MemberEpoch
		return
	}
}

// targets waits until the target has been computed for the group's present epoch and returns it by member and topic. A
// target is computed when a member next sends a heartbeat, which after a member has left takes a second one.
func (l *liveGroup) targets(t *testing.T) map[string]map[int][]int32 {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{l.name}
	for try := 0; ; try++ {
		resp, err := req.RequestWith(l.ctx, l.cl)
		if err != nil {
			t.Fatal(err)
		}
		g := resp.Groups[0]
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			t.Fatal(err)
		}
		if g.AssignmentEpoch == g.Epoch {
			return l.byTopic(t, g)
		}
		if try == 100 {
			t.Fatalf("group %s stays at assignment epoch %d of %d", l.name, g.AssignmentEpoch, g.Epoch)
		}
		id := slices.Min(slices.Collect(maps.Keys(l.members)))
		l.send(t, kmsg.NewPtrConsumerGroupHeartbeatRequest(), id, l.members[id], l.members[id].epoch)
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *liveGroup) byTopic(t *testing.T, g kmsg.ConsumerGroupDescribeResponseGroup) map[string]map[int][]int32 {
	t.Helper()
	out := map[string]map[int][]int32{}
	for _, m := range g.Members {
		parts := map[int][]int32{}
		for _, tp := range m.TargetAssignment.TopicPartitions {
			at := slices.IndexFunc(l.topics, func(topic liveTopic) bool { return topic.id == tp.TopicID })
			if at < 0 {
				t.Fatalf("%s of %s has topic %s, of which nobody has heard", m.MemberID, l.name, tp.Topic)
			}
			if len(tp.Partitions) > 0 {
				parts[at] = slices.Sorted(slices.Values(tp.Partitions))
			}
		}
		out[m.MemberID] = parts
	}
	if got := strings.Join(slices.Sorted(maps.Keys(out)), ""); got != strings.Join(slices.Sorted(maps.Keys(l.members)), "") {
		t.Fatalf("group %s has members %s", l.name, got)
	}
	return out
}
