package node

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// answer opens the controller listener of a node that is not founded. It tells who the node is: DescribeCluster answers the
// hash of the list as cluster id, DescribeQuorum no leader and the node itself as the only voter, by its directory.
func (f *founders) answer() (*server.Server, error) {
	row := func(key kmsg.Key, limit int16, resp func() kmsg.Response) server.API {
		return server.API{Key: int16(key), Max: limit, Listener: server.ControllerListener, Internal: true,
			Handle: func(*server.Call, kmsg.Request) *promise.Promise[server.Reply] {
				return promise.Done(server.Reply{Body: resp()})
			}}
	}
	table, err := server.NewTable(server.VersionInfo{}, row(kmsg.DescribeCluster, 2, f.describeCluster),
		row(kmsg.DescribeQuorum, 2, f.describeQuorum))
	if err != nil {
		return nil, err
	}
	s, err := server.New(server.Options{Table: table, Log: f.n.log, Now: f.n.o.Now})
	if err != nil {
		return nil, err
	}
	listeners, err := f.n.listenControllers(s)
	for _, l := range listeners {
		if err == nil {
			err = l.Start()
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (f *founders) describeCluster() kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.EndpointType, resp.ControllerID = f.listHash(), 2, -1
	return resp
}

func (f *founders) describeQuorum() kmsg.Response {
	id := int32(f.numberOf(f.own, nil))
	self := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	self.ReplicaID, self.ReplicaDirectoryID, self.LogEndOffset = id, f.directory, -1
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, -1, -1
	p.CurrentVoters = append(p.CurrentVoters, self)
	t := kmsg.NewDescribeQuorumResponseTopic()
	t.Topic = kafka.MetadataTopic
	t.Partitions = append(t.Partitions, p)
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = id
	e := f.endpoint(f.entries[f.own])
	l := kmsg.NewDescribeQuorumResponseNodeListener()
	l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
	node.Listeners = append(node.Listeners, l)
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.Topics, resp.Nodes = append(resp.Topics, t), append(resp.Nodes, node)
	return resp
}
