package cluster

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describing is about how the cluster and its quorum describe themselves.
func (s *script) describing() {
	s.section("describing")
	s.quorum = true
	for at := range int32(3) {
		for v := range int16(3) {
			s.ask(at+1, "quorum", quorumRequest(v))
			s.askController(at+1, "quorum", quorumRequest(v))
		}
	}
	r := quorumRequest(2)
	r.Topics[0].Topic = "nothing"
	s.ask(1, "quorum of another topic", r)
	r = quorumRequest(2)
	r.Topics[0].Partitions[0].Partition = 1
	s.ask(1, "quorum of partition 1", r)
	s.quorum = false
	for v := range int16(3) {
		for endpoints := range int8(4) {
			s.ask(2, fmt.Sprint("endpoints of type ", endpoints), describeCluster(v, endpoints, false))
			s.askController(2, fmt.Sprint("endpoints of type ", endpoints), describeCluster(v, endpoints, false))
		}
	}
	s.ask(1, "with fenced brokers", describeCluster(2, 1, true))
	s.ask(1, "controllers with fenced brokers", describeCluster(2, 2, true))
	s.ask(2, "unregister broker 77", unregister(77))
	s.ask(2, "unregister broker -1", unregister(-1))
}

// creating is about topics and partitions whose replicas cannot be.
func (s *script) creating() {
	s.section("creating")
	for _, x := range []struct {
		what  string
		topic kmsg.CreateTopicsRequestTopic
	}{
		{"factor 4 of 3", counted("c", 1, 4)}, {"factor 0", counted("c", 1, 0)}, {"factor -2", counted("c", 1, -2)},
		{"0 partitions", counted("c", 0, 1)}, {"factor 32767", counted("c", 1, 32767)},
		{"broker 77", newTopic("c", nil, []int32{1, 77})}, {"the same broker twice", newTopic("c", nil, []int32{1, 1})},
		{"a negative broker", newTopic("c", nil, []int32{-1})}, {"no replicas", newTopic("c", nil, []int32{})},
		{"different factors", newTopic("c", nil, []int32{1, 2}, []int32{1})},
		{"good", newTopic("c", nil, []int32{1, 2})}, {"good", counted("c", 3, 3)}, {"the cluster's factor", counted("c", 1, -1)},
	} {
		s.ask(2, x.what+", to validate", createTopics(true, x.topic))
	}
	both := newTopic("c", nil, []int32{1, 2})
	both.NumPartitions, both.ReplicationFactor = 1, 2
	s.ask(2, "assignments and counts", createTopics(false, both))
	gap := newTopic("c", nil, []int32{1, 2}, []int32{2, 1})
	gap.ReplicaAssignment[1].Partition = 2
	s.ask(2, "a gap between partitions", createTopics(false, gap))
	twice := newTopic("c", nil, []int32{1, 2}, []int32{2, 1})
	twice.ReplicaAssignment[1].Partition = 0
	s.ask(2, "partition 0 twice", createTopics(false, twice))
	s.ask(2, "the same topic twice", createTopics(false, counted("c", 1, 1), counted("c", 1, 1), counted("d", 1, 9)))

	s.create("grow", minISR1, []int32{1, 2}, []int32{2, 3})
	for _, x := range []struct {
		what string
		r    *kmsg.CreatePartitionsRequest
	}{
		{"as many as there are", createPartitions("grow", 2)}, {"fewer", createPartitions("grow", 1)},
		{"unknown topic", createPartitions("nothing", 5)}, {"broker 77", createPartitions("grow", 3, []int32{1, 77})},
		{"another factor", createPartitions("grow", 3, []int32{1})},
		{"the same broker twice", createPartitions("grow", 3, []int32{1, 1})},
		{"two assignments for one", createPartitions("grow", 3, []int32{1, 2}, []int32{2, 3})},
		{"one assignment for two", createPartitions("grow", 4, []int32{1, 2})},
		{"no replicas", createPartitions("grow", 3, []int32{})},
		{"good", createPartitions("grow", 4, []int32{3, 1}, []int32{1, 2})},
	} {
		s.ask(2, x.what, x.r)
	}
	s.waitPartition("grow", 2, 3, 1, 3)
	s.waitPartition("grow", 3, 1, 1, 2)
	s.ask(3, "after growth", metadataRequest(12, "grow"))
}

// configuring is about the settings of single brokers.
func (s *script) configuring() {
	s.section("configuring")
	const key = "log.cleaner.threads"
	s.ask(1, "of broker 2, asked of broker 1", alterConfig(kmsg.ConfigResourceTypeBroker, "2", key, "2"))
	s.ask(2, "of broker 2", alterConfig(kmsg.ConfigResourceTypeBroker, "2", key, "2"))
	s.until("broker 2 knows", 2, func() kmsg.Request { return describeConfig(kmsg.ConfigResourceTypeBroker, "2", key) },
		func(r kmsg.Response) bool {
			x := r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
			return len(x) == 1 && x[0].Value != nil && *x[0].Value == "2"
		})
	for at := range int32(3) {
		s.ask(at+1, "of broker 2", describeConfig(kmsg.ConfigResourceTypeBroker, "2", key))
	}
	s.ask(1, "of all brokers", describeConfig(kmsg.ConfigResourceTypeBroker, "", key))
	s.ask(1, "of broker 77", describeConfig(kmsg.ConfigResourceTypeBroker, "77", key))
	s.ask(1, "of broker x", describeConfig(kmsg.ConfigResourceTypeBroker, "x", key))
	for _, x := range [][3]string{
		{"2", key, "many"}, {"2", key, "-1"}, {"77", key, "2"}, {"x", key, "2"}, {"2", "node.id", "7"},
		{"", "advertised.listeners", "PLAINTEXT://127.0.0.1:1"}, {"2", "no.such.key", "7"}, {"", key, ""}, {"2", key, ""},
	} {
		s.ask(2, fmt.Sprintf("broker %q: %s=%s", x[0], x[1], x[2]), alterConfig(kmsg.ConfigResourceTypeBroker, x[0], x[1], x[2]))
	}
	s.ask(1, "unclean leader election of a topic that is not", alterConfig(kmsg.ConfigResourceTypeTopic, "nothing",
		"unclean.leader.election.enable", "true"))
}

