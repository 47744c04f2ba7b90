package group

import (
	"encoding/binary"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// The versions of an offset's value that are written: Kafka's newest, and the only one that has an expiry (KIP-211 took it
// out again, but requests below version 5 may still ask for one).
const (
	offsetValueVersion       = 4
	offsetValueVersionExpiry = 1
)

// offsetRecord is the record of one committed offset.
func offsetRecord(group, topic string, c *committed) coordinator.Record {
	v := kmsg.OffsetCommitValue{
		Version: offsetValueVersion, Offset: int64(c.offset), LeaderEpoch: int32(c.leaderEpoch), Metadata: c.metadata,
		CommitTimestamp: c.commitMs, TopicID: c.topicID,
	}
	if c.expireMs != noExpiry {
		v.Version, v.ExpireTimestamp = offsetValueVersionExpiry, c.expireMs
	}
	r := offsetTombstone(group, topic, c.partition)
	r.Value = v.AppendTo(make([]byte, 0, 48+len(c.metadata)))
	return r
}

// offsetTombstone is the record that takes an offset away, with what open transactions would commit in its place.
func offsetTombstone(group, topic string, partition int32) coordinator.Record {
	k := kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: group, Topic: topic, Partition: partition}
	return coordinator.Record{Key: k.AppendTo(make([]byte, 0, 10+len(group)+len(topic)))}
}

// applyOffset takes a record of an offset over. A group that has only offsets needs no record of its own.
func (m *Machine) applyOffset(r coordinator.Record, at coordinator.Origin) error {
	var k kmsg.OffsetCommitKey
	if err := k.UnsafeReadFrom(r.Key); err != nil {
		return kafka.Errorf(kafka.CorruptMessage, "key of an offset: %v", err)
	}
	g := m.groups[k.Group]
	if r.Value == nil {
		if g != nil {
			g.forget(k.Topic, k.Partition)
		}
		return nil
	}
	c, err := readOffset(r.Value)
	if err != nil {
		return err
	}
	c.partition, c.record = k.Partition, at.Offset
	if g == nil {
		g = m.create(strings.Clone(k.Group))
	}
	if at.Producer.ID == kafka.NoProducer {
		g.offsets.put(k.Topic, c)
		return nil
	}
	m.pend(g, at.Producer.ID, k.Topic, c)
	return nil
}

func readOffset(value []byte) (committed, error) {
	if len(value) < 2 || binary.BigEndian.Uint16(value) > offsetValueVersion {
		return committed{}, kafka.Errorf(kafka.CorruptMessage, "value of an offset of an unknown version")
	}
	var v kmsg.OffsetCommitValue
	v.LeaderEpoch = int32(kafka.NoEpoch)
	if err := v.UnsafeReadFrom(value); err != nil {
		return committed{}, kafka.Errorf(kafka.CorruptMessage, "value of an offset: %v", err)
	}
	c := committed{
		offset: kafka.Offset(v.Offset), leaderEpoch: kafka.LeaderEpoch(v.LeaderEpoch), metadata: strings.Clone(v.Metadata),
		commitMs: v.CommitTimestamp, expireMs: noExpiry, topicID: v.TopicID,
	}
	if v.Version < 3 {
		c.leaderEpoch = kafka.NoEpoch
	}
	if v.Version == offsetValueVersionExpiry {
		c.expireMs = v.ExpireTimestamp
	}
	return c, nil
}
