package node

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/edge/peer"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
	"moldau/internal/telemetry"
)

// Options are what a node is made of. The zero value of a field takes the default that its comment names.
type Options struct {
	// Config are the settings; required.
	Config *config.Static
	// FS is the file system of the log directories. Default: the operating system's.
	FS vfs.FS
	// Log receives what an operator should see. Default: slog.Default().
	Log *slog.Logger
	// LogLevel is the level of Log, when it may be changed while the node runs (the BROKER_LOGGER resource).
	LogLevel *slog.LevelVar
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Memory, when set, serves connections inside the process beside the configured listeners, or alone with NoListen.
	Memory   *server.MemoryListener
	NoListen bool
	// Metrics receives the node's metrics. Default: a registry of its own.
	Metrics *telemetry.Registry
	// Dial opens connections to other nodes. Default: TCP. Listen opens the listeners. Default: TCP on the address.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Listen func(address string) (net.Listener, error)
	// NoAdmin keeps the admin listener closed whatever the settings say.
	NoAdmin bool
	Version string
}

// Seed draws a seed for a pseudo-random source.
func (o Options) Seed() (uint64, uint64) {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = telemetry.NewRegistry()
	}
	o.Log = telemetry.CountMessages(o.Log, o.Metrics)
	return o
}

// errStopped is why work was given up.
var errStopped = errors.New("the node stops")

// Node is one running broker and controller.
type Node struct {
	o      Options
	config *config.Static
	self   config.Node
	log    *slog.Logger

	dirs      *dirs
	manager   *replica.Manager
	flushers  map[*log.Dir]*flusher
	control   *control
	publisher *publisher
	// coordinators hold the state of groups.
	coordinators *coordinators
	lifecycle    *lifecycle
	server       *server.Server
	listeners    []*server.Listener // for clients and brokers
	controllers  []*server.Listener // for the quorum and brokers; they accept before the others
	// peers and relay reach other nodes; nil on a lone node.
	peers      *peer.Pool
	relay      *relay
	deathwatch *deathwatch
	// foundedWith are the voters of the settings that were new when this node was, with their directories.
	foundedWith map[kafka.NodeID]kafka.UUID
	metrics     *metrics
	producers   *producerIDs
	upkeep      *upkeep
	admin       *admin
	marker      *incarnation
	throttles   *throttles
	// replication copies from leaders, inSync tells the controller who keeps up.
	replication *replication
	inSync      *inSync
	moves       *moves
	stopping    chan struct{}
	stopOnce    sync.Once
	loops       sync.WaitGroup
	cancel      context.CancelFunc // of the lifecycle
	metaLog     *log.Log
	// producerCount is the number of producer ids that all partitions remember (moldau.producer.ids.max).
	producerCount atomic.Int64

	ended chan struct{} // closed when everything has stopped

	failMu   sync.Mutex
	failure  error
	failed   chan struct{} // closed with the first fatal failure
	dirError map[*log.Dir]error
	started  time.Time

	// For goroutines that run before these are made.
	limited atomic.Pointer[server.Server]
	told    atomic.Pointer[lifecycle]

	ready bool
}

// Start starts a node and returns when it serves: its partitions are recovered, it is registered and unfenced, and its
// listeners accept. ctx bounds the start only.
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	o = o.withDefaults()
	n := &Node{o: o, config: o.Config, self: o.Config.Node(), log: o.Log, stopping: make(chan struct{}),
		ended: make(chan struct{}), failed: make(chan struct{}), dirError: map[*log.Dir]error{},
		flushers: map[*log.Dir]*flusher{}, started: o.Now()}
	defer func() {
		if err != nil {
			n.abort()
		}
	}()
	if !alone(n.self) {
		n.peers = peer.NewPool(peer.Options{ClientID: "node", Dial: n.o.Dial, Log: n.log})
	}
	if err := n.settleIdentity(ctx); err != nil {
		return nil, err
	}
	if n.peers != nil {
		n.peers.Rename(fmt.Sprintf("node-%d", n.self.ID)) // so that a peer's log says who asks
	}
	if err := n.openStorage(); err != nil {
		return nil, err
	}
	if err := n.openControl(); err != nil {
		return nil, err
	}
	if err := n.makeServer(); err != nil {
		return nil, err
	}
	if !alone(n.self) {
		if err := n.joinQuorum(); err != nil {
			return nil, err
		}
	}
	n.loops.Go(n.control.run)
	if err := n.loadLogs(n.manager.Adopt, n.isStopping); err != nil {
		if n.isStopping() {
			return nil, cmp.Or(n.Err(), err)
		}
		n.log.Error("some partitions are offline", "error", err)
	}
	if err := n.bind(); err != nil {
		return nil, err
	}
	if err := n.join(ctx); err != nil {
		return nil, err
	}
	n.upkeep.start(&n.loops)
	n.failMu.Lock()
	n.ready = true
	n.failMu.Unlock()
	n.metrics.started(o.Now().Sub(n.started))
	return n, nil
}

