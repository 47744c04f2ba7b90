package node

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/api"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/telemetry"
)

// metrics are the handles the node writes to, resolved once.
type metrics struct {
	n          *Node
	r          *telemetry.Registry
	dirs       map[*log.Dir]*telemetry.Dir
	logs       *telemetry.Logs
	topics     *telemetry.Topics
	cleaner    telemetry.Cleaner
	partitions telemetry.Partitions
	replicas   telemetry.Replicas
	controller telemetry.Controller
	quorum     telemetry.Quorum
	process    telemetry.Process
	recovery   map[*log.Dir]*recovery
}

// recovery is how far the opening of a directory's partitions after an unclean stop has come.
type recovery struct {
	began time.Time
	left  atomic.Int64
}

func newMetrics(r *telemetry.Registry, n *Node) *metrics {
	m := &metrics{n: n, r: r, dirs: map[*log.Dir]*telemetry.Dir{}, logs: telemetry.NewLogs(r),
		topics: telemetry.NewTopics(r), cleaner: telemetry.NewCleaner(r), recovery: map[*log.Dir]*recovery{},
		partitions: telemetry.NewPartitions(r), replicas: telemetry.NewReplicas(r),
		controller: telemetry.NewController(r), quorum: telemetry.NewQuorum(r),
		process: telemetry.NewProcess(r, n.o.Version, n.started)}
	for _, d := range n.dirs.online {
		h := telemetry.NewDir(r, d.Path())
		h.ReserveBytes.Set(n.config.Int64("moldau.disk.reserve.bytes"))
		m.dirs[d] = h
		m.recovery[d] = &recovery{}
	}
	sum := func(of func(*log.Dir) int64) func() int64 {
		return func() (total int64) {
			for _, d := range n.dirs.online {
				total += of(d)
			}
			return total
		}
	}
	telemetry.WatchLogs(r, sum((*log.Dir).OpenFiles), sum((*log.Dir).Rolled), n.producerCount.Load)
	return m
}

// handlers are the handles of the request handlers.
func (m *metrics) handlers() api.Metrics {
	return api.Metrics{Fetches: telemetry.NewWaiting(m.r, "fetch"), Produces: telemetry.NewWaiting(m.r, "produce"),
		Sessions: telemetry.NewFetchSessions(m.r), Logs: m.logs, Topics: m.topics, ReplicaBytes: m.replicas.SentBytes}
}

// flushed gives the observer of a directory's flusher.
func (m *metrics) flushed(d *log.Dir) func(partitions int, group bool, took time.Duration, failed int) {
	h := m.dirs[d]
	return func(partitions int, group bool, took time.Duration, failed int) {
		h.Flushes.Inc()
		h.FlushSeconds.Observe(took)
		h.FlushPartitions.ObserveCount(partitions)
		h.FlushErrors.Add(failed)
		if group {
			h.FileSystemSyncs.Inc()
		} else {
			h.FileSyncs.Add(partitions)
		}
	}
}

func (m *metrics) dirFailed(d *log.Dir) {
	if h := m.dirs[d]; h != nil {
		h.Offline.SetBool(true)
	}
}

func (m *metrics) rotten() { m.logs.Damaged.Inc() }

func (m *metrics) retained(done log.Retained) {
	for _, x := range []struct {
		h telemetry.Deleted
		n log.Dropped
	}{{m.logs.DeletedByStart, done.ByStart}, {m.logs.DeletedBySize, done.BySize}, {m.logs.DeletedByTime, done.ByTime}} {
		x.h.Segments.Add(x.n.Segments)
		x.h.Bytes.Add(int(x.n.Bytes))
	}
}

func (m *metrics) scrubbed(d *log.Dir, bytes int64, bad int) {
	m.dirs[d].ScrubBytes.Add(int(bytes))
	m.dirs[d].ScrubErrors.Add(bad)
}

// scrubbing tells how far a pass of the scrubber over a directory has come.
func (m *metrics) scrubbing(d *log.Dir, done, of int) {
	if of > 0 {
		m.dirs[d].ScrubProgress.SetFloat(float64(done) / float64(of))
	}
}

// scrubbedAll counts a complete pass.
func (m *metrics) scrubbedAll(d *log.Dir) {
	m.dirs[d].ScrubProgress.SetFloat(1)
	m.dirs[d].ScrubPasses.Inc()
}

// recovering says that so many partitions of a directory are about to be recovered.
func (m *metrics) recovering(d *log.Dir, partitions int) {
	r := m.recovery[d]
	r.began = m.n.o.Now()
	r.left.Store(int64(partitions))
	m.dirs[d].RecoveryPartitions.Set(int64(partitions))
}

