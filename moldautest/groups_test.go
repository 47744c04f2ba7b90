package moldautest_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/moldautest"
)

// groupProtocols are the ways in which members share partitions out.
var groupProtocols = map[string][]kgo.Opt{
	"eager":       {kgo.Balancers(kgo.RangeBalancer())},
	"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"server":      {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
}

// part names a partition.
type part struct {
	topic     string
	partition int32
}

// circle is one group on a node, what its members did, and what they must not have done: two members may not handle the
// records of one partition in one generation, nobody may commit beyond a record that no one handled, and what was
// committed may never go back.
type circle struct {
	t       *testing.T
	node    *moldautest.Node
	random  *rand.Rand
	name    string
	options []kgo.Opt
	topics  []string // as members subscribe
	regex   bool

	stop    context.CancelFunc
	running sync.WaitGroup
	members map[string]*fellow
	made    int

	mu        sync.Mutex
	sent      map[part]int64 // acknowledged
	handled   map[part]map[int64]bool
	prefix    map[part]int64 // everything below was handled
	committed map[part]int64 // acknowledged
	owners    map[string]string
	faults    []string
	commits   int
}

// fellow is one member.
type fellow struct {
	name   string
	static string // its instance id; such a member is replaced by another process within a generation (KIP-345)
	client *kgo.Client
	gate   *gate
	stop   context.CancelFunc
	done   chan struct{}
}

func newCircle(t *testing.T, name string, options []kgo.Opt, topics ...string) *circle {
	n := moldautest.Start(t, moldautest.Seed(1), moldautest.Config("offsets.topic.num.partitions", "2"),
		moldautest.Config("group.initial.rebalance.delay.ms", "0"), moldautest.Config("group.min.session.timeout.ms", "500"),
		moldautest.Config("group.consumer.min.session.timeout.ms", "500"),
		moldautest.Config("group.consumer.session.timeout.ms", "3000"),
		moldautest.Config("group.consumer.min.heartbeat.interval.ms", "50"),
		moldautest.Config("group.consumer.heartbeat.interval.ms", "200"),
		moldautest.Config("group.consumer.assignment.interval.ms", "0"))
	return &circle{t: t, node: n, random: rand.New(rand.NewPCG(1, 2)), name: name, options: options, topics: topics,
		members: map[string]*fellow{}, sent: map[part]int64{}, handled: map[part]map[int64]bool{}, prefix: map[part]int64{},
		committed: map[part]int64{}, owners: map[string]string{}}
}

func (c *circle) client(g *gate, options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.node.Address()), kgo.Dialer(g.Dial),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.MetadataMaxAge(500 * time.Millisecond), kgo.RetryTimeout(20 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.RequestRetries(10_000),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil))}, options...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

func (c *circle) gate() *gate {
	g := &gate{conns: map[net.Conn]struct{}{}}
	g.set(c.node.Dial)
	return g
}

