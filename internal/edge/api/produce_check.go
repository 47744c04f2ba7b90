package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// validate takes the one batch out of a partition's records and holds it against the topic's configuration,
// before the partition is locked. It may rewrite the batch. A refusal is already in the response.
func (h *produceHandler) validate(op *produceOp, t *produceTarget, transactional bool) (record.Batch, error) {
	batch, err := record.SplitProduced(t.records, op.version)
	if err != nil {
		at := *t
		at.part = nil // found before the log was asked: no log start is told
		op.refuse(&at, err, true)
		return nil, err
	}
	config := t.part.Config()
	switch role := t.part.Role(); {
	case config == nil || role == replica.Offline:
		err = kafka.KafkaStorageError
	case role != replica.Leader:
		err = kafka.NotLeaderOrFollower
	}
	if err != nil {
		op.refuse(t, err, false)
		return nil, err
	}
	checked, err := batch.Validate(h.checks(op, t.part, batch, config, transactional))
	if err != nil {
		op.refuse(t, err, true)
		op.refuseRecords(t, checked.RecordErrors)
		return nil, err
	}
	if checked.Rewritten {
		h.b.Metrics.rewritten()
	}
	return checked.Batch, nil
}

func (h *produceHandler) checks(
	op *produceOp, part *replica.Partition, batch record.Batch, c *log.Config, transactional bool,
) record.Checks {
	out := record.Checks{
		Partition: part.TopicPartition(), ProduceVersion: op.version,
		MaxBatchBytes: int(c.MaxMessageBytes), MaxSegmentBytes: int(c.SegmentBytes),
		AllowTransactional: transactional, RequireKeys: c.Compact,
		Now: op.call.Now, LogAppendTime: c.LogAppendTime,
		BeforeMaxMs: c.TimestampBeforeMs, AfterMaxMs: c.TimestampAfterMs,
		TargetCodec: record.KeepCodec,
	}
	if !c.KeepCodec {
		out.TargetCodec = c.Codec
		switch c.Codec {
		case record.Gzip:
			out.Level = c.GzipLevel
		case record.LZ4:
			out.Level = c.LZ4Level
		case record.Zstd:
			out.Level = c.ZstdLevel
		}
	}
	if batch.Codec() != record.Uncompressed {
		out.MaxExpandedBytes = h.maxExpanded(op.image, out.Partition.Topic, len(batch))
	}
	return out
}

const maxDecompressed = "max.decompressed.message.bytes"

// expandedDefault is what an image says of max.decompressed.message.bytes for topics that do not set it.
type expandedDefault struct {
	image *metadata.Image
	bytes int64
}

// maxExpanded bounds what a compressed batch may expand to.
func (h *produceHandler) maxExpanded(image *metadata.Image, topic string, size int) int64 {
	limit := max(h.expandedMax, h.expandedRatio*int64(size))
	if _, ok := image.Config(metadata.TopicResource, topic).Get(maxDecompressed); ok {
		return min(limit, h.b.Resolver(image).TopicValue(topic, maxDecompressed).Int64())
	}
	d := h.expandedTopic.Load()
	if d == nil || d.image != image {
		d = &expandedDefault{image, h.b.Resolver(image).TopicValue("", maxDecompressed).Int64()}
		h.expandedTopic.Store(d)
	}
	return min(limit, d.bytes)
}

// spoilt looks at the first batch of each partition for what spoils the whole request, as Apache Kafka does before it looks
// for any partition: a transactional batch without a transactional id, or bytes that cannot be the head of a batch.
func spoilt(req *kmsg.ProduceRequest) error {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			records := t.Partitions[j].Records
			if _, _, err := record.EntrySize(records); errors.Is(err, record.ErrCorrupt) {
				return err
			}
			if batch, _, err := record.Split(records); err == nil && batch.IsTransactional() {
				if req.TransactionID == nil {
					return kafka.TransactionalIDAuthorizationFailed
				}
				return nil // the first such batch ends the search
			}
		}
	}
	return nil
}

// refuseRecords tells which records were wrong (KIP-467).
func (op *produceOp) refuseRecords(t *produceTarget, errors []record.RecordError) {
	if len(errors) == 0 || op.version < 8 {
		return
	}
	p := &op.resp.Topics[t.topic].Partitions[t.at]
	for _, e := range errors {
		out := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		out.RelativeOffset = e.Index
		if e.Message != "" {
			out.ErrorMessage = &e.Message
		}
		p.ErrorRecords = append(p.ErrorRecords, out)
	}
}
