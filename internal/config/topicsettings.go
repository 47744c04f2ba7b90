package config

import (
	"math"
	"slices"
	"time"
)

// Codec is the value of compression.type.
type Codec int8

// The codecs, with the protocol's numbers; KeepCodec leaves batches as they were sent.
const (
	KeepCodec    Codec = -1
	Uncompressed Codec = 0
	Gzip         Codec = 1
	Snappy       Codec = 2
	Lz4          Codec = 3
	Zstd         Codec = 4
)

// TopicSettings are the effective settings of one topic, parsed. Sizes are bytes, times milliseconds unless they
// are a time.Duration; math.MaxInt64 means never, as in Kafka.
type TopicSettings struct {
	DeleteOld bool // cleanup.policy holds delete
	Compact   bool // cleanup.policy holds compact

	SegmentBytes       int64
	SegmentMs          int64
	SegmentJitterMs    int64
	IndexIntervalBytes int64
	SegmentIndexBytes  int64
	Preallocate        bool
	FileDeleteDelay    time.Duration

	RetentionMs    int64 // -1: no limit
	RetentionBytes int64 // -1: no limit

	FlushMessages int64
	FlushMs       int64
	AckOnFlush    bool // moldau.flush=ack

	MaxMessageBytes      int
	MaxDecompressedBytes int
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compression          Codec
	GzipLevel            int
	Lz4Level             int
	ZstdLevel            int

	MinInSyncReplicas     int
	UncleanLeaderElection bool

	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	DeleteRetentionMs      int64
	MinCleanableDirtyRatio float64

	RemoteStorage       bool
	LocalRetentionMs    int64
	LocalRetentionBytes int64

	LeaderThrottled   []string // partition:broker pairs or *
	FollowerThrottled []string
}

// CompressionLevel gives the level of the codec; 0 for one without levels.
func (t TopicSettings) CompressionLevel() int {
	switch t.Compression {
	case Gzip:
		return t.GzipLevel
	case Lz4:
		return t.Lz4Level
	case Zstd:
		return t.ZstdLevel
	default:
		return 0
	}
}

// RollMs is the age at which a segment is closed: a compacted topic rolls early enough for max.compaction.lag.ms.
func (t TopicSettings) RollMs() int64 {
	if t.Compact {
		return min(max(t.MaxCompactionLagMs, 0), t.SegmentMs)
	}
	return t.SegmentMs
}

