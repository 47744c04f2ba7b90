package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// smallFile gives what dumps a file that is known by its whole name.
func (d *dump) smallFile(base string) func(string) error {
	switch base {
	case "leader-epoch-checkpoint":
		return d.epochs
	case "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
		"cleaner-offset-checkpoint":
		return d.offsets
	case "partition.metadata":
		return d.partitionMetadata
	case "meta.properties":
		return d.metaProperties
	case "quorum-state":
		return d.quorumState
	}
	return nil
}

// malformed counts a file that breaks its format as damage; other errors stay.
func (d *dump) malformed(err error) error {
	var format *log.FormatError
	if errors.As(err, &format) {
		d.damage("%s", format.Reason)
		return nil
	}
	return err
}

func (d *dump) epochs(name string) error {
	epochs, err := log.ReadEpochs(vfs.OS(), filepath.Dir(name))
	for _, e := range epochs {
		d.emit("epoch", field{"epoch", e.Epoch}, field{"startOffset", e.Start})
	}
	return d.malformed(err)
}

func (d *dump) offsets(name string) error {
	offsets, err := log.ReadCheckpoint(vfs.OS(), name)
	partitions := slices.SortedFunc(maps.Keys(offsets), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, tp := range partitions {
		d.emit("checkpoint", field{"topic", tp.Topic}, field{"partition", tp.Partition}, field{"offset", offsets[tp]})
	}
	return d.malformed(err)
}

func (d *dump) partitionMetadata(name string) error {
	id, err := log.ReadPartitionMetadata(vfs.OS(), filepath.Dir(name))
	if err == nil {
		d.emit("partition", field{"topicId", id})
	}
	return d.malformed(err)
}

func (d *dump) metaProperties(name string) error {
	m, err := log.ReadMetaProperties(vfs.OS(), filepath.Dir(name))
	if err == nil {
		d.emit("directory", field{"clusterId", m.ClusterID}, field{"nodeId", m.NodeID},
			field{"directoryId", m.DirectoryID}, field{"version", m.Version})
	}
	return d.malformed(err)
}

func (d *dump) quorumState(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		d.damage("it is not JSON")
		return nil
	}
	d.emit("quorum", field{"state", json.RawMessage(data)})
	return nil
}

func (d *dump) producerSnapshot(name string) error {
	var p log.Producers
	err := p.LoadSnapshot(vfs.OS(), filepath.Dir(name), baseOf(name), time.UnixMilli(0), math.MaxInt64)
	for _, i := range p.All() {
		d.emit("producer", field{"producerId", i.ProducerID}, field{"epoch", i.Epoch},
			field{"coordinatorEpoch", i.CoordinatorEpoch}, field{"lastSequence", i.LastSequence},
			field{"lastOffset", i.LastOffset}, field{"offsetDelta", i.OffsetDelta},
			field{"lastTimestamp", i.LastTimestampMs}, field{"openTransactionFirstOffset", i.TxnStart})
	}
	return d.malformed(err)
}
