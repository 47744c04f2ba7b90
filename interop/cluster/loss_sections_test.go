package cluster

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// losses is about what is there and not there while nodes are down.
func (s *script) losses() {
	s.section("losses")
	s.create("loss", map[string]string{"min.insync.replicas": "3"}, []int32{1, 2, 3}, []int32{3, 1, 2})
	s.create("two", map[string]string{"min.insync.replicas": "2"}, []int32{2, 3}, []int32{3, 2}, []int32{1, 3})
	s.create("one", minISR1, []int32{3})
	s.create("pair", minISR1, []int32{3, 2})
	s.ask(1, "all in sync", s.produce(13, -1, "loss", 0))
	s.kill(3)
	s.waitPartition("loss", 0, 1, 1, 2)
	s.waitPartition("loss", 1, 1, 1, 2)
	s.waitPartition("two", 0, 2, 2)
	s.waitPartition("two", 1, 2, 2)
	s.waitPartition("pair", 0, 2, 2)
	s.waitPartition("one", 0, -1)
	for _, v := range []int16{1, 12, 13} {
		s.ask(1, "node 3 is down", metadataRequest(v, "loss", "two", "one", "pair"))
	}
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = 100
	for _, name := range []string{"loss", "one", "pair", "two"} {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		r.Topics = append(r.Topics, t)
	}
	s.ask(1, "node 3 is down", r)
	s.ask(1, "fenced brokers too", describeCluster(2, 1, true))
	s.ask(1, "without fenced brokers", describeCluster(2, 1, false))
	s.ask(1, "controllers", describeCluster(2, 2, false))
	for _, v := range []int16{3, 9, 13} {
		s.ask(1, "acks all, too few in sync", s.produce(v, -1, "loss", 0))
		s.ask(1, "acks 1, too few in sync", s.produce(v, 1, "loss", 0))
		s.ask(1, "acks 0", s.produce(v, 0, "nothing", 0))
	}
	s.ask(2, "acks all, two led by one in sync", s.produce(13, -1, "two", 0, 1))
	s.ask(2, "a follower", s.produce(13, -1, "two", 2))
	s.ask(1, "leader that is down", s.produce(13, -1, "one", 0))
	s.ask(2, "leader that is down", s.fetch("one", consumer(17, 0, 0)))
	s.ask(2, "leader that is down", listOffsets(7, -1, -1, "one", 0))
	s.ask(2, "leader that is down", offsetForEpoch(4, -1, 0, "one", 0))
	s.ask(1, "beyond what all in sync have", listOffsets(7, -1, -1, "loss", 0))
	s.ask(1, "read", s.fetch("loss", consumer(17, 0, 0)))
	s.followerCatchesUp("loss", 2)
	s.ask(2, "read at a follower", s.fetch("loss", consumer(17, 0, 0)))
	s.downElections()
	s.downReassignments()
	s.ask(1, "a new topic on the node that is down", createTopics(true, newTopic("new", nil, []int32{3, 1})))
	s.ask(1, "a new topic on nothing but that node", createTopics(true, newTopic("new", nil, []int32{3})))
	s.ask(1, "factor 3 of 2", createTopics(true, counted("new", 1, 3)))
	s.ask(1, "more partitions on that node", createPartitions("one", 2, []int32{3}))
	s.ask(1, "setting of a broker that is down", alterConfig(kmsg.ConfigResourceTypeBroker, "3", "log.cleaner.threads", "2"))
	s.ask(1, "and away", alterConfig(kmsg.ConfigResourceTypeBroker, "3", "log.cleaner.threads", ""))
	s.ask(1, "broker that is down", describeConfig(kmsg.ConfigResourceTypeBroker, "3", "log.cleaner.threads"))
	s.revive(3)
	s.waitPartition("loss", 0, 1, 1, 2, 3)
	s.waitPartition("two", 0, 2, 2, 3)
	s.waitPartition("one", 0, 3, 3)
	s.ask(1, "node 3 is back", metadataRequest(13, "loss", "two", "one", "pair"))
	s.ask(1, "all in sync again", s.produce(13, -1, "loss", 0))
	s.ask(1, "preferred, all", elect(2, 0, ""))
	s.waitPartition("loss", 1, 3, 1, 2, 3)
	s.ask(1, "after the preferred elections", metadataRequest(13, "loss", "two", "one", "pair"))
}