// openStorage opens the log directories and makes what works on them.
func (n *Node) openStorage() error {
	var err error
	n.dirs, err = openDirs(n.o.FS, n.self, n.found, n.config.Int64("moldau.disk.reserve.bytes"), n.o.Now())
	if err != nil {
		return err
	}
	n.marker = &incarnation{fs: n.o.FS, dir: n.dirs.metadata.Path(), fail: n.fail}
	n.metrics = newMetrics(n.o.Metrics, n)
	for _, d := range n.dirs.online {
		f := newFlusher(d, n, n.log, n.o.Now, n.config.Int("moldau.flush.syncfs.min.files"), n.metrics.flushed(d))
		f.linger = time.Duration(n.config.Int64("moldau.flush.linger.ms")) * time.Millisecond
		n.flushers[d] = f
		n.loops.Go(f.run)
	}
	n.publisher = newPublisher()
	n.throttles = newThrottles(n.config)
	n.inSync = newInSync(n)
	n.manager = replica.NewManager(replica.ManagerOptions{
		Self: n.self.ID, Dirs: n.dirs.online, OfflineDirs: len(n.dirs.all) - len(n.dirs.online),
		Limits: replica.Limits{Producers: &n.producerCount, RefuseNewProducers: n.tooManyProducers,
			ReadFailed: n.DirFailed, ReplicaLag: time.Duration(n.config.Int64("replica.lag.time.max.ms")) * time.Millisecond},
		Config:  n.topicConfig,
		NewUUID: newUUID,
		Rotten:  n.rotten,
	})
	telemetry.WatchReplicaLag(n.o.Metrics, n.replicaLags)
	p := n.publisher
	p.manager, p.host, p.log, p.now = n.manager, n, n.log, n.o.Now
	p.onImage, p.onReport = n.imageChanged, n.reportDirectories
	n.coordinators = newCoordinators(n)
	p.onRoles = n.coordinators.changed
	n.replication = newReplication(n)
	n.moves = newMoves(n)
	p.onMoves = n.moves.resume
	p.follow = func(image *metadata.Image, diff *metadata.Diff) {
		n.replication.changed(image, diff)
		n.moves.changed()
	}
	n.loops.Go(p.run)
	n.upkeep = newUpkeep(n)
	return nil
}

// foundingFeatures are the levels a cluster of ours begins with: Kafka's defaults, but for what is not built.
func foundingFeatures() []metadata.FeatureLevel {
	var out []metadata.FeatureLevel
	for _, f := range metadata.Features() {
		level := f.DefaultLevel(metadata.LatestMetadataVersion)
		if f.Name == metadata.ShareVersionFeature || f.Name == metadata.StreamsVersionFeature {
			level = 0
		}
		out = append(out, metadata.FeatureLevel{Name: f.Name, Level: level})
	}
	return out
}

func newUUID() kafka.UUID {
	u, _ := kafka.NewUUID(crand.Reader) // never fails
	return u
}

