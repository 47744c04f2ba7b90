package cluster

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// minISR1 is set on topics: the clusters' own default differs.
var minISR1 = map[string]string{"min.insync.replicas": "1"}

// leaders is about who leads: hints to clients that ask the wrong node, epochs that are too old or too new.
func (s *script) leaders() {
	s.section("leaders")
	s.create("leaders", minISR1, []int32{1, 2}, []int32{2, 1}, []int32{3, 1}, []int32{2, 3})
	for at := range int32(3) {
		for _, v := range []int16{1, 9, 12, 13} {
			s.ask(at+1, "topic leaders", metadataRequest(v, "leaders"))
		}
	}
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = 100
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = "leaders"
	r.Topics = append(r.Topics, t)
	s.ask(2, "topic leaders", r)

	for v := int16(3); v <= 13; v++ {
		s.ask(1, "to leader and followers, and where there is no replica", s.produce(v, -1, "leaders", 0, 1, 3, 7))
	}
	s.ask(2, "acks 1, a follower", s.produce(13, 1, "leaders", 0))
	s.followerCatchesUp("leaders", 22)
	for v := int16(4); v <= 18; v++ {
		s.ask(1, "leader", s.fetch("leaders", consumer(v, 0, 0)))
		s.ask(2, "follower", s.fetch("leaders", consumer(v, 0, 0)))
		s.ask(1, "no replica", s.fetch("leaders", consumer(v, 3, 0)))
	}
	s.ask(1, "no such partition", s.fetch("leaders", consumer(17, 9, 0)))
	s.ask(2, "beyond a follower's end", s.fetch("leaders", consumer(17, 0, 1000)))
	for _, epoch := range []int32{0, 1} {
		f := consumer(17, 0, 0)
		f.epoch = epoch
		s.ask(1, epochName("leader", epoch), s.fetch("leaders", f))
		s.ask(2, epochName("follower", epoch), s.fetch("leaders", f))
		f.partition = 3
		s.ask(1, epochName("no replica", epoch), s.fetch("leaders", f))
	}
	f := consumer(17, 0, 4)
	f.epoch, f.lastFetchedEpoch = 0, 5
	s.ask(1, "last fetched epoch 5", s.fetch("leaders", f))
}

// followerCatchesUp waits until node 2, a follower of partition 0, knows the high watermark.
func (s *script) followerCatchesUp(topic string, highWatermark int64) {
	s.t.Helper()
	s.until("the follower knows the high watermark", 2,
		func() kmsg.Request { return s.fetch(topic, consumer(17, 0, highWatermark)) },
		func(r kmsg.Response) bool {
			return r.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark == highWatermark
		})
}

func epochName(who string, epoch int32) string {
	return who + ", " + [...]string{"epoch 0", "epoch 1", "epoch 2"}[epoch]
}

// replicaFetches is about Fetch by brokers.
func (s *script) replicaFetches() {
	s.section("fetches of replicas")
	s.create("fetches", minISR1, []int32{1, 2}, []int32{2, 1})
	for _, f := range []struct {
		what        string
		replica     int32
		brokerEpoch int64
	}{
		{"replica 2, a broker epoch that never was", 2, 1 << 40}, {"replica 2, no broker epoch", 2, -1},
		{"broker 3, which is no replica", 3, 1 << 40}, {"broker 9, which is unknown", 9, 1},
	} {
		for _, v := range []int16{12, 17} {
			spec := consumer(v, 0, 0)
			spec.replica, spec.brokerEpoch, spec.epoch = f.replica, f.brokerEpoch, 0
			s.ask(1, f.what, s.fetch("fetches", spec))
			spec.partition = 1
			s.ask(1, f.what+", at a follower", s.fetch("fetches", spec))
		}
	}
	spec := consumer(17, 0, 0)
	spec.replica, spec.brokerEpoch, spec.epoch = 2, 1<<40, 4
	s.ask(1, "replica 2, epoch 4", s.fetch("fetches", spec))
}

