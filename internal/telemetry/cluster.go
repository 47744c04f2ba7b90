package telemetry

import (
	"runtime"
	"time"
)

// Partitions are the handles of the partitions of a node.
type Partitions struct {
	Count, Leaders        Gauge
	UnderReplicated       Gauge
	UnderMinISR, AtMinISR Gauge
	Offline               Gauge
}

// NewPartitions makes the handles.
func NewPartitions(r *Registry) Partitions {
	return Partitions{
		Count: r.Gauge("moldau_partitions"), Leaders: r.Gauge("moldau_leader_partitions"),
		UnderReplicated: r.Gauge("moldau_under_replicated_partitions"),
		UnderMinISR:     r.Gauge("moldau_under_min_isr_partitions"), AtMinISR: r.Gauge("moldau_at_min_isr_partitions"),
		Offline: r.Gauge("moldau_offline_replicas"),
	}
}

// Replicas are the handles of replication.
type Replicas struct {
	ISRExpands, ISRShrinks, RefusedISR Counter
	Fetchers                           Gauge
	MaxLag                             Gauge
	CopiedBytes, SentBytes             Counter
	FetchErrors                        Counter
}

// NewReplicas makes the handles.
func NewReplicas(r *Registry) Replicas {
	return Replicas{
		ISRExpands: r.Counter("moldau_isr_changes_total", "expand"), ISRShrinks: r.Counter("moldau_isr_changes_total", "shrink"),
		RefusedISR: r.Counter("moldau_isr_changes_total", "refused"), Fetchers: r.Gauge("moldau_replica_fetchers"),
		MaxLag: r.Gauge("moldau_replica_max_lag_records"), CopiedBytes: r.Counter("moldau_replica_copied_bytes_total"),
		SentBytes:   r.Counter("moldau_replica_sent_bytes_total"),
		FetchErrors: r.Counter("moldau_replica_fetch_errors_total"),
	}
}

// Controller are the handles of the controller.
type Controller struct {
	Active                           Gauge
	QueueSeconds, EventSeconds       Histogram
	Records                          Counter
	ActiveBrokers, FencedBrokers     Gauge
	Topics, Partitions               Gauge
	OfflinePartitions                Gauge
	ImbalancedPartitions             Gauge
	CleanElections, UncleanElections Counter
	HeartbeatsMissed                 Counter
}

// NewController makes the handles.
func NewController(r *Registry) Controller {
	return Controller{
		Active:        r.Gauge("moldau_controller_active"),
		QueueSeconds:  r.Histogram("moldau_controller_queue_seconds"),
		EventSeconds:  r.Histogram("moldau_controller_event_seconds"),
		Records:       r.Counter("moldau_controller_records_total"),
		ActiveBrokers: r.Gauge("moldau_controller_brokers", "active"),
		FencedBrokers: r.Gauge("moldau_controller_brokers", "fenced"),
		Topics:        r.Gauge("moldau_controller_topics"), Partitions: r.Gauge("moldau_controller_partitions"),
		OfflinePartitions:    r.Gauge("moldau_controller_offline_partitions"),
		ImbalancedPartitions: r.Gauge("moldau_controller_imbalanced_partitions"),
		CleanElections:       r.Counter("moldau_controller_elections_total", "clean"),
		UncleanElections:     r.Counter("moldau_controller_elections_total", "unclean"),
		HeartbeatsMissed:     r.Counter("moldau_controller_heartbeats_missed_total"),
	}
}

// Quorum are the handles of the metadata quorum and of the broker's copy of the metadata.
type Quorum struct {
	Leader, Epoch                 Gauge
	LogEnd, HighWatermark         Gauge
	CommitSeconds                 Histogram
	Elections                     Counter
	AppliedOffset                 Gauge
	ApplySeconds                  Histogram
	ApplyErrors                   Counter
	Snapshots                     Counter
	SnapshotOffset, SnapshotBytes Gauge
	SnapshotSeconds               Gauge
}

// NewQuorum makes the handles.
func NewQuorum(r *Registry) Quorum {
	return Quorum{
		Leader: r.Gauge("moldau_quorum_leader"), Epoch: r.Gauge("moldau_quorum_epoch"),
		LogEnd: r.Gauge("moldau_quorum_log_end_offset"), HighWatermark: r.Gauge("moldau_quorum_high_watermark"),
		CommitSeconds: r.Histogram("moldau_quorum_commit_seconds"), Elections: r.Counter("moldau_quorum_elections_total"),
		AppliedOffset: r.Gauge("moldau_metadata_applied_offset"),
		ApplySeconds:  r.Histogram("moldau_metadata_apply_seconds"),
		ApplyErrors:   r.Counter("moldau_metadata_errors_total"),
		Snapshots:     r.Counter("moldau_snapshots_total"), SnapshotOffset: r.Gauge("moldau_snapshot_offset"),
		SnapshotBytes: r.Gauge("moldau_snapshot_bytes"), SnapshotSeconds: r.Gauge("moldau_snapshot_seconds"),
	}
}

// Process are the handles of the node as a whole.
type Process struct {
	Ready          Gauge
	StartupSeconds Gauge
}

// WatchControl publishes what is asked for when metrics are read: how many events wait for the controller, and by how
// many committed metadata records the broker is behind.
func WatchControl(r *Registry, queued, lag func() int64) {
	r.GaugeFunc(func() float64 { return float64(queued()) }, "moldau_controller_queue_length")
	r.GaugeFunc(func() float64 { return float64(lag()) }, "moldau_metadata_lag_records")
}

// NewProcess publishes what runs and since when.
func NewProcess(r *Registry, version string, started time.Time) Process {
	r.Gauge("moldau_build_info", version, runtime.Version()).Set(1)
	r.Gauge("moldau_start_time_seconds").SetFloat(float64(started.UnixMilli()) / 1000)
	return Process{Ready: r.Gauge("moldau_ready"), StartupSeconds: r.Gauge("moldau_startup_seconds")}
}
