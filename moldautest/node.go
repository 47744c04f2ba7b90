package moldautest

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/config"
	"moldau/internal/edge/server"
	"moldau/internal/node"
	"moldau/internal/storage/vfs"
)

// Node is a node for one test. Its methods fail the test instead of returning errors. It is not safe for concurrent use;
// its clients are.
type Node struct {
	machine
	setup  *setup
	memory atomic.Pointer[server.MemoryListener] // of the running process; clients dial while it is replaced
}

// address is what clients are told. Only the node's own dialer understands it.
const address = "moldau.test:9092"

// patience bounds starts, stops and what is waited for. It is long, because machines that run tests are busy.
const patience = 60 * time.Second

// Start starts a node on an empty disk in memory. It stops when the test ends.
func Start(t testing.TB, options ...Option) *Node {
	t.Helper()
	n := &Node{setup: settle(options, map[string]string{"log.dirs": "/data"})}
	n.machine = machine{fs: vfs.NewMem(vfs.MemOptions{}), random: n.setup.random}
	n.start(t)
	t.Cleanup(func() {
		if n.node != nil {
			n.node.Kill()
		}
	})
	return n
}

func (n *Node) start(t testing.TB) {
	t.Helper()
	static, err := config.Load([]config.Layer{config.MapLayer("moldautest.Config", n.setup.config)}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	memory := server.NewMemoryListener(address)
	n.memory.Store(memory)
	err = n.machine.start(ctx, n.setup.disk(n.fs), node.Options{Config: static, Log: slog.New(slog.DiscardHandler), Memory: memory,
		NoListen: true})
	if err != nil {
		t.Fatalf("the node did not start: %v", err)
	}
}

// Address is what clients use as bootstrap server, together with Dial.
func (n *Node) Address() string { return address }

// Dial connects to the node, whatever network and address say. After a Restart it reaches the new process.
func (n *Node) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return n.memory.Load().Dial(ctx)
}

// Client makes a client of the node that is closed when the test ends.
func (n *Node) Client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(address), kgo.Dialer(n.Dial)}, options...)
	c, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Stop stops the node in good order.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.stop(ctx); err != nil {
		t.Fatalf("the node did not stop cleanly: %v", err)
	}
}

// Kill ends the node as kill -9 does: the machine goes on, so the page cache survives.
func (n *Node) Kill() { n.kill() }

// PowerCut ends the node as a power cut does: of what was not synced, any part may be lost or torn.
func (n *Node) PowerCut() { n.powerCut() }

// Restart starts the node again on its disk, after Stop, Kill or PowerCut.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.start(t)
}
