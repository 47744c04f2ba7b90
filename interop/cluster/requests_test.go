package cluster

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordTime is the time of all records.
const recordTime = 1700000000000

// batch is a batch of n small records.
func batch(n int) []byte {
	var records []byte
	for i := range n {
		r := kmsg.NewRecord()
		r.OffsetDelta, r.Value = int32(i), []byte{'v'}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	b := kmsg.NewRecordBatch()
	b.PartitionLeaderEpoch, b.Magic, b.LastOffsetDelta, b.NumRecords = -1, 2, int32(n-1), int32(n)
	b.FirstTimestamp, b.MaxTimestamp = recordTime, recordTime
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = records
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

func (s *script) produce(version, acks int16, topic string, partitions ...int32) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 10000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, s.topics[topic]
	for _, p := range partitions {
		x := kmsg.NewProduceRequestTopicPartition()
		x.Partition, x.Records = p, batch(2)
		t.Partitions = append(t.Partitions, x)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// fetchSpec is one partition of a Fetch.
type fetchSpec struct {
	version          int16
	partition        int32
	epoch            int32 // the leader's, -1 for unknown
	offset           int64
	lastFetchedEpoch int32
	replica          int32 // -1 for a consumer
	brokerEpoch      int64
}

// consumer fetches one partition without knowing more of it than its offset.
func consumer(version int16, partition int32, offset int64) fetchSpec {
	return fetchSpec{version: version, partition: partition, epoch: -1, offset: offset, lastFetchedEpoch: -1, replica: -1,
		brokerEpoch: -1}
}

func (s *script) fetch(topic string, f fetchSpec) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = f.version, 100, 1, 1<<20, -1
	r.ReplicaID = f.replica
	if f.version >= 15 {
		r.ReplicaState.ID, r.ReplicaState.Epoch = f.replica, f.brokerEpoch
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = f.partition, f.epoch, f.offset, f.lastFetchedEpoch
	p.LogStartOffset, p.PartitionMaxBytes = -1, 1<<20
	if f.replica >= 0 {
		p.LogStartOffset = 0
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, s.topics[topic]
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func listOffsets(version int16, epoch int32, at int64, topic string, partition int32) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID, r.TimeoutMillis = version, -1, 5000
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = partition, epoch, at
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func offsetForEpoch(version int16, current, epoch int32, topic string, partition int32) *kmsg.OffsetForLeaderEpochRequest {
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.Version, r.ReplicaID = version, -1
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, epoch
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// reassign moves one partition; replicas nil cancels.
func reassign(topic string, partition int32, replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Version, r.TimeoutMillis = 1, 30000
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, replicas
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func listReassignments(topic string, partitions ...int32) *kmsg.ListPartitionReassignmentsRequest {
	r := kmsg.NewPtrListPartitionReassignmentsRequest()
	r.TimeoutMillis = 30000
	if topic != "" {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		r.Topics = append(r.Topics, t)
	}
	return r
}

// elect asks for elections; kind 0 prefers, 1 is unclean.
func elect(version int16, kind int8, topic string, partitions ...int32) *kmsg.ElectLeadersRequest {
	r := kmsg.NewPtrElectLeadersRequest()
	r.Version, r.ElectionType, r.TimeoutMillis = version, kind, 30000
	if topic != "" {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		r.Topics = append(r.Topics, t)
	}
	return r
}

func describeCluster(version int16, endpoints int8, fenced bool) *kmsg.DescribeClusterRequest {
	r := kmsg.NewPtrDescribeClusterRequest()
	r.Version, r.EndpointType, r.IncludeFencedBrokers = version, endpoints, fenced
	return r
}

func unregister(id int32) *kmsg.UnregisterBrokerRequest {
	r := kmsg.NewPtrUnregisterBrokerRequest()
	r.BrokerID = id
	return r
}

func createTopics(validate bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis, r.ValidateOnly, r.Topics = 7, 30000, validate, topics
	return r
}

// counted is a topic whose replicas the cluster places.
func counted(topic string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, replicas
	return t
}

func createPartitions(topic string, count int32, assignments ...[]int32) *kmsg.CreatePartitionsRequest {
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Version, r.TimeoutMillis = 3, 30000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	for _, a := range assignments {
		x := kmsg.NewCreatePartitionsRequestTopicAssignment()
		x.Replicas = a
		t.Assignment = append(t.Assignment, x)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// alterConfig sets one key, or takes it away when value is empty.
func alterConfig(kind kmsg.ConfigResourceType, name, key, value string) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version = 1
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kind, name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, &value
	if value == "" {
		c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	x.Configs = append(x.Configs, c)
	r.Resources = append(r.Resources, x)
	return r
}

func describeConfig(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version, r.IncludeSynonyms = 4, true
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName, x.ConfigNames = kind, name, keys
	r.Resources = append(r.Resources, x)
	return r
}

func updateFeature(version int16, name string, level int16, upgrade int8, validate bool) *kmsg.UpdateFeaturesRequest {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version, r.TimeoutMillis, r.ValidateOnly = version, 30000, validate
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType, f.AllowDowngrade = name, level, upgrade, upgrade > 1
	r.FeatureUpdates = append(r.FeatureUpdates, f)
	return r
}
