package log

import (
	"math"

	"moldau/internal/storage/record"
)

// Config is what the topic's configuration says about a partition's log, already resolved and valid. Values are shared
// between the partitions of a topic and never changed in place: SetConfig replaces the whole. Names are Kafka's with the
// unit added where Kafka leaves it out; -1 means no limit where Kafka says so.
type Config struct {
	SegmentBytes       int64 // segment.bytes
	SegmentMs          int64 // segment.ms, measured in message time
	SegmentJitterMs    int64 // segment.jitter.ms: at most so much earlier, spread over partitions
	SegmentIndexBytes  int32 // segment.index.bytes: a full index rolls the segment
	IndexIntervalBytes int32 // index.interval.bytes

	Delete              bool  // cleanup.policy contains delete
	Compact             bool  // cleanup.policy contains compact
	RetentionMs         int64 // retention.ms, -1: no limit
	RetentionBytes      int64 // retention.bytes, -1: no limit
	FileDeleteDelayMs   int64 // file.delete.delay.ms
	DeleteRetentionMs   int64 // delete.retention.ms
	MinCompactionLagMs  int64 // min.compaction.lag.ms
	MaxCompactionLagMs  int64 // max.compaction.lag.ms; bounds the roll time of a compacted log
	MinCleanableDirty   float64
	ProducerExpiryMs    int64 // producer.id.expiration.ms (of the broker)
	FlushAsync          bool  // moldau.flush=async: acknowledgements do not wait for the disk
	FlushMessages       int64 // flush.messages
	FlushMs             int64 // flush.ms
	MaxMessageBytes     int32 // max.message.bytes
	MinInsyncReplicas   int32 // min.insync.replicas
	LogAppendTime       bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMs   int64 // message.timestamp.before.max.ms
	TimestampAfterMs    int64 // message.timestamp.after.max.ms
	KeepCodec           bool  // compression.type=producer
	Codec               record.Codec
	GzipLevel, LZ4Level int // compression.gzip.level, compression.lz4.level
	ZstdLevel           int // compression.zstd.level
	// LeaderThrottled and FollowerThrottled are the partitions of the topic that this broker throttles.
	LeaderThrottled, FollowerThrottled *Throttled
	UncleanElection                    bool
}

// DefaultConfig gives Kafka's defaults.
func DefaultConfig() Config {
	const day = 24 * 60 * 60 * 1000
	return Config{
		SegmentBytes:       1 << 30,
		SegmentMs:          7 * day,
		SegmentIndexBytes:  10 << 20,
		IndexIntervalBytes: 4096,
		Delete:             true,
		RetentionMs:        7 * day,
		RetentionBytes:     -1,
		FileDeleteDelayMs:  60_000,
		DeleteRetentionMs:  day,
		MaxCompactionLagMs: math.MaxInt64,
		MinCleanableDirty:  0.5,
		ProducerExpiryMs:   day,
		FlushMessages:      math.MaxInt64,
		FlushMs:            math.MaxInt64,
		MaxMessageBytes:    1048588,
		MinInsyncReplicas:  1,
		TimestampBeforeMs:  math.MaxInt64,
		TimestampAfterMs:   3_600_000,
		KeepCodec:          true,
		GzipLevel:          -1,
		LZ4Level:           9,
		ZstdLevel:          3,
	}
}

// rollMs is the age in message time at which a segment is rolled, before jitter.
func (c *Config) rollMs() int64 {
	if c.Compact {
		return min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	return c.SegmentMs
}
