package api

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/kafka"
)

// metadataRequest asks for topics by name without creating them; none: all topics.
func metadataRequest(version int16, names ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = version
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func byID(id kafka.UUID) kmsg.MetadataRequestTopic {
	t := kmsg.NewMetadataRequestTopic()
	t.TopicID = id
	return t
}

func namesOf(resp *kmsg.MetadataResponse) []string {
	var out []string
	for _, t := range resp.Topics {
		out = append(out, *t.Topic)
	}
	return out
}

func TestMetadataOfATopic(t *testing.T) {
	f, _ := newAdmin(t)
	f.create("b", 2)
	id := f.create("a", 1)
	for v := int16(0); v <= 13; v++ {
		r := ask[*kmsg.MetadataResponse](f, metadataRequest(v, "a", "b", "a"))
		if got := namesOf(r); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("version %d: topics %q", v, got)
		}
		if len(r.Brokers) != 2 || r.Brokers[0].Host != "host-1" || r.Brokers[1].NodeID != 2 || r.Brokers[1].Port != 9092 {
			t.Errorf("version %d: brokers %+v", v, r.Brokers)
		}
		if v >= 1 && r.ControllerID != 1 {
			t.Errorf("version %d: controller %d", v, r.ControllerID)
		}
		if v >= 2 && *r.ClusterID != "c" {
			t.Errorf("version %d: cluster %q", v, *r.ClusterID)
		}
		a := r.Topics[0]
		if (v >= 10) != (a.TopicID == [16]byte(id)) || a.AuthorizedOperations != notAsked ||
			r.AuthorizedOperations != notAsked {
			t.Errorf("version %d: id %x, operations %d", v, a.TopicID, a.AuthorizedOperations)
		}
		p := a.Partitions[0]
		if p.ErrorCode != 0 || p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) {
			t.Errorf("version %d: partition %+v", v, p)
		}
		if v >= 7 && p.LeaderEpoch != 0 || v < 7 && p.LeaderEpoch != -1 {
			t.Errorf("version %d: leader epoch %d", v, p.LeaderEpoch)
		}
		if got := r.Topics[1].Partitions[1].Partition; got != 1 {
			t.Errorf("version %d: partition %d stands second", v, got)
		}
	}
}

func TestMetadataOfAllAndNone(t *testing.T) {
	f, x := newAdmin(t)
	f.create("b", 1)
	f.create("__consumer_offsets", 1)
	for v := int16(0); v <= 13; v++ {
		all := metadataRequest(v)
		all.AllowAutoTopicCreation = true
		if v == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{} // null does not exist there
		}
		r := ask[*kmsg.MetadataResponse](f, all)
		if got := namesOf(r); !slices.Equal(got, []string{"__consumer_offsets", "b"}) {
			t.Errorf("version %d: all are %q", v, got)
		}
		if v >= 1 && (!r.Topics[0].IsInternal || r.Topics[1].IsInternal) {
			t.Errorf("version %d: internal flags are wrong", v)
		}
		if v == 0 {
			continue
		}
		none := metadataRequest(v)
		none.Topics = []kmsg.MetadataRequestTopic{}
		if r := ask[*kmsg.MetadataResponse](f, none); len(r.Topics) != 0 || len(r.Brokers) != 2 {
			t.Errorf("version %d: an empty list gives %d topics", v, len(r.Topics))
		}
	}
	if len(x.asked) != 0 {
		t.Error("something was created")
	}
}

func TestMetadataOfUnknownTopics(t *testing.T) {
	f, x := newAdmin(t, "auto.create.topics.enable", "false")
	long := strings.Repeat("x", 250)
	for v := int16(0); v <= 13; v++ {
		r := ask[*kmsg.MetadataResponse](f, metadataRequest(v, "none", "a/b", "..", long, "", "__transaction_state"))
		want := []kafka.Code{kafka.UnknownTopicOrPartition, kafka.InvalidTopicException, kafka.InvalidTopicException,
			kafka.InvalidTopicException, kafka.InvalidTopicException, kafka.UnknownTopicOrPartition}
		for i, topic := range r.Topics {
			if kafka.Code(topic.ErrorCode) != want[i] || len(topic.Partitions) != 0 {
				t.Errorf("version %d, %.20q: %v", v, *topic.Topic, kafka.Code(topic.ErrorCode))
			}
		}
		if v >= 1 && !r.Topics[5].IsInternal {
			t.Errorf("version %d: an internal topic that does not exist is not told internal", v)
		}
	}
	if len(x.asked) != 0 {
		t.Error("a topic was created in spite of auto.create.topics.enable=false")
	}
}