// openControl opens the metadata log and makes the controller, which do nothing before the loop runs.
func (n *Node) openControl() error {
	config := n.quorumConfig()
	var err, bad error
	if config.StaticVoters, err = n.staticVoters(); err != nil {
		return err
	}
	if config.Bootstrap, bad = n.bootstrapServers(); bad != nil {
		return bad
	}
	if config.Late, err = isLate(n.o.FS, n.self.MetadataDir); err != nil {
		return err
	}
	if config.Late {
		n.log.Warn("this voter was given a new disk, and the quorum is there already: it votes when it has caught up")
	}
	s1, s2 := n.o.Seed()
	pump, err := quorum.Open(n.dirs.metadata, config, n.o.Now(), rand.New(rand.NewPCG(s1, s2)))
	if err != nil {
		return err
	}
	n.metaLog = pump.Log()
	report, damaged := pump.Found()
	if report.CutBytes > 0 {
		n.log.Warn("recovery cut an unfinished end off the metadata log", "bytes", report.CutBytes)
	}
	for _, d := range damaged {
		n.log.Error("a metadata snapshot is damaged and not used", "reason", d)
	}
	settings := controller.SettingsFrom(n.config)
	settings.ClusterID = n.dirs.cluster
	if !n.config.IsSet("broker.session.timeout.ms") {
		settings.BrokerSession = 3 * time.Second // every registered broker is ours
	}
	n.control = newControl(pump, settings, n.o, n)
	n.control.foundedWith = n.foundedWith
	if config.Late {
		n.control.late = func() error { return forgetLate(n.o.FS, n.self.MetadataDir) }
	}
	n.metrics.watchControl(n.control, n.publisher)
	n.producers = newProducerIDs(n)
	return nil
}

