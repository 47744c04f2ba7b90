// Package moldau runs a Moldau node inside a Go program: a durable, Kafka-compatible event log without a second process.
//
//	n, err := moldau.Start(ctx, moldau.Options{DataDir: "data"})
//	...
//	client, err := kgo.NewClient(kgo.SeedBrokers(n.Address()), kgo.Dialer(n.Dial))
//	...
//	err = n.Stop(ctx)
//
// Clients in the same program reach the node through Dial, which opens no socket; others through its listeners, if
// Options.Listen names one. The package never exits the process: a node that cannot go on says so through Failed.
package moldau

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"moldau/internal/config"
	"moldau/internal/edge/server"
	"moldau/internal/node"
)

// Options say how a node is run. The zero value is a node with its data in ./moldau-data that only this process reaches.
type Options struct {
	// DataDir is the log directory; it is made if missing. It stands for the key log.dirs.
	DataDir string
	// Listen is a host:port to serve other processes on; ":0" chooses a port. Empty: none.
	Listen string
	// Config sets any other key, by the names of Kafka's server.properties.
	Config map[string]string
	// Logger receives what an operator should see. Nil: nothing is logged.
	Logger *slog.Logger
}

// Node is a running node.
type Node struct {
	node   *node.Node
	memory *server.MemoryListener
	listen bool
}

// inMemory is the address that connections inside the process are told. Only Dial understands it.
const inMemory = "moldau.local:9092"

// Start starts a node and returns when it serves. ctx bounds the start; the node runs until Stop.
//
// Errors: a wrong setting (one line for each), a data directory that is in use, damaged or of another cluster, an address
// that is taken, or ctx.Err().
func Start(ctx context.Context, o Options) (*Node, error) {
	static, err := o.static()
	if err != nil {
		return nil, err
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{listen: o.Listen != "", memory: server.NewMemoryListener(inMemory)}
	n.node, err = node.Start(ctx, node.Options{Config: static, Log: logger, NoAdmin: true, Memory: n.memory,
		NoListen: !n.listen})
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (o Options) static() (*config.Static, error) {
	own := map[string]string{}
	if o.DataDir != "" {
		own["log.dirs"] = o.DataDir
	}
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, errors.New("Listen: " + err.Error())
		}
		own["listeners"] = "PLAINTEXT://" + net.JoinHostPort(host, port)
	}
	static, err := config.Load([]config.Layer{config.MapLayer("Config", o.Config), config.MapLayer("Options", own)},
		config.Options{})
	if err != nil {
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
	return static, nil
}

// Address is what clients are given as bootstrap server: the first listener's address, or, without one, a name that only
// Dial understands.
func (n *Node) Address() string {
	if n.listen {
		return n.node.Addresses()[0].String()
	}
	return inMemory
}

// Dial connects to the node inside the process. It fits kgo.Dialer and ignores network and address: there is one node.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.memory.Dial(ctx)
}

// ClusterID names the cluster that the node is.
func (n *Node) ClusterID() string { return n.node.ClusterID() }

// Failed is closed when the node cannot go on: its metadata directory or its last log directory failed. Err says why.
func (n *Node) Failed() <-chan struct{} { return n.node.Failed() }

// Err is why the node cannot go on; nil while it can.
func (n *Node) Err() error { return n.node.Err() }

// Stop stops the node in good order: requests in work are answered until ctx ends, everything is synced and the data is
// marked clean, so that the next start reads no segment.
func (n *Node) Stop(ctx context.Context) error { return n.node.Stop(ctx) }

// Kill stops the node at once, as a crash of the process would: nothing more is written or synced.
func (n *Node) Kill() { n.node.Kill() }
