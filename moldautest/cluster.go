package moldautest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/config"
	"moldau/internal/edge/vnet"
	"moldau/internal/node"
	"moldau/internal/storage/vfs"
)

// Machines is a cluster in one test: nodes 1 to n, each on a machine of its own with a disk, a clock and a place in a
// virtual network, all of which fail on command. Its methods fail the test instead of returning errors, so that those
// that wait belong to the test's goroutine. All are safe for concurrent use otherwise.
type Machines struct {
	t       testing.TB
	setup   *setup
	network *vnet.Network
	list    string // as after --cluster
	all     map[int32]*member
	fronts  *fronts        // nil without Loopback
	work    sync.WaitGroup // goroutines that watch nodes; they end with these

	mu    sync.Mutex
	admin *kgo.Client
}

// member is one node of a cluster with its machine.
type member struct {
	id      int32
	address string
	clock   clock
	live    atomic.Pointer[node.Node] // while it serves

	ops     sync.Mutex // held while the node is started or ended
	machine machine
	ended   chan struct{} // closed when the running node was ended

	mu     sync.Mutex   // for what follows; taken after ops
	faults *vfs.FaultFS // what the running node sees; nil: it does not run
	rules  []string     // of faults, for as long as the disk is not mended
	failed error
}

// Clients stands for everybody outside the cluster where the network is cut.
const Clients int32 = int32(vnet.Outside)

// quick are settings under which a test need not wait long until something is noticed. Config overrides them.
func quick() map[string]string {
	return map[string]string{
		"log.dirs": "/data", "controller.quorum.election.timeout.ms": "250", "controller.quorum.fetch.timeout.ms": "700",
		"controller.quorum.request.timeout.ms": "700",
		"broker.session.timeout.ms":            "1500", "broker.heartbeat.interval.ms": "150",
	}
}

// Cluster starts nodes 1 to n on empty disks in memory. They find each other and become a cluster as those do that are
// started with moldau serve --cluster; it is ready when Cluster returns, and ends with the test.
//
// Elections and sessions are shorter than the defaults; Config sets them, as everything else.
func Cluster(t testing.TB, n int, options ...Option) *Machines {
	t.Helper()
	c := &Machines{t: t, setup: settle(options, quick()), network: vnet.New(), all: map[int32]*member{}}
	if c.setup.loopback {
		c.fronts = newFronts(c.network)
	}
	var list []string
	for id := int32(1); id <= int32(n); id++ {
		m := &member{id: id, address: fmt.Sprintf("n%d:9092", id),
			machine: machine{fs: vfs.NewMem(vfs.MemOptions{}), random: c.setup.random}}
		if c.fronts != nil {
			var err error
			if m.address, err = c.fronts.open(); err != nil {
				t.Fatal(err)
			}
		}
		c.all[id] = m
		list = append(list, m.address)
	}
	c.list = strings.Join(list, ",")
	t.Cleanup(c.end)
	c.Start()
	return c
}

// end ends everything.
func (c *Machines) end() {
	c.Kill()
	c.work.Wait()
	if c.fronts != nil {
		c.fronts.close()
	}
}

// IDs lists the nodes, running or not.
func (c *Machines) IDs() []int32 { return slices.Sorted(maps.Keys(c.all)) }

// Brokers are what clients use as bootstrap servers: together with Dial, or by themselves with Loopback.
func (c *Machines) Brokers() []string { return strings.Split(c.list, ",") }

// Dial connects to a node through the virtual network, as somebody outside the cluster. It fits kgo.Dialer.
func (c *Machines) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.network.ClientDialer()(ctx, network, address)
}

// dialBriefly is Dial for clients that try other nodes when one without power does not answer.
func (c *Machines) dialBriefly(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return c.Dial(ctx, network, address)
}

// Client makes a client of the cluster that is closed when the test ends. It goes through the virtual network and tries
// again for as long as it is asked to, so that tests do not depend on how long a fault lasts.
func (c *Machines) Client(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(c.Brokers()...), kgo.Dialer(c.dialBriefly), kgo.MetadataMinAge(minAge),
		kgo.RetryBackoffFn(backoff), kgo.RequestRetries(manyTries), kgo.RetryTimeout(patience),
		kgo.RequestTimeoutOverhead(silence), kgo.ProduceRequestTimeout(silence)}, options...)
	cl, err := kgo.NewClient(options...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// Start starts nodes side by side, all that do not run when none is named, and waits until they serve. A machine that had
// no power has it again. Nodes that only together are a majority must be started together.
func (c *Machines) Start(ids ...int32) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.TryStart(ctx, ids...); err != nil {
		c.t.Fatal(err)
	}
}