// features is about the levels of features.
func (s *script) features() {
	s.section("features")
	for _, v := range []int16{1, 2} {
		for _, x := range []struct {
			name    string
			level   int16
			upgrade int8
		}{
			{"no.such.feature", 1, 1}, {"metadata.version", 1000, 1}, {"metadata.version", 1, 1}, {"metadata.version", 1, 2},
			{"metadata.version", 0, 3}, {"group.version", 0, 1}, {"group.version", 0, 2}, {"group.version", 99, 1},
			{"group.version", -1, 1}, {"group.version", 1, 0}, {"kraft.version", 1, 1}, {"kraft.version", 0, 2},
			{"kraft.version", 9, 1}, {"transaction.version", 2, 1}, {"eligible.leader.replicas.version", 0, 2},
		} {
			s.ask(2, fmt.Sprintf("%s %d, kind %d, to validate", x.name, x.level, x.upgrade),
				updateFeature(v, x.name, x.level, x.upgrade, true))
		}
	}
	two := updateFeature(2, "group.version", 1, 1, true)
	two.FeatureUpdates = append(two.FeatureUpdates, two.FeatureUpdates[0])
	s.ask(2, "the same feature twice", two)
	two = updateFeature(2, "group.version", 1, 1, true)
	two.FeatureUpdates = append(two.FeatureUpdates, updateFeature(2, "no.such.feature", 1, 1, true).FeatureUpdates...)
	s.ask(2, "one good and one bad", two)
}

// coordinators is about who coordinates, and what the others answer.
func (s *script) coordinators() {
	s.section("coordinators")
	find := func(v int16, kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.Version, r.CoordinatorType, r.CoordinatorKeys = v, kind, keys
		if v < 4 {
			r.CoordinatorKey = keys[0]
		}
		return r
	}
	for kind := range int8(2) {
		s.until("coordinators are there", 1, func() kmsg.Request { return find(4, kind, "k0", "k1", "k2", "k3", "k4") },
			func(r kmsg.Response) bool {
				return !slices.ContainsFunc(r.(*kmsg.FindCoordinatorResponse).Coordinators,
					func(c kmsg.FindCoordinatorResponseCoordinator) bool { return c.ErrorCode != 0 })
			})
		for _, key := range []string{"k0", "k1", "k2", "k3", "k4"} {
			s.coordinator(find, kind, key)
		}
	}
	s.ask(1, "a kind that is none", find(4, 9, "k"))
	s.ask(1, "a share group's key without a partition", find(6, 2, "k"))
}

// coordinator has all nodes name one coordinator, and asks those that are none.
func (s *script) coordinator(find func(int16, int8, ...string) *kmsg.FindCoordinatorRequest, kind int8, key string) {
	var first int32
	for _, at := range s.c.ids() {
		for v := int16(0); v <= 5; v++ {
			if v == 0 && kind != 0 {
				continue
			}
			eventually(s.t, fmt.Sprintf("%s is found by v%d at node %d", key, v, at), func() bool {
				r := s.must(at, find(v, kind, key)).(*kmsg.FindCoordinatorResponse)
				code, id := r.ErrorCode, r.NodeID
				if v >= 4 {
					code, id = r.Coordinators[0].ErrorCode, r.Coordinators[0].NodeID
				}
				if first == 0 {
					first = id
				}
				return code == 0 && id == first
			})
		}
	}
	s.note("the coordinator of kind %d for %s is the same at all nodes, in all versions", kind, key)
	for _, at := range s.c.ids() {
		if at == first {
			continue
		}
		s.notCoordinating(at, kind, key)
		return
	}
}

func (s *script) notCoordinating(at int32, kind int8, key string) {
	// Which node this is differs from run to run.
	ask := func(what string, r kmsg.Request) { s.exchange("not the coordinator", s.c.addr(at), what, r) }
	if kind == 1 {
		init := kmsg.NewPtrInitProducerIDRequest()
		init.Version, init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = 4, &key, 1000, -1, -1
		ask(key, init)
		end := kmsg.NewPtrEndTxnRequest()
		end.Version, end.TransactionalID, end.ProducerID = 4, key, 5
		ask(key, end)
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		describe.TransactionalIDs = []string{key}
		ask(key, describe)
		return
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 6, []string{key}
	ask(key, describe)
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = key
	offsets.Groups = append(offsets.Groups, g)
	ask(key, offsets)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 9, key, 10000, 10000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
	ask(key, join)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 4, key, "m"
	ask(key, beat)
	consumer := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	consumer.Version, consumer.Group, consumer.MemberID, consumer.RebalanceTimeoutMillis = 1, key, "m", 10000
	consumer.SubscribedTopicNames, consumer.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	ask(key, consumer)
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{key}
	ask(key, del)
}
