package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// makeServer makes the protocol server, which has no listeners yet.
func (n *Node) makeServer() error {
	b := &api.Broker{
		Self: n.self.ID, ClusterID: n.dirs.cluster, Config: n.config, Log: n.log, LogLevel: n.o.LogLevel, Now: n.o.Now,
		NewUUID: newUUID,
		Image:   n.publisher.Image, Partitions: n.manager, Host: n, After: n.after,
		Control: n.forward, Raft: n.raft, Quorum: n.control.Describe, ProducerID: n.producers.draw,
		Advertised: n.advertised, LogDirs: n.logDirs, AlterLogDir: n.moves.alter, Metrics: n.metrics.handlers(),
		Groups: n.coordinators.groups, Transactions: n.coordinators.txns, Verify: n.coordinators.verifier.ask, WriteMarker: n.writeMarker,
		LeaderQuota: n.throttles.leader,
	}
	table, err := server.NewTable(n.versionInfo(), b.Rows()...)
	if err != nil {
		return err
	}
	n.server, err = server.New(n.serverOptions(table))
	if err != nil {
		return err
	}
	n.limited.Store(n.server)
	n.metrics.watchMemory(n.server.Budget(), budgetOptions(n.config))
	return nil
}

// bind binds the listeners for clients without accepting yet: an address that is taken shows now, and the ports are known
// for the registration.
func (n *Node) bind() error {
	if err := n.listen(); err != nil {
		return err
	}
	address := n.config.Text("moldau.admin.listener")
	if address == "" || n.o.NoAdmin {
		return nil
	}
	var err error
	n.admin, err = newAdmin(n, address)
	return err
}

func (n *Node) listen() error {
	for _, o := range n.listenerOptions() {
		if n.o.Listen != nil && o.Net == nil {
			var err error
			if o.Net, err = n.o.Listen(o.Address); err != nil {
				return err
			}
		}
		l, err := n.server.Listen(o)
		if err != nil {
			return err
		}
		n.listeners = append(n.listeners, l)
	}
	return nil
}

// listenerOptions lists the listeners: those of the settings, then the one inside the process, which serves the clients of
// the first.
func (n *Node) listenerOptions() []server.ListenerOptions {
	var out []server.ListenerOptions
	if !n.o.NoListen {
		for _, e := range n.self.Listeners {
			out = append(out, server.ListenerOptions{Name: e.Listener, Address: e.Address(),
				Backlog: setOnly(n.config, "socket.listen.backlog.size")})
		}
	}
	if n.o.Memory != nil {
		name := "PLAINTEXT"
		if len(out) > 0 {
			name = out[0].Name
		}
		out = append(out, server.ListenerOptions{Name: name, Net: n.o.Memory})
	}
	return out
}

func (n *Node) listenerNames() []string {
	var out []string
	for _, o := range n.listenerOptions() {
		if !slices.Contains(out, o.Name) {
			out = append(out, o.Name)
		}
	}
	for _, e := range n.self.Controller {
		out = append(out, e.Listener)
	}
	return out
}

func (n *Node) serverOptions(table *server.Table) server.Options {
	c := n.config
	return server.Options{
		Table: table, Log: n.log, Now: n.o.Now, Observer: n.metrics.observer(table, n.listenerNames()),
		Budget:             server.NewBudget(budgetOptions(c)),
		MaxFrameBytes:      c.Int("socket.request.max.bytes"),
		MaxQueuedRequests:  c.Int("moldau.connection.max.queued.requests"),
		MaxArrayElements:   c.Int("moldau.request.array.elements.max"),
		MaxTags:            c.Int("moldau.request.tags.max"),
		MaxDecodedBytes:    c.Int64("moldau.request.decoded.max.bytes"),
		SendBufferBytes:    setOnly(c, "socket.send.buffer.bytes"),
		ReceiveBufferBytes: setOnly(c, "socket.receive.buffer.bytes"),
		Limits:             serverLimits(c, resolver(c, n.self, n.publisher.Image())),
	}
}