// cleaned counts a finished compaction.
func (m *metrics) cleaned(r log.Cleaned, took time.Duration) {
	m.cleaner.Seconds.Observe(took)
	m.cleaner.RemovedRecords.Add(int(r.RecordsDropped))
	m.cleaner.RemovedBytes.Add(int(max(0, r.BytesBefore-r.BytesAfter)))
}

// recovered counts what opening a partition after an unclean stop read and cut.
func (m *metrics) recovered(d *log.Dir, x log.Report) {
	h, r := m.dirs[d], m.recovery[d]
	h.RecoveryBytes.Add(int(x.BytesScanned))
	h.RecoveryCutBytes.Add(int(x.CutBytes))
	if r.began.IsZero() {
		return // it was closed in order
	}
	left := r.left.Add(-1)
	h.RecoveryPartitions.Set(left)
	if left == 0 {
		h.RecoverySeconds.SetSeconds(m.n.o.Now().Sub(r.began))
	}
}

// started says that the node serves.
func (m *metrics) started(took time.Duration) {
	m.process.Ready.SetBool(true)
	m.process.StartupSeconds.SetSeconds(took)
}

// stopped says that the node serves no longer.
func (m *metrics) stopped() { m.process.Ready.SetBool(false) }

// imageChanged is told of every image the partitions have caught up with, and how long that took.
func (m *metrics) imageChanged(image *metadata.Image, diff *metadata.Diff, took time.Duration) {
	m.quorum.ApplySeconds.Observe(took)
	for c := range diff.Topics() {
		if c.Removed() {
			m.topics.Forget(c.Name())
		}
	}
	m.quorum.AppliedOffset.Set(int64(image.Offset()))
	m.controller.Topics.Set(int64(image.TopicCount()))
	m.controller.Partitions.Set(int64(image.PartitionCount()))
	m.controller.OfflinePartitions.Set(int64(image.LeaderlessCount()))
	var active, fenced int64
	for b := range image.Brokers() {
		if b.Active() {
			active++
		} else {
			fenced++
		}
	}
	m.controller.ActiveBrokers.Set(active)
	m.controller.FencedBrokers.Set(fenced)
}

// balance counts the partitions that are led by another replica than the preferred one, on the active controller.
func (m *metrics) balance(image *metadata.Image) {
	n := int64(0)
	for t := range image.Topics() {
		for _, p := range t.Partitions() {
			if p.Leader != kafka.NoNode && len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
				n++
			}
		}
	}
	m.controller.ImbalancedPartitions.Set(n)
}

// watchControl publishes how far the controller and the broker are behind.
func (m *metrics) watchControl(c *control, p *publisher) {
	telemetry.WatchControl(m.r, c.queued, func() int64 {
		return max(0, c.committedEnd.Load()-1-int64(p.Image().Offset()))
	})
}

// quorumState publishes the state of the quorum as this node sees it.
func (m *metrics) quorumState(s quorum.State, active bool) {
	m.quorum.Leader.Set(int64(s.Leader))
	m.quorum.Epoch.Set(int64(s.Epoch))
	m.quorum.LogEnd.Set(int64(s.LogEnd))
	m.quorum.HighWatermark.Set(int64(s.HighWatermark))
	m.controller.Active.SetBool(active)
}

// decided counts what the controller wrote down. expired says that time passing made it do so, and no request.
func (m *metrics) decided(records []metadata.Record, expired bool) {
	m.controller.Records.Add(len(records))
	for _, r := range records {
		switch x := r.(type) {
		case *metadata.PartitionChangeRecord:
			switch {
			case x.Leader == nil || *x.Leader == kafka.NoNode:
			case x.LeaderRecoveryState != nil && *x.LeaderRecoveryState == metadata.LeaderRecovering:
				m.controller.UncleanElections.Inc()
			default:
				m.controller.CleanElections.Inc()
			}
		case *metadata.BrokerRegistrationChangeRecord:
			if expired && x.Fenced == metadata.Fence {
				m.controller.HeartbeatsMissed.Inc()
			}
		}
	}
}

// snapshotWritten tells of a metadata snapshot that is in place.
func (m *metrics) snapshotWritten(w *quorum.SnapshotWriter, took time.Duration) {
	m.quorum.Snapshots.Inc()
	m.quorum.SnapshotOffset.Set(int64(w.ID().Offset))
	m.quorum.SnapshotBytes.Set(w.Size())
	m.quorum.SnapshotSeconds.SetSeconds(took)
}

// isrChanged counts a change of an in-sync set.
func (m *metrics) isrChanged(r replica.ISRProposal) {
	if len(r.ISR) < r.Before {
		m.replicas.ISRShrinks.Inc()
	} else {
		m.replicas.ISRExpands.Inc()
	}
}

// maxReplicaLags is how many replicas are shown that are behind.
const maxReplicaLags = 1000

