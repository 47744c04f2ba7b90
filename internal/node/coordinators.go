package node

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/group"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/telemetry"
)

// coordinators are the coordinators of groups and of transactions and what they share.
type coordinators struct {
	n       *Node
	loaders loaders
	// evaluators match patterns of consumer groups with topics.
	evaluators loaders
	groups     *coordinator.Runtime
	txns       *coordinator.Runtime
	markers    *markers
	verifier   *verifier
	peers      *peers
	// What follows from the settings in the newest image; read on every event.
	groupSettings atomic.Pointer[group.Settings]
	keepBytes     atomic.Int64
	memory        group.Memory // of members
}

func newCoordinators(n *Node) *coordinators {
	c := &coordinators{n: n, loaders: loaders{loops: &n.loops, limit: min(runtime.GOMAXPROCS(0), 4)},
		evaluators: loaders{loops: &n.loops, limit: n.config.Int("group.coordinator.background.threads")}}
	c.configure(n.publisher.Image())
	ms := func(key string) time.Duration { return time.Duration(n.config.Int64(key)) * time.Millisecond }
	timeout := ms("offsets.commit.timeout.ms")
	c.markers, c.verifier = newMarkers(n), newVerifier(n)
	c.peers = newPeers(n, fmt.Sprintf("broker-%d", n.self.ID))
	c.memory.Max = n.config.Int64("moldau.group.memory.max.bytes")
	machine := group.Options{
		Memory:   &c.memory,
		Settings: func() group.Settings { return *c.groupSettings.Load() },
		Consumer: func(image *metadata.Image, id string) group.ConsumerSettings {
			return consumerSettings(resolver(n.config, n.self, image), id)
		},
	}
	groups := c.options("group", func() telemetry.CoordinatorCounts { return c.groups.Counts() })
	groups.Topic = kafka.OffsetsTopic
	groups.NewMachine = func(_ int32, image *metadata.Image) coordinator.Machine { return group.New(machine, image) }
	groups.Work = c.groupWork
	groups.CommitTimeout = func() time.Duration { return timeout }
	groups.Codec = record.Codec(n.config.Int64("offsets.topic.compression.codec"))
	groups.LoadBytes = n.config.Int("offsets.load.buffer.size")
	c.groups = coordinator.New(groups)
	txns := c.options("transaction", func() telemetry.CoordinatorCounts { return c.txns.Counts() })
	c.transactional(&txns)
	c.txns = coordinator.New(txns)
	return c
}

// options are what the coordinators have in common.
func (c *coordinators) options(kind string, counts func() telemetry.CoordinatorCounts) coordinator.Options {
	n := c.n
	return coordinator.Options{
		Self: n.self.ID, Partitions: n.manager, Host: n, Now: n.o.Now, After: n.after, Go: c.loaders.add,
		Rand: func() *rand.Rand {
			s1, s2 := n.o.Seed()
			return rand.New(rand.NewPCG(s1, s2))
		},
		KeepBytes: func() int { return int(c.keepBytes.Load()) },
		Log:       n.log,
		Metrics:   telemetry.NewCoordinator(n.o.Metrics, kind, counts),
	}
}

// changed brings an image that the partitions have followed.
func (c *coordinators) changed(image *metadata.Image, diff *metadata.Diff) {
	c.configure(image)
	c.groups.Changed(image, diff)
	c.txns.Changed(image, diff)
}

func (c *coordinators) configure(image *metadata.Image) {
	r := resolver(c.n.config, c.n.self, image)
	s := groupSettings(r, image)
	c.groupSettings.Store(&s)
	c.keepBytes.Store(r.Broker("group.coordinator.cached.buffer.max.bytes").Int64())
}

// close answers who waits for other clients and ends all appends. Who waits for the disk is answered by it.
func (c *coordinators) close() {
	c.groups.Close()
	c.txns.Close()
	c.markers.close()
	c.verifier.close()
	c.peers.close()
	c.loaders.close()
	c.evaluators.close()
}

// groupWork does what group coordinators ask for, in turns: what takes long must not keep others waiting.
func (c *coordinators) groupWork(w coordinator.Work, _ coordinator.ShardID, alive func() bool, done func(coordinator.Event)) {
	x, ok := w.(*group.EvaluatePatterns)
	if !ok {
		return
	}
	var step func() bool
	step = func() bool {
		switch {
		case !alive():
		case x.Step():
			c.evaluators.add(step)
		default:
			done(x.Evaluated())
		}
		return false
	}
	c.evaluators.add(step)
}

// groupSettings are the broker-wide settings of groups.
func groupSettings(r *config.Resolver, image *metadata.Image) group.Settings {
	ms := func(key string) time.Duration { return time.Duration(r.Broker(key).Int64()) * time.Millisecond }
	count := func(key string) int { return int(r.Broker(key).Int64()) }
	policy := strings.ToLower(r.Broker("group.consumer.migration.policy").Text())
	return group.Settings{
		MinSession: ms("group.min.session.timeout.ms"), MaxSession: ms("group.max.session.timeout.ms"),
		InitialRebalanceDelay:  ms("group.initial.rebalance.delay.ms"),
		MaxSize:                count("group.max.size"),
		ConsumerMaxSize:        count("group.consumer.max.size"),
		OffsetMetadataMaxBytes: count("offset.metadata.max.bytes"),
		OffsetsRetention:       time.Duration(r.Broker("offsets.retention.minutes").Int64()) * time.Minute,
		OffsetsCheckInterval:   ms("offsets.retention.check.interval.ms"),
		Assignors:              r.Broker("group.consumer.assignors").List(),
		Upgrade:                policy == "upgrade" || policy == "bidirectional",
		Downgrade:              policy == "downgrade" || policy == "bidirectional",
		ConsumerProtocol: image.Feature(metadata.GroupVersionFeature) >= 1 &&
			slices.Contains(r.Broker("group.coordinator.rebalance.protocols").List(), "consumer"),
		RegexRefresh: ms("group.consumer.regex.refresh.interval.ms"),
	}
}

const unsettledHeartbeat = "moldau.group.consumer.unsettled.heartbeat.interval.ms"

// consumerSettings are the settings of one consumer group.
func consumerSettings(r *config.Resolver, id string) group.ConsumerSettings {
	ms := func(key string) time.Duration { return time.Duration(r.GroupValue(id, key).Int64()) * time.Millisecond }
	return group.ConsumerSettings{Session: ms("consumer.session.timeout.ms"), Heartbeat: ms("consumer.heartbeat.interval.ms"),
		AssignmentInterval: ms("consumer.assignment.interval.ms"),
		Unsettled:          time.Duration(r.Broker(unsettledHeartbeat).Int64()) * time.Millisecond}
}

// loaders run what coordinators need long for, a few at a time: their loads, each of which holds a buffer, and all read the
// same disks.
type loaders struct {
	loops *sync.WaitGroup
	limit int

	mu      sync.Mutex
	queue   []func() bool
	running int
	closed  bool
}

// add queues a load. It never blocks.
func (l *loaders) add(step func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.queue = append(l.queue, step)
	if l.running < l.limit {
		l.running++
		l.loops.Go(l.run)
	}
}

func (l *loaders) run() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.closed {
			l.running--
			l.mu.Unlock()
			return
		}
		step := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		for step() {
		}
	}
}

// close gives up what is queued; a load that runs ends with its shard.
func (l *loaders) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.queue = true, nil
}
