package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
)

// describeLogDirsRow describes the log directories and the replicas in them (KIP-113). Directories that are
// offline are listed with an error and without replicas.
func (b *Broker) describeLogDirsRow() server.API {
	return server.API{Key: int16(kmsg.DescribeLogDirs), Min: 1, Max: 5, Listener: server.BrokerListener,
		Handle: b.handleDescribeLogDirs}
}

func (b *Broker) handleDescribeLogDirs(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeLogDirsRequest)
	self, _ := b.Image().Broker(b.Self)
	replicas := b.replicasByDir(logDirFilter(req))
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	for _, d := range b.LogDirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.TotalBytes, out.UsableBytes = d.Path, d.TotalBytes, d.UsableBytes
		if d.Dir == nil || d.Err != nil {
			out.ErrorCode, out.TotalBytes, out.UsableBytes = int16(kafka.KafkaStorageError), -1, -1
		} else {
			out.Topics = replicas[d.Dir]
			out.IsCordoned = isCordoned(self, d.Dir)
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return answer(server.Reply{Body: resp})
}

// isCordoned says whether a directory takes no new replicas (KIP-1066).
func isCordoned(self *metadata.Broker, d *log.Dir) bool {
	return self != nil && slices.Contains(self.Cordoned, d.Meta().DirectoryID)
}

// logDirFilter gives what decides whether a replica is asked for; a null list asks for all.
func logDirFilter(req *kmsg.DescribeLogDirsRequest) func(kafka.TopicPartition) bool {
	if req.Topics == nil {
		return func(kafka.TopicPartition) bool { return true }
	}
	asked := make(map[kafka.TopicPartition]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		for _, p := range t.Partitions {
			asked[kafka.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	return func(tp kafka.TopicPartition) bool { return asked[tp] }
}

// replicasByDir lists the replicas of each directory by topic and partition.
func (b *Broker) replicasByDir(
	wanted func(kafka.TopicPartition) bool,
) map[*log.Dir][]kmsg.DescribeLogDirsResponseDirTopic {
	out := map[*log.Dir][]kmsg.DescribeLogDirsResponseDirTopic{}
	for _, p := range b.Partitions.All() {
		tp := p.TopicPartition()
		if !wanted(tp) || p.Role() == replica.Offline {
			continue
		}
		l := p.Log()
		if l == nil {
			continue
		}
		info := p.Info()
		out[l.Dir()] = addReplica(out[l.Dir()], tp.Topic, kmsg.DescribeLogDirsResponseDirTopicPartition{
			Partition: tp.Partition, Size: info.SizeBytes, OffsetLag: max(int64(info.HighWatermark-info.End), 0)})
		if x := p.Move(); x != nil {
			out[x.Target()] = addReplica(out[x.Target()], tp.Topic, kmsg.DescribeLogDirsResponseDirTopicPartition{
				Partition: tp.Partition, Size: x.Size(), OffsetLag: x.Lag(), IsFuture: true})
		}
	}
	return out
}

// addReplica adds a replica to a list that is in the order of the partitions' names.
func addReplica(topics []kmsg.DescribeLogDirsResponseDirTopic, topic string,
	p kmsg.DescribeLogDirsResponseDirTopicPartition) []kmsg.DescribeLogDirsResponseDirTopic {
	if n := len(topics); n == 0 || topics[n-1].Topic != topic {
		topics = append(topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: topic})
	}
	t := &topics[len(topics)-1]
	t.Partitions = append(t.Partitions, p)
	return topics
}