// setters put the value of a key into its field.
var setters = map[string]func(*TopicSettings, Value){
	"cleanup.policy": func(t *TopicSettings, v Value) {
		t.DeleteOld, t.Compact = slices.Contains(v.list, "delete"), slices.Contains(v.list, "compact")
	},
	"segment.bytes":                           func(t *TopicSettings, v Value) { t.SegmentBytes = v.number },
	"segment.ms":                              func(t *TopicSettings, v Value) { t.SegmentMs = v.number },
	"segment.jitter.ms":                       func(t *TopicSettings, v Value) { t.SegmentJitterMs = v.number },
	"index.interval.bytes":                    func(t *TopicSettings, v Value) { t.IndexIntervalBytes = v.number },
	"segment.index.bytes":                     func(t *TopicSettings, v Value) { t.SegmentIndexBytes = v.number },
	"preallocate":                             func(t *TopicSettings, v Value) { t.Preallocate = v.flag },
	"file.delete.delay.ms":                    func(t *TopicSettings, v Value) { t.FileDeleteDelay = millis(v.number) },
	"retention.ms":                            func(t *TopicSettings, v Value) { t.RetentionMs = max(v.number, -1) },
	"retention.bytes":                         func(t *TopicSettings, v Value) { t.RetentionBytes = max(v.number, -1) },
	"flush.messages":                          func(t *TopicSettings, v Value) { t.FlushMessages = v.number },
	"flush.ms":                                func(t *TopicSettings, v Value) { t.FlushMs = v.number },
	"moldau.flush":                            func(t *TopicSettings, v Value) { t.AckOnFlush = v.text != "async" },
	"max.message.bytes":                       func(t *TopicSettings, v Value) { t.MaxMessageBytes = int(v.number) },
	"max.decompressed.message.bytes":          func(t *TopicSettings, v Value) { t.MaxDecompressedBytes = int(v.number) },
	"message.timestamp.type":                  func(t *TopicSettings, v Value) { t.LogAppendTime = v.text == "LogAppendTime" },
	"message.timestamp.before.max.ms":         func(t *TopicSettings, v Value) { t.TimestampBeforeMaxMs = v.number },
	"message.timestamp.after.max.ms":          func(t *TopicSettings, v Value) { t.TimestampAfterMaxMs = v.number },
	"compression.type":                        func(t *TopicSettings, v Value) { t.Compression = codecOf(v.text) },
	"compression.gzip.level":                  func(t *TopicSettings, v Value) { t.GzipLevel = int(v.number) },
	"compression.lz4.level":                   func(t *TopicSettings, v Value) { t.Lz4Level = int(v.number) },
	"compression.zstd.level":                  func(t *TopicSettings, v Value) { t.ZstdLevel = int(v.number) },
	"min.insync.replicas":                     func(t *TopicSettings, v Value) { t.MinInSyncReplicas = int(v.number) },
	"unclean.leader.election.enable":          func(t *TopicSettings, v Value) { t.UncleanLeaderElection = v.flag },
	"min.compaction.lag.ms":                   func(t *TopicSettings, v Value) { t.MinCompactionLagMs = v.number },
	"max.compaction.lag.ms":                   func(t *TopicSettings, v Value) { t.MaxCompactionLagMs = v.number },
	"delete.retention.ms":                     func(t *TopicSettings, v Value) { t.DeleteRetentionMs = v.number },
	"min.cleanable.dirty.ratio":               func(t *TopicSettings, v Value) { t.MinCleanableDirtyRatio = v.real },
	"remote.storage.enable":                   func(t *TopicSettings, v Value) { t.RemoteStorage = v.flag },
	"local.retention.ms":                      func(t *TopicSettings, v Value) { t.LocalRetentionMs = v.number },
	"local.retention.bytes":                   func(t *TopicSettings, v Value) { t.LocalRetentionBytes = v.number },
	"leader.replication.throttled.replicas":   func(t *TopicSettings, v Value) { t.LeaderThrottled = v.list },
	"follower.replication.throttled.replicas": func(t *TopicSettings, v Value) { t.FollowerThrottled = v.list },
	"internal.segment.bytes": func(t *TopicSettings, v Value) {
		if v.present {
			t.SegmentBytes = v.number
		}
	},
}

func millis(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

func codecOf(s string) Codec {
	switch s {
	case "uncompressed":
		return Uncompressed
	case "gzip":
		return Gzip
	case "snappy":
		return Snappy
	case "lz4":
		return Lz4
	case "zstd":
		return Zstd
	default:
		return KeepCodec
	}
}

// TopicDefaults gives the settings of a topic that sets nothing itself. Compute it once for an image and lay the
// topics' own settings over it by With.
func (r *Resolver) TopicDefaults() TopicSettings {
	var t TopicSettings
	b := brokerSettings{r, r.levels()}
	for _, k := range Keys(Topic) {
		if set, ok := setters[k.Name]; ok {
			v, _ := b.resourceValue(k, Map(nil), FromTopic)
			set(&t, v)
		}
	}
	return t
}

// With lays a topic's own settings over t. A value that does not fit its key is passed over.
func (t TopicSettings) With(own Stored) TopicSettings {
	for name, raw := range own.All() {
		k, ok := Lookup(Topic, name)
		set, used := setters[name]
		if !ok || !used || name == "segment.bytes" && hasInternalSize(own) {
			continue
		}
		if v, err := k.Parse(raw); err == nil {
			set(&t, v)
		}
	}
	return t
}

// Topic gives the effective settings of one topic.
func (r *Resolver) Topic(name string) TopicSettings {
	return r.TopicDefaults().With(r.stored(TopicResource, name))
}

// hasInternalSize says whether the size that tests set goes before segment.bytes.
func hasInternalSize(own Stored) bool {
	_, ok := own.Get("internal.segment.bytes")
	return ok
}