func TestMetadataByID(t *testing.T) {
	f, _ := newAdmin(t)
	id := f.create("a", 1)
	for _, v := range []int16{12, 13} {
		req := metadataRequest(v, "a")
		req.IncludeTopicAuthorizedOperations = true
		req.Topics = append(req.Topics, byID(id), byID(kafka.UUID{3}), byID(id))
		r := ask[*kmsg.MetadataResponse](f, req)
		if len(r.Topics) != 3 {
			t.Fatalf("version %d: %d topics", v, len(r.Topics))
		}
		if *r.Topics[1].Topic != "a" || r.Topics[1].ErrorCode != 0 {
			t.Errorf("version %d: by id: %+v", v, r.Topics[1])
		}
		u := r.Topics[2]
		if kafka.Code(u.ErrorCode) != kafka.UnknownTopicID || u.Topic != nil || u.TopicID != [16]byte{3} ||
			u.AuthorizedOperations != notAsked {
			t.Errorf("version %d: unknown id: %+v", v, u)
		}
	}
}

// TestMetadataRefused: an entry that names no topic spoils the whole request, which is answered without brokers.
func TestMetadataRefused(t *testing.T) {
	f, _ := newAdmin(t)
	id := f.create("a", 1)
	for v := int16(10); v <= 13; v++ {
		nameless := metadataRequest(v, "a")
		nameless.Topics = append(nameless.Topics, byID(kafka.UUID{}))
		tests := []*kmsg.MetadataRequest{nameless}
		if v < 12 {
			withID := metadataRequest(v, "a")
			withID.Topics[0].TopicID = id
			tests = append(tests, withID)
		}
		for _, req := range tests {
			r := ask[*kmsg.MetadataResponse](f, req)
			if len(r.Brokers) != 0 || len(r.Topics) != len(req.Topics) {
				t.Errorf("version %d: %d brokers, %d topics", v, len(r.Brokers), len(r.Topics))
			}
			for _, topic := range r.Topics {
				if kafka.Code(topic.ErrorCode) != kafka.InvalidRequest {
					t.Errorf("version %d: %v", v, kafka.Code(topic.ErrorCode))
				}
			}
			if v >= 13 && kafka.Code(r.ErrorCode) != kafka.InvalidRequest {
				t.Errorf("version %d: %v", v, kafka.Code(r.ErrorCode))
			}
		}
	}
}

func TestMetadataAuthorizedOperations(t *testing.T) {
	f, _ := newAdmin(t)
	f.create("a", 1)
	for v := int16(8); v <= 13; v++ {
		req := metadataRequest(v, "a", "none", "a/b")
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
		r := ask[*kmsg.MetadataResponse](f, req)
		want := int32(8096) // what Apache Kafka answers to somebody who may do everything
		if v > 10 {
			want = notAsked // the field is gone
		}
		if r.AuthorizedOperations != want {
			t.Errorf("version %d: cluster operations %d", v, r.AuthorizedOperations)
		}
		for _, topic := range r.Topics {
			if topic.AuthorizedOperations != 3576 {
				t.Errorf("version %d: operations on %s: %d", v, *topic.Topic, topic.AuthorizedOperations)
			}
		}
	}
}

// spread makes a topic with replicas on both brokers, led by 2.
func (f *fixture) spread(name string) {
	id := topicID(name)
	f.apply(&metadata.TopicRecord{Name: name, TopicID: id}, &metadata.PartitionRecord{
		TopicID: id, Replicas: []kafka.NodeID{2, 1}, ISR: []kafka.NodeID{2, 1}, Leader: 2, LeaderEpoch: 4,
		Directories: []kafka.UUID{kafka.DirectoryUnassigned, kafka.DirectoryUnassigned}})
}

// TestMetadataOfAFencedLeader: a broker that is fenced is not listed, does not lead, and its replicas are offline.
func TestMetadataOfAFencedLeader(t *testing.T) {
	f, _ := newAdmin(t)
	f.spread("s")
	f.fence(2)
	for v := int16(0); v <= 13; v++ {
		r := ask[*kmsg.MetadataResponse](f, metadataRequest(v, "s"))
		if len(r.Brokers) != 1 || r.Brokers[0].NodeID != 1 {
			t.Errorf("version %d: brokers %+v", v, r.Brokers)
		}
		p := r.Topics[0].Partitions[0]
		want := kafka.ListenerNotFound
		if v < 6 {
			want = kafka.LeaderNotAvailable
		}
		if kafka.Code(p.ErrorCode) != want || p.Leader != -1 {
			t.Errorf("version %d: leader %d, %v", v, p.Leader, kafka.Code(p.ErrorCode))
		}
		replicas := []int32{2, 1}
		if v == 0 {
			replicas = []int32{1}
		}
		if !slices.Equal(p.Replicas, replicas) || !slices.Equal(p.ISR, replicas) {
			t.Errorf("version %d: replicas %v, in sync %v", v, p.Replicas, p.ISR)
		}
		if v >= 5 && !slices.Equal(p.OfflineReplicas, []int32{2}) {
			t.Errorf("version %d: offline %v", v, p.OfflineReplicas)
		}
		if v >= 7 && p.LeaderEpoch != 4 {
			t.Errorf("version %d: leader epoch %d", v, p.LeaderEpoch)
		}
	}
}