func (n *Node) quorumConfig() quorum.Config {
	ms := func(key string) time.Duration { return time.Duration(n.config.Int64(key)) * time.Millisecond }
	return quorum.Config{
		ClusterID: n.dirs.cluster, Self: quorum.ReplicaKey{ID: n.self.ID, Directory: n.dirs.metadata.Meta().DirectoryID},
		CanVote: n.self.IsController, Endpoints: n.controllerEndpoints(), FirstAtOnce: true,
		AutoJoin:              n.config.Bool("controller.quorum.auto.join.enable"),
		ElectionTimeout:       ms("controller.quorum.election.timeout.ms"),
		FetchTimeout:          ms("controller.quorum.fetch.timeout.ms"),
		ElectionBackoffMax:    ms("controller.quorum.election.backoff.max.ms"),
		RequestTimeout:        ms("controller.quorum.request.timeout.ms"),
		RetryBackoff:          ms("controller.quorum.retry.backoff.ms"),
		FetchMaxBytes:         int32(n.config.Int64("controller.quorum.fetch.max.bytes")),
		FetchSnapshotMaxBytes: int32(n.config.Int64("controller.quorum.fetch.snapshot.max.bytes")),
		SegmentBytes:          n.config.Int64("metadata.log.segment.bytes"),
		SegmentMs:             n.config.Int64("metadata.log.segment.ms"),
		RetentionBytes:        n.config.Int64("metadata.max.retention.bytes"),
		Retention:             ms("metadata.max.retention.ms"),
		SnapshotBytes:         n.config.Int64("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotInterval:      ms("metadata.log.max.snapshot.interval.ms"),
	}
}

// join registers the broker, takes up its roles, opens the listeners and asks to be unfenced.
func (n *Node) join(ctx context.Context) error {
	run, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	start, stopWaiting := context.WithCancelCause(ctx)
	defer stopWaiting(nil)
	go func() {
		select {
		case <-n.failed:
			stopWaiting(n.Err())
		case <-start.Done():
		}
	}()
	if err := n.newLifecycle(start); err != nil {
		return errors.Join(context.Cause(start), err)
	}
	if err := n.lifecycle.join(start); err != nil {
		return errors.Join(context.Cause(start), err)
	}
	if !n.self.IsBroker {
		return nil
	}
	if err := n.lifecycle.unfence(start); err != nil {
		return errors.Join(context.Cause(start), err)
	}
	for _, l := range n.listeners {
		if err := l.Start(); err != nil {
			return err
		}
	}
	n.loops.Go(func() { n.lifecycle.run(run) })
	return nil
}

// isStopping says whether a stop has begun.
func (n *Node) isStopping() bool {
	select {
	case <-n.stopping:
		return true
	case <-n.failed:
		return true
	default:
		return false
	}
}

// fail records a failure that the node cannot live with; Failed tells whoever runs it.
func (n *Node) fail(err error) {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	if n.failure != nil {
		return
	}
	n.failure = err
	n.metrics.stopped()
	n.log.Error("the node cannot go on", "error", err)
	close(n.failed)
}

// Failed is closed when the node cannot go on by itself; Err says why. It still has to be stopped.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err is why the node cannot go on; nil while it can.
func (n *Node) Err() error {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	return n.failure
}

// Ready says whether the node serves.
func (n *Node) Ready() bool {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	return n.ready && n.failure == nil
}

// ClusterID names the cluster.
func (n *Node) ClusterID() string { return n.dirs.cluster }

// Image is the cluster's metadata as far as this node knows it.
func (n *Node) Image() *metadata.Image { return n.publisher.Image() }

// Controller is the node whose controller this node takes to be in office; kafka.NoNode while it knows none.
func (n *Node) Controller() kafka.NodeID { return n.control.exchange.inOffice().leader }

// Addresses lists what the broker listeners are bound to.
func (n *Node) Addresses() []net.Addr {
	var out []net.Addr
	for _, l := range n.listeners {
		out = append(out, l.Addr())
	}
	return out
}

// AdminAddress is what the admin listener is bound to; nil when there is none.
func (n *Node) AdminAddress() net.Addr {
	if n.admin == nil {
		return nil
	}
	return n.admin.address()
}

// Stop stops the node in good order: leaderships are handed over, requests in work are answered until ctx ends,
// everything is synced and marked clean. After a failure it only closes. It may be called more than once.
func (n *Node) Stop(ctx context.Context) error {
	var err error
	n.stopOnce.Do(func() {
		err = n.stop(ctx)
		close(n.ended)
	})
	<-n.ended
	return err
}

func (n *Node) stop(ctx context.Context) error {
	healthy := n.Err() == nil
	if healthy && n.self.IsBroker && n.config.Bool("controlled.shutdown.enable") {
		leave, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := n.lifecycle.leave(leave); err != nil {
			n.log.Warn("leadership was not handed over", "error", err)
		}
		cancel()
	}
	n.metrics.stopped()
	close(n.stopping)
	n.coordinators.close() // what is parked would keep the drain waiting
	if healthy {
		n.control.stop() // first: the next controller takes office while requests are finished here
	}
	drain, cancel := context.WithTimeout(ctx, time.Duration(n.config.Int64("moldau.drain.timeout.ms"))*time.Millisecond)
	defer cancel()
	if err := n.server.Drain(drain); err != nil {
		n.log.Warn("requests in work were cut off", "error", err)
	}
	return n.close(healthy, true)
}

// Kill stops at once and leaves everything as a crash would: nothing more is synced or written. For tests.
func (n *Node) Kill() {
	n.stopOnce.Do(func() {
		close(n.stopping)
		n.server.Close()
		_ = n.close(false, false)
		close(n.ended)
	})
	<-n.ended
}

// abort takes down what a failed start had begun.
func (n *Node) abort() {
	n.stopOnce.Do(func() {
		close(n.stopping)
		if n.server != nil {
			n.server.Close()
		}
		_ = n.close(false, false)
		close(n.ended)
	})
}

// close ends the loops and closes the storage; clean marks it so. Unless it is orderly, other nodes are not told.
func (n *Node) close(clean, orderly bool) error {
	if n.cancel != nil {
		n.cancel()
	}
	if n.admin != nil {
		n.admin.close()
	}
	if n.upkeep != nil {
		n.upkeep.stop()
	}
	if n.coordinators != nil {
		n.coordinators.close()
	}
	if n.replication != nil {
		n.replication.close()
		n.inSync.close()
		n.moves.close(clean)
	}
	n.leaveQuorum(orderly)
	if n.publisher != nil {
		n.publisher.close()
	}
	for _, f := range n.flushers {
		f.close()
	}
	n.loops.Wait()
	return n.closeStorage(clean)
}

// closeStorage closes logs and directories. Only a stop in which everything was synced is marked clean.
func (n *Node) closeStorage(clean bool) error {
	if n.dirs == nil {
		return nil
	}
	var errs []error
	if clean {
		errs = append(errs, n.closeLogs()...)
	}
	if n.manager != nil {
		n.closeFiles()
	}
	if n.metaLog != nil {
		errs = append(errs, n.metaLog.Close(clean, n.o.Now()))
	}
	clean = clean && errors.Join(errs...) == nil && n.Err() == nil
	intact := func(d *log.Dir) bool { return clean && n.manager.Intact(d) }
	if err := n.dirs.close(n.o.Now(), intact, n.brokerEpoch()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