func (c *circle) admin() *kadm.Client {
	client := c.client(c.gate())
	c.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func (c *circle) create(topic string, partitions int32) {
	c.t.Helper()
	if _, err := c.admin().CreateTopic(c.t.Context(), partitions, 1, nil, topic); err != nil {
		c.t.Fatal(err)
	}
}

// begin sends numbered records to all partitions of the topics until finish.
func (c *circle) begin(topics ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	client := c.client(c.gate(), kgo.UnknownTopicRetries(-1), kgo.MaxBufferedRecords(1000))
	c.running.Go(func() {
		defer client.Close()
		for n := 0; ctx.Err() == nil; n++ {
			client.Produce(context.Background(), &kgo.Record{Topic: topics[n%len(topics)], Value: fmt.Append(nil, n),
				Key: fmt.Append(nil, n)}, func(r *kgo.Record, err error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if err != nil {
					c.fault("sending: %v", err)
				} else if at := (part{r.Topic, r.Partition}); r.Offset >= c.sent[at] {
					c.sent[at] = r.Offset + 1
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		flush, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := client.Flush(flush); err != nil {
			c.mu.Lock()
			c.fault("the producer cannot flush: %v", err)
			c.mu.Unlock()
		}
	})
}

// fault needs c.mu.
func (c *circle) fault(format string, args ...any) {
	if len(c.faults) < 20 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// join starts a member, as a static one if it has an instance id.
func (c *circle) join(instance string, options ...kgo.Opt) *fellow {
	c.t.Helper()
	c.made++
	m := &fellow{name: fmt.Sprint("member-", c.made), static: instance, gate: c.gate(), done: make(chan struct{})}
	options = append([]kgo.Opt{kgo.ConsumerGroup(c.name), kgo.ClientID(m.name), kgo.ConsumeTopics(c.topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.RebalanceTimeout(4 * time.Second),
		kgo.FetchMaxWait(100 * time.Millisecond)}, append(options, c.options...)...)
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if c.regex {
		options = append(options, kgo.ConsumeRegex())
	}
	m.client = c.client(m.gate, options...)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	c.members[m.name] = m
	c.running.Go(func() {
		defer close(m.done)
		for ctx.Err() == nil {
			c.turn(ctx, m)
		}
	})
	return m
}

// turn polls once, handles what came, and commits it.
func (c *circle) turn(ctx context.Context, m *fellow) {
	poll, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	fetches := m.client.PollRecords(poll, 100)
	cancel()
	defer m.client.AllowRebalance()
	id, generation := m.client.GroupMetadata()
	if m.static != "" {
		id = m.static
	}
	records := fetches.Records()
	if len(records) == 0 {
		return
	}
	c.mu.Lock()
	for _, r := range records {
		at := part{r.Topic, r.Partition}
		key := fmt.Sprintf("%s-%d in generation %d", r.Topic, r.Partition, generation)
		if owner, ok := c.owners[key]; ok && owner != id {
			c.fault("%s has the owners %s and %s", key, owner, id)
		}
		c.owners[key] = id
		if c.handled[at] == nil {
			c.handled[at] = map[int64]bool{}
		}
		c.handled[at][r.Offset] = true
		for c.handled[at][c.prefix[at]] {
			c.prefix[at]++
		}
	}
	c.mu.Unlock()
	commit, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if m.client.CommitRecords(commit, records...) != nil {
		return // somebody else will
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	for _, r := range records {
		at := part{r.Topic, r.Partition}
		c.committed[at] = max(c.committed[at], r.Offset+1)
		if c.committed[at] > c.prefix[at] {
			c.fault("%s has committed %d of %v, of which only %d are handled without a gap", m.name, c.committed[at], at,
				c.prefix[at])
		}
	}
}

// leave ends a member in good order.
func (c *circle) leave(m *fellow) {
	m.stop()
	<-m.done
	m.client.CloseAllowingRebalance()
	delete(c.members, m.name)
}

// crash ends a member that can tell nobody.
func (c *circle) crash(m *fellow) {
	m.gate.set(nil)
	m.gate.cut(true, c.random)
	m.stop()
	<-m.done
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.client.LeaveGroupContext(gone)
	m.client.CloseAllowingRebalance()
	delete(c.members, m.name)
}

// disturb ends the node in a way and starts it again.
func (c *circle) disturb(how func()) {
	for _, m := range c.members {
		m.gate.set(nil)
	}
	how()
	for _, m := range c.members {
		m.gate.cut(true, c.random)
	}
	c.node.Restart(c.t)
	for _, m := range c.members {
		m.gate.set(c.node.Dial)
	}
}

// goesOn waits until every partition has been read, and committed, beyond where it ends now.
func (c *circle) goesOn(what string) {
	c.t.Helper()
	c.checkCommitted(what)
	c.mu.Lock()
	want := maps.Clone(c.sent)
	for at := range want {
		want[at] += 5
	}
	c.mu.Unlock()
	c.await(what, want)
}

// parts wants one record of each partition of a topic.
func parts(topic string, n int32) map[part]int64 {
	out := map[part]int64{}
	for i := range n {
		out[part{topic, i}] = 1
	}
	return out
}

func (c *circle) await(what string, want map[part]int64) {
	c.t.Helper()
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		missing := ""
		for at, n := range want {
			if c.committed[at] < n {
				missing += fmt.Sprintf(" %v: %d of %d", at, c.committed[at], n)
			}
		}
		faults := slices.Clone(c.faults)
		c.mu.Unlock()
		switch {
		case len(faults) > 0:
			c.t.Fatalf("after %s: %v", what, faults)
		case missing == "":
			return
		case time.Now().After(deadline):
			c.t.Fatalf("after %s: the group does not go on:%s", what, missing)
		}
	}
}

// checkCommitted asks the node for what is committed: never less than what it has acknowledged.
func (c *circle) checkCommitted(what string) {
	c.t.Helper()
	c.mu.Lock()
	acknowledged := maps.Clone(c.committed)
	c.mu.Unlock()
	client := c.client(c.gate())
	defer client.Close()
	got, err := kadm.NewClient(client).FetchOffsets(c.t.Context(), c.name)
	for deadline := time.Now().Add(20 * time.Second); err != nil; got, err = kadm.NewClient(client).FetchOffsets(c.t.Context(), c.name) {
		if time.Now().After(deadline) {
			c.t.Fatalf("after %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond) // the coordinator is being loaded
	}
	for at, n := range acknowledged {
		if o, ok := got.Lookup(at.topic, at.partition); !ok || o.Err != nil || o.At < n {
			c.t.Fatalf("after %s: %v is committed to %d (%v, %v) and was to %d", what, at, o.At, ok, o.Err, n)
		}
	}
}

// finish stops the producer, waits until everything is committed, and ends the members.
func (c *circle) finish() {
	c.t.Helper()
	c.stop()
	time.Sleep(200 * time.Millisecond)
	c.mu.Lock()
	want := maps.Clone(c.sent)
	c.mu.Unlock()
	c.await("the end", want)
	for _, m := range slices.Collect(maps.Values(c.members)) {
		c.leave(m)
	}
	c.running.Wait()
	c.checkCommitted("all have left")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		c.t.Error(f)
	}
	total := int64(0)
	for at, n := range c.sent {
		total += n
		if c.prefix[at] < n {
			c.t.Errorf("%v: %d of %d were handled", at, c.prefix[at], n)
		}
	}
	c.t.Logf("%d records, %d commits, %d partitions in some generation", total, c.commits, len(c.owners))
}

// TestGroupRebalances: members join, leave and crash, topics grow, and the node is killed, loses power and is restarted under
// a live group of each protocol.
func TestGroupRebalances(t *testing.T) {
	for name, options := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCircle(t, "g", options, "t")
			c.create("t", 4)
			c.begin("t")
			first := c.join("")
			c.await("the first join", parts("t", 4))
			c.join("")
			third := c.join("")
			c.goesOn("joins")
			c.disturb(c.node.Kill)
			c.goesOn("a kill")
			c.leave(first)
			c.goesOn("a leave")
			if _, err := c.admin().UpdatePartitions(t.Context(), 7, "t"); err != nil {
				t.Fatal(err)
			}
			c.join("")
			c.await("growth", parts("t", 7))
			c.disturb(c.node.PowerCut)
			c.goesOn("a power cut")
			c.crash(third)
			c.goesOn("a crash")
			c.disturb(func() { c.node.Stop(t) })
			c.goesOn("a restart")
			c.join("") // in the middle of which the node dies
			c.disturb(c.node.Kill)
			c.goesOn("a kill during a rebalance")
			c.finish()
		})
	}
}

// TestGroupSubscriptions: members of one group subscribe to different topics, by name and by pattern, and a topic comes that
// the pattern matches.
func TestGroupSubscriptions(t *testing.T) {
	for name, options := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCircle(t, "g", options, "a-.*")
			c.regex = true
			c.create("a-1", 2)
			c.create("b", 2)
			c.begin("a-1")
			c.join("")
			c.await("a pattern", parts("a-1", 2))
			c.create("a-2", 3)
			c.stop()
			c.begin("a-1", "a-2")
			if name == "server" {
				// Patterns are looked at again ten seconds after the last time at the earliest, unless a new one comes.
				c.topics = []string{"a-1|a-2"}
			}
			c.join("")
			c.await("a topic that a pattern matches", parts("a-2", 3))
			c.regex, c.topics = false, []string{"b"}
			other := c.join("")
			c.stop()
			c.begin("a-1", "a-2", "b")
			c.await("another subscription", parts("b", 2))
			c.goesOn("another subscription")
			other.client.AddConsumeTopics("a-2")
			c.goesOn("a subscription that changed")
			c.finish()
		})
	}
}

// TestRebalanceStorm is scenario 33: members come, go, crash and are replaced without a pause; then the group is stable within
// two session timeouts.
func TestRebalanceStorm(t *testing.T) {
	for name, options := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCircle(t, "g", options, "t")
			c.create("t", 6)
			c.begin("t")
			static := c.join("s-1")
			c.join("s-2")
			for range 12 {
				time.Sleep(time.Duration(c.random.IntN(150)) * time.Millisecond)
				all := slices.Sorted(maps.Keys(c.members))
				m := c.members[all[c.random.IntN(len(all))]]
				switch n := c.random.IntN(5); {
				case n == 0 && m != static && len(all) > 3:
					c.leave(m)
				case n == 1 && m != static && len(all) > 3:
					c.crash(m)
				case n == 2: // restarted at once: another process with the same instance id
					c.crash(static)
					static = c.join("s-1")
				default:
					c.join("")
				}
			}
			began := time.Now()
			c.goesOn("the storm")
			took := time.Since(began)
			if took > 20*time.Second { // two session timeouts of 3 s, on a machine that does other things
				t.Errorf("the group was stable after %v", took)
			}
			t.Logf("stable after %v with %d members", took.Round(time.Millisecond), len(c.members))
			c.finish()
		})
	}
}
