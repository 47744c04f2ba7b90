package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// alterReplicaLogDirsRow moves replicas between the log directories of this broker (KIP-113).
func (b *Broker) alterReplicaLogDirsRow() server.API {
	return server.API{Key: int16(kmsg.AlterReplicaLogDirs), Min: 1, Max: 2, Listener: server.BrokerListener,
		Handle: b.handleAlterReplicaLogDirs}
}

// handleAlterReplicaLogDirs answers once every move has begun, or been taken back. A partition that is named with several
// directories goes to the last one, as in Kafka.
func (b *Broker) handleAlterReplicaLogDirs(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.AlterReplicaLogDirsRequest)
	var order []kafka.TopicPartition
	to := map[kafka.TopicPartition]string{}
	for _, d := range req.Dirs {
		dir := strings.Clone(d.Dir)
		for _, t := range d.Topics {
			topic := strings.Clone(t.Topic)
			for _, index := range t.Partitions {
				tp := kafka.TopicPartition{Topic: topic, Partition: index}
				if _, ok := to[tp]; !ok {
					order = append(order, tp)
				}
				to[tp] = dir
			}
		}
	}
	asked := make([]*promise.Promise[error], len(order))
	for i, tp := range order {
		asked[i] = b.AlterLogDir(tp, to[tp])
	}
	return promise.Map(gather(asked), func(errs []error) server.Reply {
		return server.Reply{Body: alterReplicaLogDirsResponse(order, errs)}
	})
}

func alterReplicaLogDirsResponse(order []kafka.TopicPartition, errs []error) kmsg.Response {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	at := map[string]int{}
	for i, tp := range order {
		t, ok := at[tp.Topic]
		if !ok {
			t, at[tp.Topic] = len(resp.Topics), len(resp.Topics)
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = tp.Topic
			resp.Topics = append(resp.Topics, topic)
		}
		p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		p.Partition = tp.Partition
		code := kafka.CodeOf(errs[i])
		if code == kafka.NotLeaderOrFollower {
			code = kafka.ReplicaNotAvailable
		}
		p.ErrorCode = int16(code)
		resp.Topics[t].Partitions = append(resp.Topics[t].Partitions, p)
	}
	return resp
}