func budgetOptions(c *config.Static) server.BudgetOptions {
	bytes := c.Int64("moldau.memory.budget.bytes")
	if bytes < 0 {
		bytes = defaultBudget()
	}
	if q := c.Int64("queued.max.request.bytes"); q > 0 {
		bytes = q
	}
	return server.BudgetOptions{RequestBytes: bytes, SmallBytes: c.Int64("moldau.memory.small.bytes"),
		InternalBytes:   c.Int64("moldau.memory.internal.bytes"),
		SmallFrameBytes: c.Int("moldau.memory.small.frame.bytes")}
}

// setOnly gives a size only if somebody asked for it: the kernel's own sizes adapt, Kafka's default does not.
func setOnly(c *config.Static, key string) int {
	if !c.IsSet(key) {
		return 0
	}
	return c.Int(key)
}

// serverLimits are the bounds that may change while the node runs.
func serverLimits(c *config.Static, r *config.Resolver) server.Limits {
	ms := func(key string) time.Duration { return time.Duration(c.Int64(key)) * time.Millisecond }
	limits := server.Limits{
		MaxIdle: ms("connections.max.idle.ms"), ReadWindow: ms("moldau.request.progress.timeout.ms"),
		MinReadRate:       c.Int("moldau.request.min.bytes.per.second"),
		PressedReadWindow: ms("moldau.request.pressed.timeout.ms"),
		PressedReadRate:   c.Int("moldau.request.pressed.min.bytes.per.second"),
		WriteStall:        ms("moldau.response.progress.timeout.ms"),
		MaxConnections:    bounded(r.Broker("max.connections").Int64()),
		PerIP:             perIP(r.Broker("max.connections.per.ip.overrides").Text()),
	}
	if rate := r.Broker("max.connection.creation.rate").Int64(); rate < 1<<31-1 {
		limits.ConnectionRate = float64(rate)
	}
	if limits.MaxConnectionsPerIP = bounded(r.Broker("max.connections.per.ip").Int64()); limits.MaxConnectionsPerIP == 0 &&
		r.Broker("max.connections.per.ip").Int64() == 0 {
		limits.MaxConnectionsPerIP = -1 // Kafka's 0 forbids all but the overrides
	}
	return limits
}

// bounded turns Kafka's largest int, which means no limit, into the server's 0.
func bounded(v int64) int {
	if v >= 1<<31-1 {
		return 0
	}
	return int(v)
}

func perIP(text string) map[netip.Addr]int {
	out := map[netip.Addr]int{}
	for entry := range strings.SplitSeq(text, ",") {
		host, count, ok := strings.Cut(strings.TrimSpace(entry), ":")
		n, err := strconv.Atoi(count)
		ip, ipErr := netip.ParseAddr(host)
		if ok && err == nil && ipErr == nil {
			out[ip] = n
		}
	}
	return out
}

// versionInfo is what ApiVersions tells of the node and its cluster.
func (n *Node) versionInfo() server.VersionInfo {
	return server.VersionInfo{
		ClusterID: func() string { return n.dirs.cluster },
		NodeID:    func() kafka.NodeID { return n.self.ID },
		Features: func() server.Features {
			image := n.publisher.Image()
			f := server.Features{Epoch: int64(image.Offset())}
			for _, x := range metadata.Features() {
				f.Supported = append(f.Supported, server.FeatureRange{Name: x.Name, Min: x.Min, Max: x.Max})
			}
			for name, level := range image.Features() {
				if level > 0 {
					f.Finalized = append(f.Finalized, server.FinalizedFeature{Name: name, Level: level})
				}
			}
			// kraft.version is the quorum's own and in no image.
			if level := int16(n.control.kraftVersion.Load()); level > 0 {
				f.Finalized = append(f.Finalized, server.FinalizedFeature{Name: metadata.KRaftVersionFeature, Level: level})
			}
			return f
		},
	}
}

// registered are the endpoints that the broker registers with: what is advertised, or what it is bound to.
func (n *Node) registered() []config.Endpoint {
	if told := n.toldClients(); len(told) > 0 {
		return told
	}
	var out []config.Endpoint
	for i, o := range n.listenerOptions() {
		if slices.ContainsFunc(out, func(e config.Endpoint) bool { return e.Listener == o.Name }) {
			continue
		}
		host, port := splitAddress(n.listeners[i].Addr())
		if host == "" || host == "0.0.0.0" || host == "::" {
			host = hostname()
		}
		out = append(out, config.Endpoint{Listener: o.Name, Host: host, Port: port})
	}
	return out
}

