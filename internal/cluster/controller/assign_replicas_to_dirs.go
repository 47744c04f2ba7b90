package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// assignReplicasToDirs answers AssignReplicasToDirs (KIP-858): a broker tells which log directories its
// replicas are in.
func (t *turn) assignReplicasToDirs(r *kmsg.AssignReplicasToDirsRequest) Result {
	reply := kmsg.NewPtrAssignReplicasToDirsResponse()
	b, err := t.checkBroker(kafka.NodeID(r.BrokerID), kafka.BrokerEpoch(r.BrokerEpoch))
	if err == nil && t.mv < metadata.MVDirectories {
		err = kafka.UnsupportedVersion
	}
	if err != nil {
		reply.ErrorCode = int16(kafka.CodeOf(err))
		return Result{Reply: reply}
	}
	a := &dirAssigner{turn: t, broker: b, lost: map[kafka.UUID]bool{}}
	for _, dir := range r.Directories {
		out := kmsg.NewAssignReplicasToDirsResponseDirectory()
		out.ID = dir.ID
		for _, topic := range dir.Topics {
			outTopic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			outTopic.TopicID = topic.TopicID
			for _, p := range topic.Partitions {
				outPartition := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				outPartition.Partition = p.Partition
				outPartition.ErrorCode = int16(kafka.CodeOf(a.assign(dir.ID, topic.TopicID, p.Partition)))
				outTopic.Partitions = append(outTopic.Partitions, outPartition)
			}
			out.Topics = append(out.Topics, outTopic)
		}
		reply.Directories = append(reply.Directories, out)
	}
	return Result{Records: a.records, Reply: reply}
}

// dirAssigner collects the outcome of one AssignReplicasToDirs.
type dirAssigner struct {
	*turn
	broker  *metadata.Broker
	records []metadata.Record
	lost    map[kafka.UUID]bool
}

// assign records one replica's directory. One that is not online takes the replica out of service at once:
// the leader is moved and the replica leaves the ISR. A broker that gives one up as lost may not, if nobody else has
// everything that is committed; its word for it is checked here because its image may be old.
func (a *dirAssigner) assign(dir, topicID kafka.UUID, index int32) error {
	topic, ok := a.Image.TopicByID(topicID)
	if !ok {
		return kafka.UnknownTopicID
	}
	p, ok := topic.Partition(index)
	if !ok {
		return kafka.UnknownTopicOrPartition
	}
	replica := false
	for _, id := range p.Replicas {
		replica = replica || id == a.broker.ID
	}
	if !replica {
		return kafka.NotLeaderOrFollower
	}
	if dir == kafka.DirectoryLost && !hasOther(p.ISR, a.broker.ID) && !hasOther(p.ELR, a.broker.ID) {
		return kafka.IneligibleReplica // nobody else has what is committed
	}
	ref := metadata.PartitionRef{Topic: topic, Index: index, Partition: p}
	online := a.broker.DirectoryOnline(dir)
	c := a.changeOf(ref, func(id kafka.NodeID) bool { return a.active(id) && (online || id != a.broker.ID) })
	if online {
		c.eligible, c.election = a.eligibleIn(p, dir), electOnline
	} else {
		c.isr = without(p.ISR, a.broker.ID)
	}
	if dir == kafka.DirectoryLost {
		c.lost = []kafka.NodeID{a.broker.ID}
	}
	c.dirs = map[kafka.NodeID]kafka.UUID{a.broker.ID: dir}
	if r := c.record(); r != nil {
		a.records = append(a.records, r)
	}
	return nil
}

// eligibleIn says who may lead once the broker's replica is in an online directory.
func (a *dirAssigner) eligibleIn(p *metadata.Partition, dir kafka.UUID) func(kafka.NodeID) bool {
	return func(id kafka.NodeID) bool {
		b, ok := a.Image.Broker(id)
		if !ok || !a.active(id) {
			return false
		}
		if id == a.broker.ID {
			return b.DirectoryOnline(dir)
		}
		return b.DirectoryOnline(p.Directory(id))
	}
}

func hasOther(ids []kafka.NodeID, than kafka.NodeID) bool { return len(without(ids, than)) > 0 }