// replicaLags lists the replicas that are behind their leaders, those that are most first.
func (n *Node) replicaLags() []telemetry.ReplicaLag {
	var out []telemetry.ReplicaLag
	for _, p := range n.manager.All() {
		if behind := p.Behind(); behind > 0 {
			leader, _ := p.Leadership()
			tp := p.TopicPartition()
			out = append(out, telemetry.ReplicaLag{Topic: tp.Topic, Partition: strconv.Itoa(int(tp.Partition)),
				Leader: strconv.Itoa(int(leader)), Records: behind})
		}
	}
	slices.SortStableFunc(out, func(a, b telemetry.ReplicaLag) int { return cmp.Compare(b.Records, a.Records) })
	return out[:min(len(out), maxReplicaLags)]
}

// survey is what a look over all partitions adds up.
type survey struct {
	maxLag                                                                    int64
	count, leaders, offline, underMinISR, atMinISR, underReplicated, segments int64
	dirs                                                                      map[*log.Dir]*dirSurvey
}

type dirSurvey struct{ partitions, bytes int64 }

func (s *survey) add(p *replica.Partition) {
	s.count++
	info := p.Info()
	switch info.Role {
	case replica.Leader:
		s.leaders++
		if len(info.ISR) < len(info.Replicas) {
			s.underReplicated++
		}
		if info.UnderMinISR {
			s.underMinISR++
		}
		if info.AtMinISR {
			s.atMinISR++
		}
	case replica.Follower:
		s.maxLag = max(s.maxLag, p.Behind())
	case replica.Offline:
		s.offline++
	}
	l := p.Log()
	if l == nil {
		return
	}
	s.segments += int64(l.View().Segments())
	d := s.dirs[l.Dir()]
	if d == nil {
		d = &dirSurvey{}
		s.dirs[l.Dir()] = d
	}
	d.partitions++
	d.bytes += info.SizeBytes
}

func (m *metrics) surveyed(s *survey) {
	m.partitions.Count.Set(s.count)
	m.partitions.Leaders.Set(s.leaders)
	m.partitions.Offline.Set(s.offline)
	m.partitions.UnderMinISR.Set(s.underMinISR)
	m.partitions.AtMinISR.Set(s.atMinISR)
	m.partitions.UnderReplicated.Set(s.underReplicated)
	m.replicas.MaxLag.Set(s.maxLag)
	m.logs.Segments.Set(s.segments)
	for d, h := range m.dirs {
		x := s.dirs[d]
		if x == nil {
			x = &dirSurvey{}
		}
		h.Partitions.Set(x.partitions)
		h.Bytes.Set(x.bytes)
	}
}

func (m *metrics) space(d *log.Dir, free int64, full bool) {
	m.dirs[d].FreeBytes.Set(free)
	m.dirs[d].Full.SetBool(full)
}

// observer turns what the server reports into metrics.
type observer struct {
	requests    *telemetry.Requests
	connections map[string]*telemetry.Connections
}

func (m *metrics) observer(table *server.Table, listeners []string) *observer {
	names := map[int16]string{}
	for row := range table.Rows() {
		names[row.Key] = kmsg.NameForKey(row.Key)
	}
	o := &observer{requests: telemetry.NewRequests(m.r, names), connections: map[string]*telemetry.Connections{}}
	for _, l := range listeners {
		o.connections[l] = telemetry.NewConnections(m.r, l)
	}
	return o
}

// watchMemory publishes the server's memory budget.
func (m *metrics) watchMemory(b *server.Budget, limits server.BudgetOptions) {
	telemetry.WatchMemory(m.r, []telemetry.Memory{
		{Pool: "bulk", Limit: limits.RequestBytes, Used: func() int64 { return b.Use().Bulk }},
		{Pool: "small", Limit: limits.SmallBytes, Used: func() int64 { return b.Use().Small }},
		{Pool: "internal", Limit: limits.InternalBytes, Used: func() int64 { return b.Use().Internal }},
	}, func() int { return b.Use().Waiting })
}

func (o *observer) ConnectionOpened(c *server.ConnInfo) {
	if h := o.connections[c.Listener]; h != nil {
		h.Opened()
	}
}

func (o *observer) ConnectionClosed(c *server.ConnInfo, why server.CloseReason) {
	if h := o.connections[c.Listener]; h != nil {
		h.Closed(why.String())
	}
}

func (o *observer) ConnectionRefused(listener string, why server.CloseReason) {
	if h := o.connections[listener]; h != nil {
		h.Refused(why.String())
	}
}

func (o *observer) RequestDone(s server.Stats) {
	o.requests.Done(telemetry.Request{Key: s.Key, Code: s.Code, Dropped: s.Dropped, RequestBytes: s.RequestBytes,
		ReplyBytes: s.ReplyBytes, Phases: telemetry.Phases{Memory: s.Memory, Receive: s.Receive, Handle: s.Handle,
			Pending: s.Pending, Queue: s.Queue, Send: s.Send}})
}