// toldClients are the addresses that are advertised to clients; empty: those of their connections.
func (n *Node) toldClients() []config.Endpoint {
	var out []config.Endpoint
	for _, e := range n.self.Advertised {
		if !slices.Contains(n.self.ControllerListeners, e.Listener) {
			out = append(out, e)
		}
	}
	return out
}

func splitAddress(a net.Addr) (host string, port int) {
	host, text, _ := net.SplitHostPort(a.String())
	port, _ = strconv.Atoi(text)
	return host, port
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}

// advertised gives the address under which the client of a connection reaches a broker. A node that advertises nothing
// answers, for itself, the address that the client has reached it at: that one is known to work.
func (n *Node) advertised(c *server.ConnInfo, b *metadata.Broker) (string, int32, bool) {
	if b.ID == n.self.ID && len(n.toldClients()) == 0 {
		host, port := splitAddress(c.Local)
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.Unmap().String()
		}
		return host, int32(port), true
	}
	e, ok := b.Endpoint(c.Listener)
	return e.Host, int32(e.Port), ok
}

func (n *Node) logDirs() []api.LogDir {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	out := make([]api.LogDir, 0, len(n.dirs.all))
	for _, d := range n.dirs.all {
		if d.Dir != nil {
			d.Err = n.dirError[d.Dir]
		}
		d.TotalBytes, d.UsableBytes = -1, -1
		if total, err := n.o.FS.Total(d.Path); err == nil {
			d.TotalBytes = total
		}
		if free, err := n.o.FS.Free(d.Path); err == nil {
			d.UsableBytes = free
		}
		out = append(out, d)
	}
	return out
}

// newLifecycle prepares the registration, once the listeners are bound and the old metadata is read.
func (n *Node) newLifecycle(ctx context.Context) error {
	if _, err := n.control.CaughtUp().Wait(ctx); err != nil {
		return err
	}
	var ids []kafka.UUID
	for _, d := range n.dirs.online {
		ids = append(ids, d.Meta().DirectoryID)
	}
	vouched, err := readIncarnation(n.o.FS, n.dirs.metadata.Path(), ids)
	if err != nil {
		return fmt.Errorf("%s: %w", incarnationFile, err)
	}
	l := &lifecycle{node: n.self, cluster: n.dirs.cluster, dirs: ids, instance: newUUID(), listeners: n.registered(),
		endpoints: n.controllerEndpoints(),
		patience:  time.Duration(n.config.Int64("initial.broker.registration.timeout.ms")) * time.Millisecond,
		interval:  n.heartbeatInterval(), submit: n.submit, remind: n.remind, publisher: n.publisher, failed: n.manager.FailedDirs,
		cordoned: n.cordoned,
		log:      n.log, now: n.o.Now, changed: make(chan struct{}, 1)}
	l.epoch.Store(int64(log.NoBrokerEpoch))
	stale := func(incarnation kafka.UUID) bool {
		return n.control.voters.Load() > 1 && n.control.lineage.stale(incarnation, n.control.settings.BrokerSession)
	}
	var before kafka.UUID
	l.previous, before = previousEpoch(n.dirs, n.self.ID, claim{vouched: vouched, image: n.publisher.Image(), stale: stale})
	n.lifecycle = l
	n.told.Store(l)
	return n.marker.write(l.instance, before, ids)
}

func (n *Node) heartbeatInterval() time.Duration {
	if n.config.IsSet("broker.heartbeat.interval.ms") {
		return time.Duration(n.config.Int64("broker.heartbeat.interval.ms")) * time.Millisecond
	}
	return 500 * time.Millisecond // every registered broker is ours
}

// defaultBudget is a quarter of the memory the process may use, from 64 MiB to 1 GiB.
func defaultBudget() int64 {
	return min(max(availableMemory()/4, 64<<20), 1<<30)
}

// availableMemory reads what the process may use: the control group's limit or the machine's memory; 1 GiB where neither
// is told.
func availableMemory() int64 {
	best := int64(0)
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && v < 1<<50 {
			best = v
		}
	}
	raw, err := os.ReadFile("/proc/meminfo")
	if err == nil && best == 0 {
		fields := strings.Fields(string(raw))
		if len(fields) > 1 && fields[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			best = kb << 10
		}
	}
	return cmp.Or(best, 1<<30)
}
