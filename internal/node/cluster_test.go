package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/edge/vnet"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// testCluster is a cluster in one process.
type testCluster struct {
	t     *testing.T
	net   *vnet.Network
	ids   []kafka.NodeID
	fs    map[kafka.NodeID]*vfs.Mem
	nodes map[kafka.NodeID]*Node
	// starting guards nodes while several start side by side.
	starting sync.Mutex
	// settings gives the configuration of a node.
	settings func(kafka.NodeID) map[string]string
	// list, when set, is what --cluster says; its entries are n1:9092 and so on.
	list string
	// now is the clock of all nodes; nil: the machine's.
	now func() time.Time
}

// waits bounds how long a test waits for something. It is long, because the machine may be busy.
const waits = 60 * time.Second

// quickQuorum are settings that make elections short.
func quickQuorum() map[string]string {
	return map[string]string{
		"log.dirs": "/data", "controller.quorum.election.timeout.ms": "150", "controller.quorum.fetch.timeout.ms": "400",
		"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100",
	}
}

// staticCluster describes nodes 1 to n that have both roles and stand in controller.quorum.voters. start starts them.
func staticCluster(t *testing.T, n int, more ...string) *testCluster {
	c := &testCluster{t: t, net: vnet.New(), fs: map[kafka.NodeID]*vfs.Mem{}, nodes: map[kafka.NodeID]*Node{}}
	var voters []string
	for i := range n {
		id := kafka.NodeID(i + 1)
		c.ids = append(c.ids, id)
		c.fs[id] = vfs.NewMem(vfs.MemOptions{})
		voters = append(voters, fmt.Sprintf("%d@n%d:9093", id, id))
	}
	c.settings = func(id kafka.NodeID) map[string]string {
		out := quickQuorum()
		out["node.id"] = fmt.Sprint(id)
		out["listeners"] = fmt.Sprintf("PLAINTEXT://n%d:9092,CONTROLLER://n%d:9093", id, id)
		out["advertised.listeners"] = fmt.Sprintf("PLAINTEXT://n%d:9092", id)
		out["controller.quorum.voters"] = strings.Join(voters, ",")
		for _, kv := range more {
			k, v, _ := strings.Cut(kv, "=")
			out[k] = v
		}
		return out
	}
	t.Cleanup(c.end)
	return c
}

// start starts nodes side by side, all when none is named, and waits until they serve.
func (c *testCluster) start(ids ...kafka.NodeID) {
	c.t.Helper()
	if len(ids) == 0 {
		ids = c.ids
	}
	var all sync.WaitGroup
	for _, id := range ids {
		fs := c.fs[id]
		all.Go(func() {
			n, err := c.begin(id, fs)
			c.starting.Lock()
			defer c.starting.Unlock()
			if err != nil {
				c.t.Errorf("node %d: %v", id, err)
				return
			}
			c.nodes[id] = n
		})
	}
	all.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *testCluster) begin(id kafka.NodeID, fs vfs.FS) (*Node, error) {
	static, err := c.config(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waits)
	defer cancel()
	logger := slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("node", id)
	listen := func(address string) (net.Listener, error) { return c.net.Listen(vnet.Host(id), address) }
	return Start(ctx, Options{Config: static, FS: fs, Log: logger, NoAdmin: true, Now: c.now, Dial: c.net.Dialer(vnet.Host(id)),
		Listen: listen})
}

func (c *testCluster) config(id kafka.NodeID) (*config.Static, error) {
	layers, nodes := []config.Layer{config.MapLayer("test", c.settings(id))}, 0
	if c.list != "" {
		layer, size, err := config.Cluster(c.list, config.ClusterOptions{Listen: fmt.Sprintf("n%d:9092", id)})
		if err != nil {
			return nil, err
		}
		layers, nodes = append([]config.Layer{layer}, layers...), size
	}
	return config.Load(layers, config.Options{Nodes: nodes})
}

func (c *testCluster) end() {
	for _, n := range c.nodes {
		n.Kill()
	}
}

// kill stops a node as a crash would; its disk keeps what was written. Started again, it finds it.
func (c *testCluster) kill(id kafka.NodeID) {
	n := c.nodes[id]
	delete(c.nodes, id)
	c.fs[id].Crash()
	n.Kill()
	c.fs[id] = c.fs[id].KillClone()
}

// isolate cuts a node off from all others, whose connections to it break; heal ends that.
func (c *testCluster) isolate(id kafka.NodeID) {
	for _, o := range c.ids {
		if o != id {
			c.net.Cut(vnet.Host(id), vnet.Host(o))
			c.net.Cut(vnet.Host(o), vnet.Host(id))
			c.net.Break(vnet.Host(id), vnet.Host(o))
		}
	}
}

