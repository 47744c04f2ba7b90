package node

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/storage/log"
	"moldau/internal/telemetry"
)

// metrics are the handles the node writes to, resolved once.
type metrics struct {
	n          *Node
	r          *telemetry.Registry
	dirs       map[*log.Dir]*telemetry.Dir
	logs       *telemetry.Logs
	partitions telemetry.Partitions
	controller telemetry.Controller
	quorum     telemetry.Quorum
	process    telemetry.Process
}

func newMetrics(r *telemetry.Registry, n *Node) *metrics {
	m := &metrics{n: n, r: r, dirs: map[*log.Dir]*telemetry.Dir{}, logs: telemetry.NewLogs(r),
		partitions: telemetry.NewPartitions(r), controller: telemetry.NewController(r), quorum: telemetry.NewQuorum(r),
		process: telemetry.NewProcess(r, n.o.Version, n.started)}
	for _, d := range n.dirs.online {
		h := telemetry.NewDir(r, d.Path())
		h.ReserveBytes.Set(n.config.Int64("moldau.disk.reserve.bytes"))
		m.dirs[d] = h
	}
	return m
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

func (m *metrics) rotten() { m.r.Unexpected("stored-batch") }

func (m *metrics) retained(done log.Retained) {
	if done.Segments > 0 {
		m.logs.DeletedByTime.Segments.Add(done.Segments)
		m.logs.DeletedByTime.Bytes.Add(int(done.Bytes))
	}
}

func (m *metrics) scrubbed(d *log.Dir, bytes int64, bad int) {
	m.dirs[d].ScrubBytes.Add(int(bytes))
	m.dirs[d].ScrubErrors.Add(bad)
}

// recovered counts what opening a partition after an unclean stop read and cut.
func (m *metrics) recovered(d *log.Dir, r log.Report) {
	m.dirs[d].RecoveryBytes.Add(int(r.BytesScanned))
	m.dirs[d].RecoveryCutBytes.Add(int(r.CutBytes))
}

// started says that the node serves.
func (m *metrics) started(took time.Duration) {
	m.process.Ready.SetBool(true)
	m.process.StartupSeconds.SetSeconds(took)
}

// imageChanged is told of every image the partitions have caught up with.
func (m *metrics) imageChanged(image *metadata.Image) {
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

// survey is what a look over all partitions adds up.
type survey struct {
	count, leaders, offline, underMinISR, atMinISR, underReplicated, segments, producers int64
	dirs                                                                                 map[*log.Dir]*dirSurvey
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
	case replica.Offline:
		s.offline++
	}
	s.producers += int64(p.ProducerCount())
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
	m.partitions.UnderReplicated.Set(s.underReplicated)
	m.logs.Segments.Set(s.segments)
	m.logs.ProducerIDs.Set(s.producers)
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