// TestMetadataVersion0HidesReplicas: the oldest version reports a replica that is away as an error beside a leader.
func TestMetadataVersion0HidesReplicas(t *testing.T) {
	f, _ := newAdmin(t)
	f.spread("s")
	f.fence(1)
	for v, want := range map[int16]kafka.Code{0: kafka.ReplicaNotAvailable, 1: kafka.None} {
		p := ask[*kmsg.MetadataResponse](f, metadataRequest(v, "s")).Topics[0].Partitions[0]
		if kafka.Code(p.ErrorCode) != want || p.Leader != 2 {
			t.Errorf("version %d: %v, leader %d", v, kafka.Code(p.ErrorCode), p.Leader)
		}
	}
}

func TestMetadataOfLostPlaces(t *testing.T) {
	f, _ := newAdmin(t)
	lost, away, none := topicID("lost"), topicID("away"), topicID("none")
	one := []kafka.NodeID{1}
	f.apply(&metadata.TopicRecord{Name: "lost", TopicID: lost}, &metadata.PartitionRecord{
		TopicID: lost, Replicas: []kafka.NodeID{2}, ISR: []kafka.NodeID{2}, Leader: 2,
		Directories: []kafka.UUID{kafka.DirectoryLost}},
		&metadata.TopicRecord{Name: "away", TopicID: away}, &metadata.PartitionRecord{
			TopicID: away, Replicas: []kafka.NodeID{9}, ISR: []kafka.NodeID{9}, Leader: 9,
			Directories: []kafka.UUID{kafka.DirectoryUnassigned}},
		&metadata.TopicRecord{Name: "none", TopicID: none}, &metadata.PartitionRecord{
			TopicID: none, Replicas: one, ISR: one, Leader: kafka.NoNode,
			Directories: []kafka.UUID{kafka.DirectoryUnassigned}})
	r := ask[*kmsg.MetadataResponse](f, metadataRequest(13, "lost", "away", "none"))
	want := []struct {
		code    kafka.Code
		leader  int32
		offline []int32
	}{{kafka.None, 2, []int32{2}}, {kafka.LeaderNotAvailable, -1, []int32{9}}, {kafka.LeaderNotAvailable, -1, []int32{}}}
	for i, w := range want {
		p := r.Topics[i].Partitions[0]
		if kafka.Code(p.ErrorCode) != w.code || p.Leader != w.leader || !slices.Equal(p.OfflineReplicas, w.offline) {
			t.Errorf("%s: %v, leader %d, offline %v", *r.Topics[i].Topic, kafka.Code(p.ErrorCode), p.Leader, p.OfflineReplicas)
		}
	}
}

// TestMetadataCreates: one request per missing topic, however many clients ask, and none for names that cannot exist.
func TestMetadataCreates(t *testing.T) {
	f, x := newAdmin(t)
	f.create("known", 1)
	for v := int16(0); v <= 13; v++ {
		x.asked, x.answers = nil, nil
		req := metadataRequest(v, "known", "new", "a/b", "other")
		req.AllowAutoTopicCreation = true
		wire := req.AppendTo(nil)
		p := f.startPoisoned(req)
		r := f.body(req, f.reply(p)).(*kmsg.MetadataResponse)
		if kafka.Code(r.Topics[1].ErrorCode) != kafka.UnknownTopicOrPartition || *r.Topics[1].Topic != "new" {
			t.Errorf("version %d: %+v", v, r.Topics[1])
		}
		_ = ask[*kmsg.MetadataResponse](f, req)
		if len(x.asked) != 1 {
			t.Fatalf("version %d: %d requests to create", v, len(x.asked))
		}
		create := x.asked[0].(*kmsg.CreateTopicsRequest)
		if len(create.Topics) != 2 || create.Topics[0].Topic != "new" || create.Topics[1].Topic != "other" ||
			create.Topics[0].NumPartitions != -1 || create.Topics[0].ReplicationFactor != -1 {
			t.Errorf("version %d: %+v", v, create.Topics)
		}
		if !bytes.Equal(req.AppendTo(nil), wire) {
			t.Errorf("version %d: the request changed", v)
		}
		x.answers[0].Set(ControlReply{Err: kafka.NotController}) // the next client tries again
	}
	x.asked = nil
	for v := int16(4); v <= 13; v++ {
		ask[*kmsg.MetadataResponse](f, metadataRequest(v, "new"))
	}
	if len(x.asked) != 0 {
		t.Error("a topic was created for a client that did not want it")
	}
}