// epochs is about leader epochs after leaders have changed.
func (s *script) epochs() {
	s.section("epochs")
	s.create("epochs", minISR1, []int32{1, 2, 3})
	s.ask(1, "epoch 0", s.produce(13, -1, "epochs", 0))
	s.ask(1, "to 2", reassign("epochs", 0, 2, 1, 3))
	s.ask(1, "preferred", elect(2, 0, "epochs", 0))
	s.waitPartition("epochs", 0, 2, 1, 2, 3)
	s.ask(2, "epoch 1", s.produce(13, -1, "epochs", 0))
	s.ask(1, "back to 1", reassign("epochs", 0, 1, 2, 3))
	s.ask(1, "preferred", elect(2, 0, "epochs", 0))
	s.waitPartition("epochs", 0, 1, 1, 2, 3)
	s.ask(1, "epoch 2", s.produce(13, -1, "epochs", 0))
	for _, at := range []int32{1, 2} {
		for _, epoch := range []int32{-1, 0, 2, 7} {
			s.ask(at, current(epoch)+", end", listOffsets(7, epoch, -1, "epochs", 0))
		}
		for _, time := range []int64{-2, -3, recordTime, recordTime + 1} {
			s.ask(at, "other times", listOffsets(9, 2, time, "epochs", 0))
		}
	}
	s.ask(1, "partition 5", listOffsets(7, -1, -1, "epochs", 5))
	for _, at := range []int32{1, 2} {
		for _, epoch := range []int32{-1, 0, 1, 2, 3} {
			s.ask(at, current(-1)+", end of "+current(epoch), offsetForEpoch(4, -1, epoch, "epochs", 0))
		}
		for _, epoch := range []int32{0, 2, 7} {
			s.ask(at, current(epoch)+", end of epoch 1", offsetForEpoch(4, epoch, 1, "epochs", 0))
		}
	}
	s.ask(1, "partition 5", offsetForEpoch(4, -1, 0, "epochs", 5))
	s.ask(1, "unknown topic", offsetForEpoch(4, -1, 0, "nothing", 0))
	s.followerCatchesUp("epochs", 6)
	for _, epoch := range []int32{0, 1, 2} {
		f := consumer(17, 0, 0)
		f.epoch = epoch
		s.ask(1, epochName("leader", epoch), s.fetch("epochs", f))
		s.ask(2, epochName("follower", epoch), s.fetch("epochs", f))
	}
	for _, d := range []struct {
		what             string
		offset           int64
		lastFetchedEpoch int32
	}{
		{"in agreement", 4, 1}, {"divergent: epoch 0 ends before", 4, 0}, {"divergent: epoch 1 ends before", 5, 1},
		{"epoch 7 never was", 4, 7},
	} {
		f := consumer(17, 0, d.offset)
		f.epoch, f.lastFetchedEpoch = 2, d.lastFetchedEpoch
		s.ask(1, d.what, s.fetch("epochs", f))
		s.ask(2, d.what, s.fetch("epochs", f))
	}
}

func current(epoch int32) string {
	if epoch < 0 {
		return "no epoch"
	}
	return "epoch " + string(rune('0'+epoch))
}

// reassignments is about partitions that move between nodes, all of which run.
func (s *script) reassignments() {
	s.section("reassignments")
	s.create("moves", minISR1, []int32{1, 2}, []int32{2, 3})
	s.ask(1, "all, none under way", listReassignments(""))
	s.ask(1, "unknown topic", listReassignments("nothing", 0))
	s.ask(1, "partitions 0 and 9", listReassignments("moves", 0, 9))
	s.ask(1, "unknown topic", reassign("nothing", 0, 1))
	s.ask(1, "unknown partition", reassign("moves", 9, 1))
	s.ask(1, "the same broker twice", reassign("moves", 0, 1, 1))
	s.ask(1, "a negative broker", reassign("moves", 0, -1))
	s.ask(1, "an unknown broker", reassign("moves", 0, 1, 77))
	empty := reassign("moves", 0)
	empty.Topics[0].Partitions[0].Replicas = []int32{}
	s.ask(1, "no replicas", empty)
	s.ask(1, "cancel where nothing is under way", reassign("moves", 0))
	s.ask(1, "cancel in an unknown topic", reassign("nothing", 0))
	r := reassign("moves", 0, 1, 2, 3)
	r.AllowReplicationFactorChange = false
	s.ask(1, "one more replica, though the factor may not change", r)
	s.ask(1, "partition 9 too", func() kmsg.Request {
		r := reassign("moves", 9, 1)
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, reassign("moves", 1, 3, 1).Topics[0].Partitions...)
		return r
	}())
	s.waitPartition("moves", 1, 3, 1, 3)
	s.ask(2, "one more replica, asked of another node", reassign("moves", 0, 1, 2, 3))
	s.waitPartition("moves", 0, 1, 1, 2, 3)
	s.ask(2, "leader leaves", reassign("moves", 0, 2, 3))
	s.waitPartition("moves", 0, 2, 2, 3)
	s.ask(1, "after the moves", metadataRequest(12, "moves"))
	s.ask(1, "old leader", s.produce(13, -1, "moves", 0))
	s.ask(1, "old leader", s.fetch("moves", consumer(17, 0, 0)))
	s.ask(1, "all, none under way", listReassignments(""))
}

// elections is about elections that are asked for while all nodes run.
func (s *script) elections() {
	s.section("elections")
	s.create("elections", minISR1, []int32{1, 2, 3}, []int32{2, 3, 1})
	s.ask(1, "preferred, not needed", elect(2, 0, "elections", 0))
	s.ask(1, "preferred, not needed", elect(0, 0, "elections", 0))
	s.ask(1, "unclean, not needed", elect(2, 1, "elections", 0, 1))
	s.ask(1, "unknown partition", elect(2, 0, "elections", 5))
	s.ask(1, "unknown topic", elect(2, 0, "nothing", 0))
	s.ask(1, "a kind that is none", elect(2, 7, "elections", 0))
	s.ask(1, "preferred, all", elect(2, 0, ""))
	s.ask(1, "another order", reassign("elections", 0, 3, 2, 1))
	s.ask(2, "preferred, asked of another node", elect(2, 0, "elections", 0, 1, 8))
	s.waitPartition("elections", 0, 3, 1, 2, 3)
	s.ask(1, "another order", reassign("elections", 0, 2, 1, 3))
	s.ask(2, "preferred, all", elect(2, 0, ""))
	s.waitPartition("elections", 0, 2, 1, 2, 3)
}