// TryStart is Start with the errors of nodes that do not start, or do not serve before ctx ends.
func (c *Machines) TryStart(ctx context.Context, ids ...int32) error {
	which := c.which(ids)
	errs := make([]error, len(which))
	var work sync.WaitGroup
	for i, m := range which {
		if len(ids) == 0 && m.running() {
			continue
		}
		work.Go(func() {
			if err := c.start(ctx, m); err != nil {
				errs[i] = fmt.Errorf("node %d does not start: %w", m.id, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

func (c *Machines) start(ctx context.Context, m *member) error {
	m.ops.Lock()
	defer m.ops.Unlock()
	if m.machine.node != nil {
		return errors.New("it runs")
	}
	static, err := c.config(m)
	if err != nil {
		return err
	}
	faults, err := m.plug()
	if err != nil {
		return err
	}
	at := vnet.Host(m.id)
	c.network.Dark(at, false)
	logger := slog.New(slog.NewTextHandler(c.t.Output(), nil)).With("node", m.id)
	err = m.machine.start(ctx, faults, node.Options{Config: static, Log: logger, Now: m.clock.now, Dial: c.network.Dialer(at),
		Listen: func(address string) (net.Listener, error) { return c.network.Listen(at, address) }})
	if err != nil {
		return err
	}
	m.live.Store(m.machine.node)
	n, ended := m.machine.node, make(chan struct{})
	m.ended = ended
	c.work.Go(func() { m.watch(n, ended) })
	return nil
}

// plug connects the disk, with the faults it has. The caller holds ops.
func (m *member) plug() (*vfs.FaultFS, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	m.failed = nil
	m.faults, err = vfs.Faulty(m.machine.fs, strings.Join(m.rules, "\n"))
	return m.faults, err
}

// config are the settings of a node.
func (c *Machines) config(m *member) (*config.Static, error) {
	layer, nodes, err := config.Cluster(c.list, config.ClusterOptions{Listen: m.address})
	if err != nil {
		return nil, err
	}
	return config.Load([]config.Layer{layer, config.MapLayer("moldautest.Config", c.setup.config),
		config.MapLayer("moldautest.NodeConfig", c.setup.ofNode[m.id])}, config.Options{Nodes: nodes})
}

// watch ends a node that cannot go on, as the program that runs it does, until ended is closed.
func (m *member) watch(n *node.Node, ended chan struct{}) {
	select {
	case <-ended:
		return
	case <-n.Failed():
	}
	m.ops.Lock()
	defer m.ops.Unlock()
	if m.machine.node != n {
		return
	}
	m.mu.Lock()
	m.failed = n.Err()
	m.mu.Unlock()
	m.end(func(x *machine) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = x.stop(ctx) // says the failure again
	})
}

// end ends the node if it runs. how is called in any case. The caller holds ops.
func (m *member) end(how func(*machine)) {
	if m.live.Swap(nil) != nil {
		close(m.ended)
	}
	how(&m.machine)
	m.mu.Lock()
	m.faults = nil
	m.mu.Unlock()
}

func (m *member) running() bool { return m.live.Load() != nil }

// which finds members in the order of their ids; all of them when none is named.
func (c *Machines) which(ids []int32) []*member {
	if len(ids) == 0 {
		ids = c.IDs()
	}
	var out []*member
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		out = append(out, c.member(id))
	}
	return out
}

func (c *Machines) member(id int32) *member {
	m := c.all[id]
	if m == nil {
		panic(fmt.Sprintf("moldautest: there is no node %d", id))
	}
	return m
}

// Stop stops nodes in good order, side by side; all that run when none is named.
func (c *Machines) Stop(ids ...int32) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var work sync.WaitGroup
	for _, m := range c.which(ids) {
		work.Go(func() {
			m.ops.Lock()
			defer m.ops.Unlock()
			m.end(func(x *machine) {
				if err := x.stop(ctx); err != nil {
					c.t.Errorf("node %d did not stop cleanly: %v", m.id, err)
				}
			})
		})
	}
	work.Wait()
}

// Restart stops nodes in good order and starts them again, one after the other; all when none is named.
func (c *Machines) Restart(ids ...int32) {
	c.t.Helper()
	for _, m := range c.which(ids) {
		c.Stop(m.id)
		c.Start(m.id)
	}
}

// Kill ends nodes as kill -9 does, all when none is named: the machines go on, so that their page caches survive, and
// whoever has a connection to them is told that it ended.
func (c *Machines) Kill(ids ...int32) {
	for _, m := range c.which(ids) {
		m.ops.Lock()
		m.end((*machine).kill)
		m.ops.Unlock()
	}
}

// PowerCut ends nodes as a power cut of their machines does, all at once when none is named: of what was not synced, any
// part may be lost or torn, and nobody is told anything until the machine is started again.
func (c *Machines) PowerCut(ids ...int32) {
	which := c.which(ids)
	for _, m := range which {
		m.ops.Lock()
		defer m.ops.Unlock()
	}
	for _, m := range which {
		c.network.Dark(vnet.Host(m.id), true)
		m.machine.fs.Crash()
	}
	for _, m := range which {
		m.end((*machine).powerCut)
	}
}

// Running says whether a node runs. One that cannot go on, because its disk failed, has ended by itself.
func (c *Machines) Running(id int32) bool { return c.member(id).running() }

// Failure is why a node ended by itself; nil if it did not.
func (c *Machines) Failure(id int32) error {
	m := c.member(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// Partition cuts the network between two groups of nodes, both ways: what is sent is lost, connections stay open and
// nobody is told. Clients may be one of the nodes.
func (c *Machines) Partition(a, b []int32) {
	c.PartitionOneWay(a, b)
	c.PartitionOneWay(b, a)
}

// PartitionOneWay cuts the network in one direction: what from sends does not reach to.
func (c *Machines) PartitionOneWay(from, to []int32) {
	for _, f := range from {
		for _, t := range to {
			if f != t {
				c.network.Cut(vnet.Host(f), vnet.Host(t))
			}
		}
	}
}

// Isolate cuts a node off from all others. Clients still reach it.
func (c *Machines) Isolate(id int32) { c.Partition([]int32{id}, c.IDs()) }

// Heal mends the network. What was under way arrives.
func (c *Machines) Heal() { c.network.Heal() }
