package api

import (
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// partition finds this node's replica of a partition by name. Errors: UnknownTopicOrPartition;
// NotLeaderOrFollower for a partition that other nodes have.
func (b *Broker) partition(image *metadata.Image, tp kafka.TopicPartition) (*replica.Partition, error) {
	p, err := b.Partitions.Get(tp)
	if err == nil {
		return p, nil
	}
	if _, ok := image.Partition(tp); ok {
		return nil, kafka.NotLeaderOrFollower
	}
	return nil, err
}

// partitionOf finds this node's replica of a topic's partition. Errors are those of partition.
func (b *Broker) partitionOf(t *metadata.Topic, index int32) (*replica.Partition, error) {
	p, err := b.Partitions.GetByID(t.ID, index)
	if err == nil {
		return p, nil
	}
	if _, ok := t.Partition(index); ok {
		return nil, kafka.NotLeaderOrFollower
	}
	return nil, kafka.UnknownTopicOrPartition
}

// leadership gives leader and leader epoch of a partition as this node last heard; NoNode and NoEpoch when
// it is not known. part may be nil.
func leadership(
	image *metadata.Image, part *replica.Partition, tp kafka.TopicPartition,
) (kafka.NodeID, kafka.LeaderEpoch) {
	if part != nil {
		return part.Leadership()
	}
	if p, ok := image.Partition(tp); ok {
		return p.Leader, p.LeaderEpoch
	}
	return kafka.NoNode, kafka.NoEpoch
}

// leaderEndpoint is where clients of a connection reach a leader that a response names (KIP-951).
type leaderEndpoint struct {
	id   kafka.NodeID
	host string
	port int32
	rack *string
}

// leaderEndpoint gives the address of a broker; false for one that is unknown, fenced or not on this
// listener.
func (b *Broker) leaderEndpoint(c *server.ConnInfo, image *metadata.Image, id kafka.NodeID) (leaderEndpoint, bool) {
	r, ok := image.Broker(id)
	if !ok || r.Fenced {
		return leaderEndpoint{}, false
	}
	host, port, ok := b.Advertised(c, r)
	return leaderEndpoint{id: id, host: host, port: port, rack: r.Rack}, ok
}

// strayPartitions is how many partitions one request may name beyond those that the cluster has.
const strayPartitions = 100_000

// tooMany says whether a request names more partitions than anybody could mean: what a handler remembers of
// each is not in the request's charge. Such a request costs its sender the connection.
func tooMany(image *metadata.Image, partitions int) bool {
	return partitions > image.PartitionCount()+strayPartitions
}

// hangUp ends the connection without an answer.
func hangUp() *promise.Promise[server.Reply] {
	return answer(server.Reply{None: true, Close: true, Code: kafka.InvalidRequest})
}

// isInternal says whether clients may not write to a topic: it belongs to a coordinator.
func isInternal(topic string) bool {
	switch topic {
	case kafka.OffsetsTopic, kafka.TransactionsTopic, kafka.ShareStateTopic:
		return true
	}
	return false
}

// answer is a promise of a reply that needs no wait.
func answer(r server.Reply) *promise.Promise[server.Reply] { return promise.Done(r) }

// messageOf gives the text for clients that an error carries; nil when there is none.
func messageOf(err error) *string {
	if m := kafka.MessageOf(err); m != "" {
		return &m
	}
	return nil
}
