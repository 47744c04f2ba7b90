package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) metadataRow() server.API {
	return server.API{Key: int16(kmsg.Metadata), Min: 0, Max: 13, Listener: server.BrokerListener, Handle: b.metadata}
}

// metadata tells where things are: brokers, topics, partitions and their leaders. Topics that do not exist are created
// first if the client and auto.create.topics.enable want it; until then they are unknown.
func (b *Broker) metadata(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.MetadataRequest)
	resp := kmsg.NewPtrMetadataResponse()
	if err := checkMetadata(req); err != nil {
		refuseMetadata(resp, req, err)
		return answer(server.Reply{Body: resp, Code: kafka.CodeOf(err)})
	}
	v := b.view(c.Conn)
	resp.ClusterID = &b.ClusterID
	resp.ControllerID = -1
	for _, e := range v.brokers {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = int32(e.id), e.host, e.port, e.rack
		resp.Brokers = append(resp.Brokers, broker)
		if resp.ControllerID < 0 || e.id == b.Self {
			resp.ControllerID = int32(e.id) // any broker passes requests on to the controller: best this one
		}
	}
	resp.AuthorizedOperations = operationsIf(req.IncludeClusterAuthorizedOperations, allClusterOperations)
	m := metadataAnswer{clusterView: v, req: req,
		operations: operationsIf(req.IncludeTopicAuthorizedOperations, allTopicOperations)}
	resp.Topics = m.topics()
	b.autoCreate(c, m.missing)
	return answer(server.Reply{Body: resp, Code: m.first})
}

// checkMetadata refuses requests that name a topic neither by name nor by id, and ids where the version has none
// (KIP-516: versions 10 and 11 carry the field and do not serve it).
func checkMetadata(req *kmsg.MetadataRequest) error {
	for i := range req.Topics {
		switch t := &req.Topics[i]; {
		case t.TopicID != [16]byte{} && req.Version < 12:
			return kafka.Errorf(kafka.InvalidRequest, "topics are found by id from version 12 on")
		case t.Topic == nil && t.TopicID == [16]byte{}:
			return kafka.Errorf(kafka.InvalidRequest, "a topic without name and id")
		}
	}
	return nil
}

// refuseMetadata answers an error for every topic, the way Kafka does; versions below 13 have no other place for it.
func refuseMetadata(resp *kmsg.MetadataResponse, req *kmsg.MetadataRequest, err error) {
	resp.ErrorCode = int16(kafka.CodeOf(err))
	for i := range req.Topics {
		name := ""
		if t := &req.Topics[i]; t.Topic != nil {
			name = strings.Clone(*t.Topic)
		}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = &name, req.Topics[i].TopicID, resp.ErrorCode
		resp.Topics = append(resp.Topics, t)
	}
}

// metadataAnswer makes the topics of one answer.
type metadataAnswer struct {
	clusterView
	req        *kmsg.MetadataRequest
	operations int32
	missing    []string // names that could be created
	first      kafka.Code
}

// topics lists every topic for a null list (an empty one in version 0), else those asked for, once each.
func (m *metadataAnswer) topics() []kmsg.MetadataResponseTopic {
	if m.req.Topics == nil || m.req.Version == 0 && len(m.req.Topics) == 0 {
		out := make([]kmsg.MetadataResponseTopic, 0, m.image.TopicCount())
		for t := range m.image.Topics() {
			out = append(out, m.describe(t))
		}
		return out
	}
	out := make([]kmsg.MetadataResponseTopic, 0, len(m.req.Topics))
	ids, names := map[kafka.UUID]bool{}, map[string]bool{}
	for i := range m.req.Topics {
		asked := &m.req.Topics[i]
		switch id := kafka.UUID(asked.TopicID); {
		case !id.IsZero() && !ids[id]:
			ids[id] = true
			out = append(out, m.byID(id))
		case id.IsZero() && !names[*asked.Topic]:
			names[*asked.Topic] = true
			out = append(out, m.byName(*asked.Topic))
		}
	}
	for i := range out {
		if m.first == 0 {
			m.first = kafka.Code(out[i].ErrorCode)
		}
	}
	return out
}

func (m *metadataAnswer) byID(id kafka.UUID) kmsg.MetadataResponseTopic {
	if t, ok := m.image.TopicByID(id); ok {
		return m.describe(t)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.TopicID, out.ErrorCode = id, int16(kafka.UnknownTopicID)
	return out
}

// byName describes a topic. One that is unknown is noted for creation if it may exist.
func (m *metadataAnswer) byName(name string) kmsg.MetadataResponseTopic {
	if t, ok := m.image.Topic(name); ok {
		return m.describe(t)
	}
	name = strings.Clone(name)
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.IsInternal, out.AuthorizedOperations = &name, isInternal(name), m.operations
	out.ErrorCode = int16(kafka.UnknownTopicOrPartition)
	if err := checkTopicName(name); err != nil {
		out.ErrorCode = int16(kafka.CodeOf(err))
	} else if m.req.Version < 4 || m.req.AllowAutoTopicCreation {
		m.missing = append(m.missing, name)
	}
	return out
}

func (m *metadataAnswer) describe(t *metadata.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	out.AuthorizedOperations = m.operations
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, t.NumPartitions())
	for index, p := range t.Partitions() {
		out.Partitions = append(out.Partitions, m.partition(index, p))
	}
	return out
}

// partition describes a partition. Version 0 leaves out replicas that cannot be reached, and says so with an error;
// versions below 6 know no error for a leader that is not on the client's listener.
func (m *metadataAnswer) partition(index int32, p *metadata.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition, out.LeaderEpoch = index, int32(p.LeaderEpoch)
	out.Replicas, out.ISR = wireIDs(p.Replicas), wireIDs(p.ISR)
	if m.req.Version >= 5 {
		out.OfflineReplicas = m.offline(p)
	}
	if m.req.Version == 0 {
		out.Replicas, out.ISR = m.reachable(out.Replicas), m.reachable(out.ISR)
	}
	leader, err := m.leader(p)
	out.Leader = int32(leader)
	switch {
	case err == kafka.ListenerNotFound && m.req.Version < 6:
		err = kafka.LeaderNotAvailable
	case err == nil && (len(out.Replicas) < len(p.Replicas) || len(out.ISR) < len(p.ISR)):
		err = kafka.ReplicaNotAvailable
	}
	out.ErrorCode = int16(kafka.CodeOf(err))
	return out
}