func (s *script) downElections() {
	s.ask(1, "preferred, which is down", elect(2, 0, "two", 1))
	s.ask(1, "preferred, of nobody", elect(2, 0, "one", 0))
	s.ask(1, "unclean, of nobody", elect(2, 1, "one", 0))
	s.ask(1, "unclean, where there is a leader", elect(2, 1, "two", 0))
	s.ask(1, "preferred, all", elect(2, 0, ""))
	s.ask(1, "unclean, all", elect(2, 1, ""))
}

func (s *script) downReassignments() {
	s.create("move", minISR1, []int32{1, 2})
	s.ask(1, "to the node that is down", reassign("move", 0, 1, 3))
	s.ask(1, "under way", listReassignments(""))
	s.ask(1, "under way", listReassignments("move", 0, 1))
	s.ask(2, "under way", metadataRequest(12, "move"))
	s.ask(1, "another one replaces it", reassign("move", 0, 2, 3))
	s.ask(1, "under way", listReassignments(""))
	s.ask(1, "more partitions meanwhile", createPartitions("move", 2, []int32{1, 2}))
	s.ask(1, "cancel", reassign("move", 0))
	s.ask(1, "none under way", listReassignments(""))
	s.ask(1, "cancel again", reassign("move", 0))
	s.waitPartition("move", 0, 1, 1, 2)
	s.ask(2, "after it was cancelled", metadataRequest(12, "move"))
}

// unclean is about partitions whose only replica in sync is lost, while another one is there.
func (s *script) unclean() {
	s.section("unclean elections")
	s.create("unclean", minISR1, []int32{3, 2})
	s.create("waiting", minISR1, []int32{3, 2})
	s.ask(3, "both have it", s.produce(13, -1, "unclean", 0))
	s.kill(2)
	s.waitPartition("unclean", 0, 3, 3)
	s.ask(3, "only 3 has it", s.produce(13, -1, "unclean", 0))
	// Without node 3 there is no majority of the quorum, so that 2 comes back without having met 3.
	s.c.nodes[3].Kill()
	s.forget(3)
	s.down = []int32{3}
	s.forget(2)
	s.c.nodes[2].Start(s.t)
	s.c.waitInService(s.t, 1, 2)
	s.waitPartition("unclean", 0, -1)
	s.note("node 2 is back, node 3 is killed")
	s.ask(1, "nobody leads", metadataRequest(12, "unclean"))
	s.ask(2, "a replica that was not in sync", s.produce(13, -1, "unclean", 0))
	s.ask(2, "a replica that was not in sync", s.fetch("unclean", consumer(17, 0, 0)))
	s.ask(1, "preferred", elect(2, 0, "unclean", 0))
	s.ask(1, "unclean", elect(2, 1, "unclean", 0))
	s.waitPartition("unclean", 0, 2, 2)
	s.ask(1, "unclean again", elect(2, 1, "unclean", 0))
	s.ask(1, "2 leads", metadataRequest(12, "unclean", "waiting"))
	s.ask(2, "end", listOffsets(7, -1, -1, "unclean", 0))
	s.ask(2, "acks all", s.produce(13, -1, "unclean", 0))
	for epoch := range int32(4) {
		s.ask(2, "end of "+current(epoch), offsetForEpoch(4, -1, epoch, "unclean", 0))
	}
	s.ask(1, "unclean, all", elect(2, 1, ""))
	s.revive(3)
	s.waitPartition("unclean", 0, 2, 2, 3)
	s.waitPartition("waiting", 0, 2, 2, 3)
	s.ask(3, "back", metadataRequest(12, "unclean", "waiting"))
	s.ask(3, "the old leader", s.fetch("unclean", consumer(17, 0, 0)))
	for epoch := range int32(4) {
		s.ask(3, "end of "+current(epoch), offsetForEpoch(4, -1, epoch, "unclean", 0))
	}
}