// TestAutoCreationIsBounded: names that wait for a controller that never answers cost bounded memory, and end in time.
func TestAutoCreationIsBounded(t *testing.T) {
	var a autoCreation
	for i := range 20 {
		names := make([]string, maxAutoCreations/10)
		for j := range names {
			names[j] = strings.Repeat("x", i) + string(rune('a'+j%26)) + strings.Repeat("y", j/26)
		}
		a.begin(names)
	}
	if len(a.names) > maxAutoCreations {
		t.Errorf("%d names wait", len(a.names))
	}
	f, x := newAdmin(t)
	req := metadataRequest(9, "new")
	req.AllowAutoTopicCreation = true
	ask[*kmsg.MetadataResponse](f, req)
	f.advance(f.requestTimeout())
	ask[*kmsg.MetadataResponse](f, req)
	if len(x.asked) != 2 {
		t.Errorf("asked %d times; a name that was given up must be tried again", len(x.asked))
	}
}

// TestInternalTopics: a coordinator's topic that a client asks about comes into being as the coordinator needs it.
func TestInternalTopics(t *testing.T) {
	f, _ := newAdmin(t, "offsets.topic.num.partitions", "7", "transaction.state.log.replication.factor", "2",
		"transaction.state.log.min.isr", "2")
	setting := func(topic kmsg.CreateTopicsRequestTopic, key string) string {
		for _, c := range topic.Configs {
			if c.Name == key {
				return *c.Value
			}
		}
		return "none"
	}
	offsets, txns := f.automaticTopic("__consumer_offsets"), f.automaticTopic("__transaction_state")
	if offsets.NumPartitions != 7 || setting(offsets, "cleanup.policy") != "compact" ||
		setting(offsets, "segment.bytes") != "104857600" {
		t.Errorf("offsets: %+v", offsets)
	}
	if txns.NumPartitions != 50 || txns.ReplicationFactor != 2 || setting(txns, "min.insync.replicas") != "2" ||
		setting(txns, "unclean.leader.election.enable") != "false" {
		t.Errorf("transactions: %+v", txns)
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		checkAutomatic(t, f, name)
	}
	// What Kafka accepts for the broker and refuses for the topic.
	f, _ = newAdmin(t, "offsets.topic.segment.bytes", "1", "transaction.state.log.segment.bytes", "1000000",
		"share.coordinator.state.topic.segment.bytes", "4096")
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		checkAutomatic(t, f, name)
	}
}

// checkAutomatic checks that a topic of a coordinator can be created.
func checkAutomatic(t *testing.T, f *fixture, name string) {
	t.Helper()
	topic := f.automaticTopic(name)
	var settings []config.Assignment
	for _, c := range topic.Configs {
		settings = append(settings, config.Assignment{Name: c.Name, Value: c.Value})
	}
	if _, err := f.Resolver(f.Image()).NewTopic(settings); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if topic.NumPartitions < 1 || topic.ReplicationFactor < 1 || len(topic.Configs) == 0 {
		t.Errorf("%s: %+v", name, topic)
	}
}

func TestTopicNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "A.b_c-9": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, strings.Repeat("x", 250): false, "a b": false, "a/b": false, "ü": false,
		"a\n": false, "a\x00": false} {
		if err := checkTopicName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestFailedAutoCreationsAreNotLoggedEachTime: a topic that cannot be created is asked about over and over.
func TestFailedAutoCreationsAreNotLoggedEachTime(t *testing.T) {
	f, x := newAdmin(t)
	var text strings.Builder
	f.Log = slog.New(slog.NewTextHandler(&text, nil))
	x.now = func(body kmsg.Request) *ControlReply {
		return &ControlReply{Body: refuseCreateTopics(body.(*kmsg.CreateTopicsRequest), kafka.InvalidReplicationFactor)}
	}
	req := metadataRequest(9, "new")
	req.AllowAutoTopicCreation = true
	for range 100 {
		ask[*kmsg.MetadataResponse](f, req)
	}
	f.advance(autoCreationWarning)
	ask[*kmsg.MetadataResponse](f, req)
	if n := strings.Count(text.String(), "INVALID_REPLICATION_FACTOR"); n != 2 || len(x.asked) != 101 {
		t.Errorf("logged %d times for %d attempts", n, len(x.asked))
	}
}
