//go:build unix

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// controllerStep is how far a controller's port lies above the one for clients when a cluster is given by its addresses.
const controllerStep = 1000

// Options say what a cluster consists of.
type Options struct {
	Dir      string // of outputs, and of data unless Data says otherwise
	Binary   string
	Nodes    int      // 0: three
	Settings []string // key=value for every node
	// Data gives the log directory of a node; nil: below Dir.
	Data func(id int) string
	Log  func(format string, args ...any)
}

// Cluster is a cluster of processes, founded from a list of addresses as users do it.
type Cluster struct {
	Nodes []*Node // by id, from 1, at index id-1
	Links *Links
	log   func(format string, args ...any)
	began time.Time
}

// Defaults are settings that make everything happen sooner: new segments and snapshots, few partitions of internal topics, an
// impatient leader.
func Defaults() []string {
	return []string{"log.segment.bytes=1048576", "offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3",
		"group.initial.rebalance.delay.ms=0", "replica.lag.time.max.ms=4000", "moldau.admin.listener=",
		"moldau.disk.reserve.bytes=1048576", "auto.create.topics.enable=false", "moldau.drain.timeout.ms=2000",
		"log.initial.task.delay.ms=2000", "log.roll.ms=1500", "metadata.log.max.record.bytes.between.snapshots=16384",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"}
}

// New makes a cluster and starts nothing.
func New(o Options) (*Cluster, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	c := &Cluster{Links: newLinks(), log: o.Log, began: time.Now()}
	fronts, err := frontPorts(o.Nodes)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, p := range fronts {
		list = append(list, fmt.Sprint("127.0.0.1:", p))
	}
	for i, front := range fronts {
		n, err := c.newNode(o, i+1, front, list)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c, nil
}

func (c *Cluster) newNode(o Options, id, front int, list []string) (*Node, error) {
	dir := filepath.Join(o.Dir, fmt.Sprint("node-", id))
	n := &Node{ID: id, Binary: o.Binary, Data: filepath.Join(dir, "data"), Output: filepath.Join(dir, "output"), cluster: c}
	if o.Data != nil {
		n.Data = o.Data(id)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var backends []string
	for _, port := range []int{front, front + controllerStep} {
		behind, err := freePort()
		if err != nil {
			return nil, err
		}
		backends = append(backends, fmt.Sprint("127.0.0.1:", behind))
		n.entries = append(n.entries, &entry{links: c.Links, node: id, port: port, backend: backends[len(backends)-1]})
	}
	n.args = []string{"serve", "--cluster", strings.Join(list, ","), "--listen", list[id-1], "--data-dir", n.Data,
		"--set", "listeners=PLAINTEXT://" + backends[0] + ",CONTROLLER://" + backends[1]}
	for _, s := range append(Defaults(), o.Settings...) {
		n.args = append(n.args, "--set", s)
	}
	return n, nil
}

// The ports lie below those that the kernel gives to outgoing connections, so that they stay free while a node is down.
const (
	lowestPort  = 10_000
	highestPort = 31_000
)

func freePort() (int, error) {
	for range 1000 {
		p := lowestPort + rand.IntN(highestPort-lowestPort)
		if isFree(p) {
			return p, nil
		}
	}
	return 0, errors.New("no free port")
}

// frontPorts gives ascending ports, those controllerStep above them being free too: nodes are numbered in that order.
func frontPorts(n int) ([]int, error) {
	var out []int
	for range 1000 {
		p := lowestPort + rand.IntN(highestPort-lowestPort-controllerStep)
		taken := slices.ContainsFunc(out, func(q int) bool { return q == p || q == p+controllerStep || q == p-controllerStep })
		if !taken && isFree(p) && isFree(p+controllerStep) {
			out = append(out, p)
		}
		if len(out) == n {
			slices.Sort(out)
			return out, nil
		}
	}
	return nil, errors.New("no free ports")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Logf writes to the test's log with the time since the cluster was made.
func (c *Cluster) Logf(format string, args ...any) {
	if c.log != nil {
		c.log("%7.3f  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// Start starts all nodes that do not run.
func (c *Cluster) Start() error {
	for _, n := range c.Nodes {
		if !n.Running() {
			if err := n.Start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close kills what runs and ends the relays.
func (c *Cluster) Close() {
	for _, n := range c.Nodes {
		n.Kill()
	}
	c.Links.close()
}

// Stop stops all nodes in good order, all at once.
func (c *Cluster) Stop() error {
	errs := make([]error, len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() { errs[i] = n.Stop() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Seeds are the addresses that clients use.
func (c *Cluster) Seeds() []string {
	var out []string
	for _, n := range c.Nodes {
		out = append(out, fmt.Sprint("127.0.0.1:", n.entries[0].port))
	}
	return out
}

// Client makes a client that does not give up and finds new leaders soon.
func (c *Cluster) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(c.options(), opts...)...)
}

func (c *Cluster) options() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(c.Seeds()...), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(5 * time.Second), kgo.RequestRetries(1 << 20), kgo.RetryTimeout(time.Hour),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.AlwaysRetryEOF()}
}

// admin runs f with an administrator's client.
func (c *Cluster) admin(f func(*kgo.Client, *kadm.Client) error) error {
	cl, err := c.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return f(cl, kadm.NewClient(cl))
}

// CreateTopic creates a topic with a replica on every node, as soon as that can be done.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, partitions int32, config map[string]*string) error {
	return c.admin(func(_ *kgo.Client, a *kadm.Client) error {
		for {
			_, err := a.CreateTopic(ctx, partitions, int16(len(c.Nodes)), config, topic)
			if err == nil || strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("topic %s: %w", topic, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// Leader gives the node that leads a partition as the brokers tell it; 0: nobody, or nobody answers.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int32) int {
	leader := 0
	_ = c.admin(func(_ *kgo.Client, a *kadm.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		all, err := a.ListTopics(ctx, topic)
		if err == nil {
			leader = max(0, int(all[topic].Partitions[partition].Leader))
		}
		return err
	})
	return leader
}

// Controller gives the node that is the active controller; 0: nobody, or nobody answers.
func (c *Cluster) Controller(ctx context.Context) int {
	leader := 0
	_ = c.admin(func(cl *kgo.Client, _ *kadm.Client) error {
		q, err := c.quorum(ctx, cl)
		if err == nil {
			leader = max(0, int(q.LeaderID))
		}
		return err
	})
	return leader
}

func (c *Cluster) quorum(ctx context.Context, cl *kgo.Client) (kmsg.DescribeQuorumResponseTopicPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return kmsg.DescribeQuorumResponseTopicPartition{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return kmsg.DescribeQuorumResponseTopicPartition{}, errors.New("nobody describes the quorum")
	}
	return resp.Topics[0].Partitions[0], nil
}

// Settled waits until every node votes and every partition has a leader and all its replicas in sync, one on each node if it
// is to be whole. The error says what is stuck.
func (c *Cluster) Settled(ctx context.Context, whole bool) error {
	return c.admin(func(cl *kgo.Client, a *kadm.Client) error {
		why, began := "nobody was asked", time.Now()
		for {
			for _, n := range c.Nodes {
				if err := n.Ended(); err != nil {
					return err
				}
			}
			before := why
			if why = c.unsettled(ctx, cl, a, whole); why == "" {
				if took := time.Since(began); took > 5*time.Second {
					c.Logf("  settled after %v, the last to come: %.300s", took.Round(time.Millisecond), before)
				}
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.New("the cluster does not settle: " + cmp.Or(before, why)) // the last may be that time is up
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// silent says that a voter has not fetched for a while. One whose disk is lost stays a voter until the new one is caught up,
// and is told of as an observer for minutes after that.
func silent(leader int32) func(kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
	since := time.Now().Add(-2 * time.Second).UnixMilli()
	return func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
		return v.ReplicaID != leader && v.LastFetchTimestamp < since
	}
}

func (c *Cluster) unsettled(ctx context.Context, cl *kgo.Client, a *kadm.Client, whole bool) string {
	for _, n := range c.Nodes {
		if !n.Serving() {
			return fmt.Sprintf("node %d does not serve", n.ID)
		}
	}
	q, err := c.quorum(ctx, cl)
	switch {
	case err != nil:
		return err.Error()
	case q.LeaderID <= 0 || len(q.CurrentVoters) != len(c.Nodes) || slices.ContainsFunc(q.CurrentVoters, silent(q.LeaderID)):
		return fmt.Sprintf("the quorum is %+v", q)
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	m, err := a.Metadata(limited)
	if err != nil {
		return err.Error()
	}
	if len(m.Brokers) != len(c.Nodes) {
		return fmt.Sprintf("%d brokers serve", len(m.Brokers))
	}
	var stuck []string
	for _, t := range m.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if p.Leader <= 0 || p.Err != nil || len(p.ISR) != len(p.Replicas) || whole && len(p.ISR) != len(c.Nodes) {
				stuck = append(stuck, fmt.Sprintf("%s-%d: leader %d, epoch %d, in sync %v of %v, %v", t.Topic, p.Partition,
					p.Leader, p.LeaderEpoch, p.ISR, p.Replicas, p.Err))
			}
		}
	}
	return strings.Join(stuck, "; ")
}
