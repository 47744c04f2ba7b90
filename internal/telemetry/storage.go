package telemetry

import (
	"sync"

	"moldau/internal/kafka"
)

// Dir are the handles of one log directory.
type Dir struct {
	Offline, Full              Gauge
	FreeBytes, ReserveBytes    Gauge
	Partitions, Bytes          Gauge
	Flushes                    Counter
	FlushSeconds               Histogram
	FlushPartitions            Histogram // partitions of a round
	FileSyncs, FileSystemSyncs Counter
	FlushErrors                Counter
	RecoveryPartitions         Gauge // still to do
	RecoveryBytes              Counter
	RecoveryCutBytes           Counter
	RecoverySeconds            Gauge
	ScrubBytes, ScrubErrors    Counter
	ScrubPasses                Counter
	ScrubProgress              Gauge
}

// NewDir makes the handles of a directory.
func NewDir(r *Registry, dir string) *Dir {
	return &Dir{
		Offline: r.Gauge("moldau_dir_offline", dir), Full: r.Gauge("moldau_dir_full", dir),
		FreeBytes: r.Gauge("moldau_dir_free_bytes", dir), ReserveBytes: r.Gauge("moldau_dir_reserve_bytes", dir),
		Partitions: r.Gauge("moldau_dir_partitions", dir), Bytes: r.Gauge("moldau_dir_bytes", dir),
		Flushes: r.Counter("moldau_flushes_total", dir), FlushSeconds: r.Histogram("moldau_flush_seconds", dir),
		FlushPartitions: r.Histogram("moldau_flush_partitions", dir),
		FileSyncs:       r.Counter("moldau_flush_syncs_total", dir, "fsync"),
		FileSystemSyncs: r.Counter("moldau_flush_syncs_total", dir, "syncfs"),
		FlushErrors:     r.Counter("moldau_flush_errors_total", dir),

		RecoveryPartitions: r.Gauge("moldau_recovery_partitions", dir),
		RecoveryBytes:      r.Counter("moldau_recovery_bytes_total", dir),
		RecoveryCutBytes:   r.Counter("moldau_recovery_cut_bytes_total", dir),
		RecoverySeconds:    r.Gauge("moldau_recovery_seconds", dir),

		ScrubBytes: r.Counter("moldau_scrub_bytes_total", dir), ScrubErrors: r.Counter("moldau_scrub_errors_total", dir),
		ScrubPasses:   r.Counter("moldau_scrub_passes_total", dir),
		ScrubProgress: r.Gauge("moldau_scrub_progress_ratio", dir),
	}
}

// Cleaner are the handles of compaction.
type Cleaner struct {
	Running, Waiting, Uncleanable Gauge // partitions
	DirtyRatio                    Gauge // the highest
	Seconds                       Histogram
	Bytes                         Counter // read and written
	RemovedRecords, RemovedBytes  Counter
	Failures                      Counter
}

// NewCleaner makes the handles.
func NewCleaner(r *Registry) Cleaner {
	return Cleaner{
		Running: r.Gauge("moldau_cleaner_running_partitions"), Waiting: r.Gauge("moldau_cleaner_waiting_partitions"),
		Uncleanable: r.Gauge("moldau_cleaner_uncleanable_partitions"),
		DirtyRatio:  r.Gauge("moldau_cleaner_dirty_ratio"), Seconds: r.Histogram("moldau_cleaner_seconds"),
		Bytes:          r.Counter("moldau_cleaner_bytes_total"),
		RemovedRecords: r.Counter("moldau_cleaner_removed_records_total"),
		RemovedBytes:   r.Counter("moldau_cleaner_removed_bytes_total"),
		Failures:       r.Counter("moldau_cleaner_failures_total"),
	}
}

// Logs are the handles of all logs of a node together.
type Logs struct {
	Records, Batches, Bytes Counter // appended as leader
	FetchedBytes            Counter
	Duplicates              Counter
	Recompressed, Damaged   Counter
	Segments                Gauge
	DeletedByTime           Deleted
	DeletedBySize           Deleted
	DeletedByStart          Deleted
	ProducerIDsExpired      Counter
	ProducerIDsRefused      Counter

	r *Registry
}

// Deleted counts segments deleted for one reason.
type Deleted struct{ Segments, Bytes Counter }

// NewLogs makes the handles.
func NewLogs(r *Registry) *Logs {
	deleted := func(reason string) Deleted {
		return Deleted{r.Counter("moldau_segments_deleted_total", reason), r.Counter("moldau_deleted_bytes_total",
			reason)}
	}
	return &Logs{
		Records: r.Counter("moldau_appended_records_total"), Batches: r.Counter("moldau_appended_batches_total"),
		Bytes: r.Counter("moldau_appended_bytes_total"), FetchedBytes: r.Counter("moldau_fetched_bytes_total"),
		Duplicates:    r.Counter("moldau_duplicate_batches_total"),
		Recompressed:  r.Counter("moldau_recompressed_batches_total"),
		Damaged:       r.Counter("moldau_damaged_batches_total"),
		Segments:      r.Gauge("moldau_segments"),
		DeletedByTime: deleted("time"), DeletedBySize: deleted("size"), DeletedByStart: deleted("start"),
		ProducerIDsExpired: r.Counter("moldau_producer_ids_expired_total"),
		ProducerIDsRefused: r.Counter("moldau_producer_ids_refused_total"), r: r,
	}
}

// WatchLogs publishes what is asked for when metrics are read: open files, segments begun, and producer ids remembered.
func WatchLogs(r *Registry, openFiles, rolled, producers func() int64) {
	r.GaugeFunc(func() float64 { return float64(openFiles()) }, "moldau_open_files")
	r.CounterFunc(func() float64 { return float64(rolled()) }, "moldau_segments_rolled_total")
	r.GaugeFunc(func() float64 { return float64(producers()) }, "moldau_producer_ids")
}

// Rejected counts a batch that was refused.
func (l *Logs) Rejected(code kafka.Code) {
	l.r.Counter("moldau_rejected_batches_total", code.Name()).Inc()
}

// TopicTraffic are the handles of one topic.
type TopicTraffic struct{ Records, Bytes, FetchedBytes Counter }

// Topics makes the handles of topics when they are first used and forgets those of deleted topics.
type Topics struct {
	r  *Registry
	mu sync.RWMutex
	m  map[string]*TopicTraffic
}

// NewTopics makes an empty set.
func NewTopics(r *Registry) *Topics { return &Topics{r: r, m: map[string]*TopicTraffic{}} }

// topicMetrics are the metrics labelled by topic.
var topicMetrics = [...]string{"moldau_topic_appended_records_total", "moldau_topic_appended_bytes_total",
	"moldau_topic_fetched_bytes_total"}

// Of gives the handles of a topic. Keep them: a partition asks once.
func (t *Topics) Of(topic string) *TopicTraffic {
	t.mu.RLock()
	h, ok := t.m[topic]
	t.mu.RUnlock()
	if ok {
		return h
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.m[topic]; ok {
		return h
	}
	h = &TopicTraffic{t.r.Counter(topicMetrics[0], topic), t.r.Counter(topicMetrics[1], topic),
		t.r.Counter(topicMetrics[2], topic)}
	t.m[topic] = h
	return h
}

// Forget drops the metrics of a deleted topic.
func (t *Topics) Forget(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.m[topic]; !ok {
		return
	}
	delete(t.m, topic)
	for _, name := range topicMetrics {
		t.r.Remove(name, topic)
	}
}
