package moldautest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"moldau/internal/node"
	"moldau/internal/storage/vfs"
)

// Option changes a node or a cluster before it starts.
type Option func(*setup)

// setup is what options say.
type setup struct {
	config   map[string]string
	ofNode   map[int32]map[string]string // what only one node of a cluster is told
	disk     func(vfs.FS) vfs.FS         // what a lone node sees of its disk
	random   *rand.Rand
	loopback bool
}

// Config sets a key of Kafka's server.properties, on every node.
func Config(key, value string) Option {
	return func(s *setup) { s.config[key] = value }
}

// NodeConfig sets a key on one node of a cluster; it wins over Config.
func NodeConfig(id int32, key, value string) Option {
	return func(s *setup) {
		if s.ofNode[id] == nil {
			s.ofNode[id] = map[string]string{}
		}
		s.ofNode[id][key] = value
	}
}

// Seed makes PowerCut lose the same things each time.
func Seed(seed uint64) Option {
	return func(s *setup) { s.random = rand.New(rand.NewPCG(seed, 0)) }
}

// Loopback lets any client reach the nodes of a cluster, through ports of 127.0.0.1 that Brokers tells. What the nodes say
// to each other stays in the virtual network, where it can be cut; clients that come through the ports cannot be cut off.
func Loopback() Option {
	return func(s *setup) { s.loopback = true }
}

func settle(options []Option, config map[string]string) *setup {
	s := &setup{config: config, ofNode: map[int32]map[string]string{}, disk: func(fs vfs.FS) vfs.FS { return fs },
		random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
	for _, o := range options {
		o(s)
	}
	return s
}

// machine is a disk and the node that runs on it, or does not.
type machine struct {
	fs     *vfs.Mem
	node   *node.Node
	random *rand.Rand
}

// start starts a node that sees fs, which is the machine's disk or wraps it.
func (m *machine) start(ctx context.Context, fs vfs.FS, o node.Options) (err error) {
	o.FS, o.NoAdmin = fs, true
	m.node, err = node.Start(ctx, o)
	if err != nil {
		m.node = nil
	}
	return err
}

// stop stops the node in good order.
func (m *machine) stop(ctx context.Context) error {
	n := m.node
	if n == nil {
		return nil
	}
	m.node = nil
	return errors.Join(n.Stop(ctx), n.Err())
}

// kill ends the node as kill -9 does: the machine goes on, so the page cache survives.
func (m *machine) kill() {
	m.crash()
	m.fs = m.fs.KillClone()
}

// powerCut ends the node as a power cut does: of what was not synced, any part may be lost or torn.
func (m *machine) powerCut() {
	m.crash()
	m.fs = m.fs.CrashClone(m.random, vfs.KeepSome(m.random))
}

// crash ends the node and lets nothing more reach the disk.
func (m *machine) crash() {
	m.fs.Crash()
	if m.node != nil {
		m.node.Kill()
		m.node = nil
	}
}
