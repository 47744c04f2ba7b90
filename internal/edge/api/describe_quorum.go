package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) describeQuorumRow() server.API {
	return server.API{Key: int16(kmsg.DescribeQuorum), Min: 0, Max: 2, Listener: server.BothListeners, Forward: true,
		Handle: b.describeQuorum}
}

// describeQuorum tells how far the replicas of the metadata log are (KIP-595, KIP-836). Only the partition of the
// metadata may be asked for. Only the leader knows; a broker asks it for its clients.
func (b *Broker) describeQuorum(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeQuorumRequest)
	if !asksForMetadata(req) {
		return answer(server.Reply{Body: refuseDescribeQuorum(req), Code: kafka.UnknownTopicOrPartition})
	}
	body, err := own(req)
	if err != nil {
		return hangUp()
	}
	c.Lease.Release()
	out := &promise.Promise[server.Reply]{}
	b.Quorum().OnDone(func(q QuorumReply) {
		if q.Err != nil && c.Conn.Kind == server.BrokerListener {
			forward(b, c, body, b.requestTimeout(), refuseByLeader).OnDone(func(r server.Reply) { out.Set(r) })
			return
		}
		out.Set(server.Reply{Body: describedQuorum(q), Code: kafka.CodeOf(q.Err)})
	})
	return out
}

func refuseByLeader(_ *kmsg.DescribeQuorumRequest, err error) kmsg.Response {
	return describedQuorum(QuorumReply{Err: err})
}

func asksForMetadata(req *kmsg.DescribeQuorumRequest) bool {
	return len(req.Topics) == 1 && req.Topics[0].Topic == kafka.MetadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
}

// refuseDescribeQuorum answers that none of the partitions asked for is known, even if that of the metadata is among
// them: Kafka does so.
func refuseDescribeQuorum(req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = new("")
	message := "only partition 0 of " + kafka.MetadataTopic + " has a quorum to describe"
	for i := range req.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = strings.Clone(req.Topics[i].Topic)
		for _, p := range req.Topics[i].Partitions {
			out := kmsg.NewDescribeQuorumResponseTopicPartition()
			out.Partition, out.ErrorCode, out.ErrorMessage = p.Partition, int16(kafka.UnknownTopicOrPartition), &message
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func describedQuorum(q QuorumReply) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	resp.ErrorMessage, p.ErrorMessage = new(""), new("")
	if q.Err != nil {
		p.ErrorCode, p.ErrorMessage = int16(kafka.CodeOf(q.Err)), new(kafka.MessageOf(q.Err))
		p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, -1, -1
		p.CurrentVoters, resp.Nodes = replicaStates(q.Description.Voters), quorumNodes(q.Description.Nodes)
	} else {
		d := &q.Description
		p.LeaderID, p.LeaderEpoch, p.HighWatermark = int32(d.Leader), int32(d.Epoch), int64(d.HighWatermark)
		p.CurrentVoters, p.Observers = replicaStates(d.Voters), replicaStates(d.Observers)
		resp.Nodes = quorumNodes(d.Nodes)
	}
	t := kmsg.NewDescribeQuorumResponseTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, []kmsg.DescribeQuorumResponseTopicPartition{p}
	resp.Topics = []kmsg.DescribeQuorumResponseTopic{t}
	return resp
}

func replicaStates(all []quorum.ReplicaDescription) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	var out []kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	for _, r := range all {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = int32(r.Key.ID), r.Key.Directory, int64(r.LogEnd)
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = r.LastFetchMs, r.LastCaughtUpMs
		out = append(out, s)
	}
	return out
}

func quorumNodes(voters []quorum.Voter) []kmsg.DescribeQuorumResponseNode {
	var out []kmsg.DescribeQuorumResponseNode
	for _, v := range voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = int32(v.Key.ID)
		for _, e := range v.Endpoints {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
			n.Listeners = append(n.Listeners, l)
		}
		out = append(out, n)
	}
	return out
}
