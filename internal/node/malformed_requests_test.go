package node

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lie is a record batch of which everything can be wrong.
type lie struct {
	base       int64
	epoch      int32
	magic      int8
	attributes int16
	last       int32 // -2: right
	first, max int64 // 0: now, and right
	producer   int64
	pepoch     int16
	sequence   int32
	count      int32 // -2: right
	values     []string
	nullKeys   bool
	badCRC     bool
	length     int32  // added to the right length
	payload    []byte // replaces the records
}

func batchOf(values ...string) lie {
	return lie{epoch: -1, magic: 2, last: -2, count: -2, producer: -1, pepoch: -1, sequence: -1, values: values}
}

// recordOf builds a record with its length: attributes, deltas, key, value and the number of headers.
func recordOf(delta int, key, value []byte, rest ...byte) []byte {
	body := []byte{0, 0}
	body = binary.AppendVarint(body, int64(delta))
	for _, b := range [][]byte{key, value} {
		if b == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = append(binary.AppendVarint(body, int64(len(b))), b...)
	}
	if rest == nil {
		rest = []byte{0}
	}
	body = append(body, rest...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func (l lie) bytes() []byte {
	records := l.payload
	if records == nil {
		for i, v := range l.values {
			key := []byte("k")
			if l.nullKeys {
				key = nil
			}
			records = append(records, recordOf(i, key, []byte(v))...)
		}
	}
	if l.first == 0 {
		l.first = time.Now().UnixMilli()
	}
	if l.max == 0 {
		l.max = l.first
	}
	if l.last == -2 {
		l.last = int32(len(l.values) - 1)
	}
	if l.count == -2 {
		l.count = int32(len(l.values))
	}
	b := make([]byte, 61, 61+len(records))
	binary.BigEndian.PutUint64(b, uint64(l.base))
	binary.BigEndian.PutUint32(b[8:], uint32(int32(61-12+len(records))+l.length))
	binary.BigEndian.PutUint32(b[12:], uint32(l.epoch))
	b[16] = byte(l.magic)
	binary.BigEndian.PutUint16(b[21:], uint16(l.attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(l.last))
	binary.BigEndian.PutUint64(b[27:], uint64(l.first))
	binary.BigEndian.PutUint64(b[35:], uint64(l.max))
	binary.BigEndian.PutUint64(b[43:], uint64(l.producer))
	binary.BigEndian.PutUint16(b[51:], uint16(l.pepoch))
	binary.BigEndian.PutUint32(b[53:], uint32(l.sequence))
	binary.BigEndian.PutUint32(b[57:], uint32(l.count))
	b = append(b, records...)
	crc := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
	if l.badCRC {
		crc++
	}
	binary.BigEndian.PutUint32(b[17:], crc)
	return b
}

func produceRequest(version int16, topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	return p
}

func fetchRequest(version int16, topic string, partition int32, offset int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = version, 0, 1, 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, fetchPartition(partition, offset))
	r.Topics = append(r.Topics, t)
	return r
}

func listOffsets(topic string, partitions ...int32) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = 6, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = i, -1, -1
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func metadataOf(topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 9
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	return r
}

func deleteTopics(topics ...string) *kmsg.DeleteTopicsRequest {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version, r.TimeoutMillis = 6, 5000
	for _, name := range topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	return r
}

func describeConfigs(topic string) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version = 4
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	r.Resources = append(r.Resources, x)
	return r
}

func createPartitions(topic string, count int32) *kmsg.CreatePartitionsRequest {
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Version, r.TimeoutMillis = 2, 5000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	r.Topics = append(r.Topics, t)
	return r
}

func deleteRecords(topic string, offset int64, partitions ...int32) *kmsg.DeleteRecordsRequest {
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.Version, r.TimeoutMillis = 2, 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	for _, i := range append(partitions, 0) {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = i, offset
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func offsetForEpoch(topic string, epoch int32) *kmsg.OffsetForLeaderEpochRequest {
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.Version, r.ReplicaID = 4, -2
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.LeaderEpoch, p.CurrentLeaderEpoch = epoch, -1
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}