// stop stops a node in good order.
func (c *testCluster) stop(id kafka.NodeID) {
	c.t.Helper()
	n := c.nodes[id]
	delete(c.nodes, id)
	ctx, cancel := context.WithTimeout(context.Background(), waits)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		c.t.Errorf("node %d stops: %v", id, err)
	}
}

// active gives the node whose controller is in office, once all that run agree on it.
func (c *testCluster) active() kafka.NodeID {
	c.t.Helper()
	var leader kafka.NodeID
	c.eventually("the nodes agree on a controller", func() bool {
		leader = kafka.NoNode
		for _, n := range c.nodes {
			at := n.control.exchange.inOffice()
			if at.leader == kafka.NoNode || leader != kafka.NoNode && at.leader != leader {
				return false
			}
			leader = at.leader
		}
		return c.nodes[leader] != nil
	})
	return leader
}

// eventually waits until something is so.
func (c *testCluster) eventually(what string, so func() bool) {
	c.t.Helper()
	for end := time.Now().Add(waits); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", waits, what)
		}
	}
}

// other gives a running node that is not the given one.
func (c *testCluster) other(than kafka.NodeID) kafka.NodeID {
	for _, id := range c.ids {
		if id != than && c.nodes[id] != nil {
			return id
		}
	}
	c.t.Fatal("there is no other node")
	return kafka.NoNode
}

// ask sends a request to a node's client listener, as a client does.
func ask[R kmsg.Response](c *testCluster, id kafka.NodeID, r kmsg.Request) R {
	c.t.Helper()
	conn, err := c.net.Dialer(vnet.Outside)(c.t.Context(), "tcp", fmt.Sprintf("n%d:9092", id))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waits))
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, r, 7)); err != nil {
		c.t.Fatal(err)
	}
	resp := r.ResponseKind()
	if err := readResponse(conn, r, resp); err != nil {
		c.t.Fatalf("node %d, %s: %v", id, kmsg.NameForKey(r.Key()), err)
	}
	return resp.(R)
}

func readResponse(conn net.Conn, r kmsg.Request, resp kmsg.Response) error {
	head := make([]byte, 4)
	if _, err := readFull(conn, head); err != nil {
		return err
	}
	body := make([]byte, int(head[0])<<24|int(head[1])<<16|int(head[2])<<8|int(head[3]))
	if _, err := readFull(conn, body); err != nil {
		return err
	}
	skip := 4
	if r.IsFlexible() && r.Key() != int16(kmsg.ApiVersions) {
		skip = 5
	}
	resp.SetVersion(r.GetVersion())
	return resp.ReadFrom(body[skip:])
}

func readFull(conn net.Conn, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k, err := conn.Read(b[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// create makes a topic through a node and checks that the node shows it when it has answered.
func (c *testCluster) create(via kafka.NodeID, topic string, partitions int32, factor int16) {
	c.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 10_000
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic, x.NumPartitions, x.ReplicationFactor = topic, partitions, factor
	r.Topics = append(r.Topics, x)
	resp := ask[*kmsg.CreateTopicsResponse](c, via, r)
	if code := kafka.Code(resp.Topics[0].ErrorCode); code != kafka.None {
		c.t.Fatalf("topic %s through node %d: %s", topic, via, code.Name())
	}
	if _, ok := c.nodes[via].publisher.Image().Topic(topic); !ok {
		c.t.Errorf("node %d has answered and does not show topic %s", via, topic)
	}
}

// deleteTopic removes a topic through a node.
func (c *testCluster) deleteTopic(via kafka.NodeID, topic string) {
	c.t.Helper()
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version, r.TimeoutMillis = 6, 10_000
	x := kmsg.NewDeleteTopicsRequestTopic()
	x.Topic = &topic
	r.Topics = append(r.Topics, x)
	resp := ask[*kmsg.DeleteTopicsResponse](c, via, r)
	if code := kafka.Code(resp.Topics[0].ErrorCode); code != kafka.None {
		c.t.Fatalf("topic %s is not removed through node %d: %s", topic, via, code.Name())
	}
}

// TestThreeVoters: three nodes elect a controller, make a topic through any of them, lose the leader and go on; who comes
// back joins again.
func TestThreeVoters(t *testing.T) {
	c := staticCluster(t, 3)
	began := time.Now()
	c.start()
	t.Logf("serving after %v", time.Since(began))
	leader := c.active()
	for _, id := range c.ids {
		c.create(id, fmt.Sprintf("topic-%d", id), 3, 3)
	}
	began = time.Now()
	c.kill(leader)
	next := c.active()
	t.Logf("another leader after %v", time.Since(began))
	if next == leader {
		t.Fatal("the dead node leads")
	}
	c.create(next, "after", 1, 2)
	c.create(c.other(next), "later", 1, 2)
	t.Logf("topics made after %v", time.Since(began))
	c.start(leader)
	for _, id := range c.ids {
		c.eventually("every node shows everything", func() bool {
			return c.nodes[id].publisher.Image().TopicCount() == 5
		})
	}
}
