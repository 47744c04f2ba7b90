package node

import (
	"fmt"
	"math"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// logConfig turns a topic's resolved settings into what its logs go by.
func logConfig(t config.TopicSettings, producerExpiryMs int64, self kafka.NodeID) *log.Config {
	return &log.Config{
		SegmentBytes:       t.SegmentBytes,
		SegmentMs:          t.SegmentMs,
		SegmentJitterMs:    t.SegmentJitterMs,
		SegmentIndexBytes:  int32(min(t.SegmentIndexBytes, math.MaxInt32)),
		IndexIntervalBytes: int32(min(t.IndexIntervalBytes, math.MaxInt32)),
		Delete:             t.DeleteOld,
		Compact:            t.Compact,
		RetentionMs:        t.RetentionMs,
		RetentionBytes:     t.RetentionBytes,
		FileDeleteDelayMs:  t.FileDeleteDelay.Milliseconds(),
		DeleteRetentionMs:  t.DeleteRetentionMs,
		MinCompactionLagMs: t.MinCompactionLagMs,
		MaxCompactionLagMs: t.MaxCompactionLagMs,
		MinCleanableDirty:  t.MinCleanableDirtyRatio,
		ProducerExpiryMs:   producerExpiryMs,
		FlushAsync:         !t.AckOnFlush,
		FlushMessages:      t.FlushMessages,
		FlushMs:            t.FlushMs,
		MaxMessageBytes:    int32(min(t.MaxMessageBytes, math.MaxInt32)),
		MinInsyncReplicas:  int32(min(t.MinInSyncReplicas, math.MaxInt32)),
		LogAppendTime:      t.LogAppendTime,
		TimestampBeforeMs:  t.TimestampBeforeMaxMs,
		TimestampAfterMs:   t.TimestampAfterMaxMs,
		KeepCodec:          t.Compression == config.KeepCodec,
		Codec:              record.Codec(max(t.Compression, 0)),
		GzipLevel:          t.GzipLevel,
		LZ4Level:           t.Lz4Level,
		ZstdLevel:          t.ZstdLevel,
		LeaderThrottled:    throttledOn(t.LeaderThrottled, self),
		FollowerThrottled:  throttledOn(t.FollowerThrottled, self),
		UncleanElection:    t.UncleanLeaderElection,
	}
}

// throttledOn gives what a list of throttled replicas says of one broker: its entries are partition:broker, or * for all.
func throttledOn(list []string, self kafka.NodeID) *log.Throttled {
	var out log.Throttled
	for _, entry := range list {
		var partition, broker int32
		switch n, _ := fmt.Sscanf(entry, "%d:%d", &partition, &broker); {
		case entry == "*":
			out.All = true
		case n == 2 && kafka.NodeID(broker) == self:
			out.Partitions = append(out.Partitions, partition)
		}
	}
	if !out.All && len(out.Partitions) == 0 {
		return nil
	}
	return &out
}
