package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
	"moldau/interop/raw"
)

const (
	size = 3
	// controllerStep lies between the port of a node's clients and that of its controller, as serve --cluster has it.
	controllerStep = 1000
	// waitLimit is how long anything that is waited for may take.
	waitLimit = 2 * time.Minute
)

// trio is three nodes with both roles, whose ids are 1 to 3.
type trio struct {
	nodes map[int32]*process.Node
	ports map[int32]int
	// kafka tells that they are Apache Kafka's.
	kafka bool
}

func (c *trio) ids() []int32 { return slices.Sorted(maps.Keys(c.nodes)) }

func (c *trio) addr(id int32) string { return fmt.Sprintf("127.0.0.1:%d", c.ports[id]) }

func (c *trio) controller(id int32) string {
	return fmt.Sprintf("127.0.0.1:%d", c.ports[id]+controllerStep)
}

// all are the addresses of all nodes.
func (c *trio) all() string {
	var out []string
	for _, id := range c.ids() {
		out = append(out, c.addr(id))
	}
	return strings.Join(out, ",")
}

// settings of a node on either side: small internal topics, nothing that moves leaders by itself, and an election that node
// 1 wins.
func settings(id int32) map[string]string {
	out := map[string]string{
		"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3",
		"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
		"transaction.state.log.min.isr": "2", "default.replication.factor": "1", "num.partitions": "1",
		"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false", "log.retention.ms": "-1",
		"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000",
		"group.initial.rebalance.delay.ms": "0", "controller.quorum.fetch.timeout.ms": "10000",
	}
	if id != 1 {
		out["controller.quorum.election.timeout.ms"] = "5000"
	}
	return out
}

// start starts three new nodes of Moldau, or of Apache Kafka, and waits until all are in service.
func start(t testing.TB, ofKafka bool, config map[string]string) *trio {
	t.Helper()
	c := &trio{nodes: map[int32]*process.Node{}, ports: ports(t), kafka: ofKafka}
	dir := t.TempDir()
	if ofKafka {
		c.describeKafka(t, dir, config)
	} else {
		c.describeMoldau(t, dir, config)
	}
	c.startAll(t)
	c.waitInService(t, c.ids()...)
	return c
}

// startAll starts the nodes side by side: none is ready before the others are there.
func (c *trio) startAll(t testing.TB) {
	t.Helper()
	errs := map[int32]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for id, n := range c.nodes {
		all.Go(func() {
			err := n.TryStart(t)
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
	}
	all.Wait()
	for id, err := range errs {
		if err != nil {
			t.Fatalf("node %d: %v\n%s", id, err, c.nodes[id].Tail())
		}
	}
}

func (c *trio) describeMoldau(t testing.TB, dir string, config map[string]string) {
	t.Helper()
	bin := broker.Binary(t)
	list := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", c.ports[1], c.ports[2], c.ports[3])
	for id := range c.ports {
		home := filepath.Join(dir, fmt.Sprint(id))
		if err := os.MkdirAll(home, 0o755); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(home, "data")
		props := settings(id)
		maps.Copy(props, config)
		args := []string{"serve", "--cluster", list, "--listen", c.addr(id), "--data-dir", data, "--set",
			"moldau.admin.listener="}
		for k, v := range props {
			args = append(args, "--set", k+"="+v)
		}
		c.nodes[id] = process.New(fmt.Sprint("Moldau ", id), c.addr(id), data, filepath.Join(home, "out"),
			func() *exec.Cmd { return exec.Command(bin, args...) })
	}
}

func (c *trio) describeKafka(t testing.TB, dir string, config map[string]string) {
	t.Helper()
	kafka.Libs(t)
	var seeds, voters []string
	for _, id := range []int32{1, 2, 3} {
		seeds = append(seeds, c.controller(id))
		directory := strings.TrimSpace(kafka.Tool(t, "storage", "random-uuid"))
		voters = append(voters, fmt.Sprintf("%d@%s:%s", id, c.controller(id), directory))
	}
	for id := range c.ports {
		home := filepath.Join(dir, fmt.Sprint(id))
		if err := os.MkdirAll(home, 0o755); err != nil {
			t.Fatal(err)
		}
		props := kafka.Properties(t, filepath.Join(home, "data"), settings(id))
		maps.Copy(props, config)
		maps.Copy(props, map[string]string{
			"node.id": fmt.Sprint(id), "controller.quorum.bootstrap.servers": strings.Join(seeds, ","),
			"listeners":            fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", c.addr(id), c.controller(id)),
			"advertised.listeners": fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", c.addr(id), c.controller(id)),
		})
		file := kafka.WriteProperties(t, home, props)
		kafka.Tool(t, "storage", "format", "-t", kafka.ClusterID, "-c", file, "--initial-controllers",
			strings.Join(voters, ","))
		c.nodes[id] = kafka.Open(t, file, props)
	}
}

// ports finds three ports in rising order that are free together with those of the controllers.
func ports(t testing.TB) map[int32]int {
	t.Helper()
	for range 1000 {
		first := 12000 + rand.IntN(16000)
		out := map[int32]int{}
		for id := range int32(size) {
			out[id+1] = first + int(id)*7
		}
		if allFree(out) {
			return out
		}
	}
	t.Fatal("no free ports")
	return nil
}

func allFree(ports map[int32]int) bool {
	for _, p := range ports {
		for _, port := range []int{p, p + controllerStep} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return false
			}
			_ = l.Close()
		}
	}
	return true
}

// client is a client of all nodes.
func (c *trio) client(t testing.TB, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(o, kgo.SeedBrokers(strings.Split(c.all(), ",")...),
		kgo.RetryTimeout(waitLimit), kgo.RequestRetries(1000))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// waitInService waits until each of these nodes sees just them in service.
func (c *trio) waitInService(t testing.TB, ids ...int32) {
	t.Helper()
	for _, at := range ids {
		conn := raw.New(c.addr(at), "wait")
		defer conn.Close()
		eventually(t, fmt.Sprintf("node %d sees %v in service", at, ids), func() bool {
			r, err := conn.Send(kmsg.NewPtrMetadataRequest())
			if err != nil {
				return false
			}
			var seen []int32
			for _, b := range r.(*kmsg.MetadataResponse).Brokers {
				seen = append(seen, b.NodeID)
			}
			slices.Sort(seen)
			return slices.Equal(seen, ids)
		})
	}
}

// eventually fails the test when what is wanted does not come true.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
	}
}
