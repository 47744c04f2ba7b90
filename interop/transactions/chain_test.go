package transactions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/process"
)

const (
	chainRecords    = 1500
	chainPartitions = 4
	chainWorkers    = 2 // for each stage
)

// chainTopics are what the stages read and write.
var chainTopics = []string{"orders", "checked", "priced", "billed"}

// balancers are the ways in which the workers share partitions out.
var balancers = map[string][]kgo.Opt{
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"roundrobin":         {kgo.Balancers(kgo.RoundRobinBalancer())},
	"sticky":             {kgo.Balancers(kgo.StickyBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"server-uniform":     {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
}

// chainEnv makes the test program a worker: address, stage, slot and balancer.
const chainEnv = "TRANSACTIONS_WORKER"

func TestMain(m *testing.M) {
	if w := os.Getenv(chainEnv); w != "" {
		fmt.Fprintln(os.Stderr, work(strings.Fields(w)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// work reads a topic, and writes what it read to the next one together with its offsets, one transaction after another,
// until something goes wrong or it is killed.
func work(args []string) error {
	addr, slot, balancer := args[0], args[2], args[3]
	stage, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{kgo.SeedBrokers(addr),
		kgo.TransactionalID(fmt.Sprint("stage-", stage, "-", slot)), kgo.TransactionTimeout(10 * time.Second),
		kgo.ConsumerGroup(fmt.Sprint("stage-", stage)), kgo.ConsumeTopics(chainTopics[stage]),
		kgo.DefaultProduceTopic(chainTopics[stage+1]), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond), kgo.RebalanceTimeout(10 * time.Second),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond)}, balancers[balancer]...)...)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		rs := s.PollRecords(ctx, 20).Records()
		if len(rs) == 0 {
			continue
		}
		if err := s.Begin(); err != nil {
			return err
		}
		for _, r := range rs {
			s.Produce(ctx, &kgo.Record{Key: r.Key, Value: append(r.Value, byte('0'+stage))}, nil)
		}
		if _, err := s.End(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
}

// chain is the workers of all stages.
type chain struct {
	t        *testing.T
	n        *process.Node
	balancer string
	running  map[string]*exec.Cmd
	killed   int
}

func (c *chain) start(stage, slot int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %s", chainEnv, c.n.Addr, stage, slot, c.balancer))
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.running[fmt.Sprint(stage, slot)] = cmd
}

// kill ends a worker with signal 9, or finds it ended.
func (c *chain) kill(stage, slot int) {
	cmd := c.running[fmt.Sprint(stage, slot)]
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.killed++
}

// TestChain moves records through three stages, each a group of programs that read and write in transactions. Programs are
// killed all the time and the broker twice; each record arrives once.
func TestChain(t *testing.T) {
	for name := range balancers {
		if testing.Short() && name != "cooperative-sticky" && name != "server-uniform" {
			continue
		}
		t.Run(name, func(t *testing.T) { runChain(t, name) })
	}
}

func runChain(t *testing.T, balancer string) {
	n := broker.Start(t, "group.min.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=200",
		"group.consumer.session.timeout.ms=3000", "group.consumer.assignment.interval.ms=0")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cl := client(t, n)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, chainPartitions, 1, nil, chainTopics...); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano() % 100000)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := &chain{t: t, n: n, balancer: balancer, running: map[string]*exec.Cmd{}}
	for stage := range len(chainTopics) - 1 {
		for slot := range chainWorkers {
			c.start(stage, slot)
			defer c.kill(stage, slot)
		}
	}
	written := make(chan error, 1)
	go func() { written <- writeOrders(ctx, cl) }()
	for round, through := 0, 0; through < chainRecords; round++ {
		if ctx.Err() != nil {
			t.Fatalf("%d records have come through", through)
		}
		stage, slot := rnd.IntN(len(chainTopics)-1), rnd.IntN(chainWorkers)
		c.kill(stage, slot)
		if round == 3 || round == 6 {
			n.Kill()
			n.Start(t)
		}
		c.start(stage, slot)
		time.Sleep(time.Duration(500+rnd.IntN(2000)) * time.Millisecond)
		through = len(billed(ctx, t, n))
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range billed(ctx, t, n) {
		counts[string(r.Key)]++
		if string(r.Value) != "v012" {
			t.Errorf("%s came as %s", r.Key, r.Value)
		}
	}
	for i := range chainRecords {
		if n := counts[fmt.Sprint(i)]; n != 1 {
			t.Errorf("record %d came %d times", i, n)
		}
	}
	t.Logf("%d programs were killed", c.killed)
}

// writeOrders writes the first topic, slowly, so that there is work while programs come and go.
func writeOrders(ctx context.Context, cl *kgo.Client) error {
	for i := range chainRecords {
		cl.Produce(ctx, &kgo.Record{Topic: chainTopics[0], Key: fmt.Append(nil, i), Value: []byte("v")}, nil)
		if i%10 == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return cl.Flush(ctx)
}

// billed reads what is committed in the last topic.
func billed(ctx context.Context, t *testing.T, n *process.Node) []*kgo.Record {
	t.Helper()
	topic := chainTopics[len(chainTopics)-1]
	cl := client(t, n, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	var out []*kgo.Record
	for {
		missing := false
		ends.Each(func(o kadm.ListedOffset) { missing = missing || at[o.Partition] < o.Offset })
		if !missing {
			return out
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
}
