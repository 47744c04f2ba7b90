package api

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func TestDescribeCluster(t *testing.T) {
	f, _ := newAdmin(t)
	f.fence(2)
	for v := int16(0); v <= 2; v++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType = v, 1
		r := ask[*kmsg.DescribeClusterResponse](f, req)
		if r.ErrorCode != 0 || r.ClusterID != "c" || r.ControllerID != 1 || r.EndpointType != 1 || len(r.Brokers) != 1 ||
			r.ClusterAuthorizedOperations != notAsked {
			t.Errorf("version %d: %+v", v, r)
		}
		req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = true, true
		r = ask[*kmsg.DescribeClusterResponse](f, req)
		brokers := 1
		if v >= 2 {
			brokers = 2
		}
		if len(r.Brokers) != brokers || r.ClusterAuthorizedOperations != 8096 {
			t.Errorf("version %d: %d brokers, operations %d", v, len(r.Brokers), r.ClusterAuthorizedOperations)
		}
		if v >= 2 && (r.Brokers[0].IsFenced || !r.Brokers[1].IsFenced || r.Brokers[1].Host != "host-2") {
			t.Errorf("version %d: %+v", v, r.Brokers)
		}
		if v == 0 {
			continue
		}
		for kind, want := range map[int8]kafka.Code{2: kafka.MismatchedEndpointType, 0: kafka.UnsupportedEndpointType,
			3: kafka.UnsupportedEndpointType, -1: kafka.UnsupportedEndpointType} {
			req.EndpointType = kind
			r = ask[*kmsg.DescribeClusterResponse](f, req)
			if kafka.Code(r.ErrorCode) != want || r.ErrorMessage == nil || len(r.Brokers) != 0 || r.ClusterID != "" {
				t.Errorf("version %d, endpoint type %d: %+v", v, kind, r)
			}
		}
	}
}

func TestDescribeClusterOnAControllerListener(t *testing.T) {
	f, _ := newAdmin(t)
	f.apply(&metadata.RegisterControllerRecord{ControllerID: 3, IncarnationID: kafka.UUID{1},
		Endpoints: []metadata.Endpoint{{Name: "CONTROLLER", Host: "c3", Port: 9093}}})
	f.conn = server.NewConnInfo("CONTROLLER", server.ControllerListener, f.conn.Local, f.conn.Remote)
	f.Quorum = func() *promise.Promise[QuorumReply] {
		return promise.Done(QuorumReply{Description: quorum.Description{Leader: 3}})
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.EndpointType = 2, 2
	r := ask[*kmsg.DescribeClusterResponse](f, req)
	if r.ErrorCode != 0 || r.EndpointType != 2 || r.ControllerID != 3 || len(r.Brokers) != 1 || r.Brokers[0].Host != "c3" {
		t.Errorf("%+v", r)
	}
	req.EndpointType = 1
	if r := ask[*kmsg.DescribeClusterResponse](f, req); kafka.Code(r.ErrorCode) != kafka.MismatchedEndpointType {
		t.Errorf("%+v", r)
	}
}

// page is what a DescribeTopicPartitions answered, as topic/partition texts.
func page(r *kmsg.DescribeTopicPartitionsResponse) []string {
	var out []string
	for _, t := range r.Topics {
		if t.ErrorCode != 0 {
			out = append(out, *t.Topic+" "+kafka.Code(t.ErrorCode).Name())
		} else if len(t.Partitions) == 0 {
			out = append(out, *t.Topic+" empty")
		}
		for _, p := range t.Partitions {
			out = append(out, *t.Topic+"-"+string(rune('0'+p.Partition)))
		}
	}
	if c := r.NextCursor; c != nil {
		out = append(out, "next "+c.Topic+"-"+string(rune('0'+c.Partition)))
	}
	return out
}

// TestDescribeTopicPartitionsPages holds pages against what Apache Kafka 4.4 answered to the same requests.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	f, _ := newAdmin(t)
	f.create("xa", 3)
	f.create("xb", 2)
	tests := []struct {
		limit  int32
		cursor string
		at     int32
		names  string
		want   string
	}{
		{2000, "", 0, "xb xa", "xa-0,xa-1,xa-2,xb-0,xb-1"},
		{0, "", 0, "xa", "xa-0,next xa-1"},
		{-1, "", 0, "xa", "xa-0,next xa-1"},
		{3, "", 0, "xb xa", "xa-0,xa-1,xa-2,next xb-0"},
		{4, "", 0, "xb xa", "xa-0,xa-1,xa-2,xb-0,next xb-1"},
		{5, "", 0, "xb xa zz", "xa-0,xa-1,xa-2,xb-0,xb-1,next zz-0"},
		{100, "", 0, "xa xa", "xa-0,xa-1,xa-2"},
		{100, "", 0, "a/b zz", "a/b INVALID_TOPIC_EXCEPTION,zz UNKNOWN_TOPIC_OR_PARTITION"},
		{100, "xa", 1, "xa xb", "xa-1,xa-2,xb-0,xb-1"},
		{100, "xa", 3, "xa xb", "xa empty,xb-0,xb-1"},
		{100, "xa", 2147483647, "xa xb", "xa empty,xb-0,xb-1"},
		{100, "xa", -1, "xa xb", "xa INVALID_REQUEST,xb INVALID_REQUEST"},
		{100, "xaa", 0, "xa xb", "xa INVALID_REQUEST,xb INVALID_REQUEST"},
		{100, "xaa", 1, "xa xaa xb", "xaa UNKNOWN_TOPIC_OR_PARTITION,xb-0,xb-1"},
		{1, "xb", 1, "", "xb-1"},
		{1, "", 0, "", "xa-0,next xa-1"},
		{100, "xaa", 1, "", "xb-0,xb-1"},
		{100, "zzz", 1, "", ""},
	}
	for _, x := range tests {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = x.limit
		for name := range strings.FieldsSeq(x.names) {
			topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
			topic.Topic = name
			req.Topics = append(req.Topics, topic)
		}
		if x.cursor != "" {
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = x.cursor, x.at
			req.Cursor = &c
		}
		got := strings.Join(page(ask[*kmsg.DescribeTopicPartitionsResponse](f, req)), ",")
		if got != x.want {
			t.Errorf("%+v:\ngot  %s", x, got)
		}
	}
}

// TestDescribeTopicPartitionsWalk: whoever follows the cursors sees every partition once, on pages within the limit.
func TestDescribeTopicPartitionsWalk(t *testing.T) {
	f, _ := newAdmin(t, "max.request.partition.size.limit", "4")
	for i, name := range []string{"d", "a", "c", "b"} {
		f.create(name, int32(i+1))
	}
	for limit := int32(1); limit <= 12; limit++ {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		var seen []string
		for range 20 {
			r := ask[*kmsg.DescribeTopicPartitionsResponse](f, req)
			got := page(r)
			if r.NextCursor != nil {
				got = got[:len(got)-1]
			}
			if len(got) > int(min(limit, 4)) {
				t.Errorf("limit %d: %d partitions on a page", limit, len(got))
			}
			seen = append(seen, got...)
			if r.NextCursor == nil {
				break
			}
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = r.NextCursor.Topic, r.NextCursor.Partition
			req.Cursor = &c
		}
		want := []string{"a-0", "a-1", "b-0", "b-1", "b-2", "b-3", "c-0", "c-1", "c-2", "d-0"}
		if !slices.Equal(seen, want) {
			t.Errorf("limit %d: %q", limit, seen)
		}
	}
}

func TestDescribeTopicPartitionsFields(t *testing.T) {
	f, _ := newAdmin(t)
	id := topicID("s")
	f.apply(&metadata.TopicRecord{Name: "s", TopicID: id}, &metadata.PartitionRecord{
		TopicID: id, Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1}, Leader: 1, LeaderEpoch: 6,
		EligibleLeaderReplicas: []kafka.NodeID{2}, LastKnownELR: []kafka.NodeID{1},
		Directories: []kafka.UUID{kafka.DirectoryUnassigned, kafka.DirectoryUnassigned}})
	f.fence(2)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 10
	r := ask[*kmsg.DescribeTopicPartitionsResponse](f, req).Topics[0]
	p := r.Partitions[0]
	if r.TopicID != [16]byte(id) || r.AuthorizedOperations != 3576 || p.LeaderID != 1 || p.LeaderEpoch != 6 ||
		!slices.Equal(p.EligibleLeaderReplicas, []int32{2}) || !slices.Equal(p.LastKnownELR, []int32{1}) ||
		!slices.Equal(p.OfflineReplicas, []int32{2}) || !slices.Equal(p.Replicas, []int32{1, 2}) {
		t.Errorf("%+v", r)
	}
	unnamed := *req
	unnamed.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: ""}}
	if r := ask[*kmsg.DescribeTopicPartitionsResponse](f, &unnamed).Topics[0]; r.AuthorizedOperations != math.MinInt32 ||
		kafka.Code(r.ErrorCode) != kafka.InvalidTopicException {
		t.Errorf("the empty name: %+v", r)
	}
	f.fence(1)
	p = ask[*kmsg.DescribeTopicPartitionsResponse](f, req).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != -1 { // as Apache Kafka has it: a partition without a leader is no error
		t.Errorf("fenced leader: %+v", p)
	}
}

func quorumRequest(version int16, topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	r := kmsg.NewPtrDescribeQuorumRequest()
	x := kmsg.NewDescribeQuorumRequestTopic()
	x.Topic = topic
	for _, p := range partitions {
		y := kmsg.NewDescribeQuorumRequestTopicPartition()
		y.Partition = p
		x.Partitions = append(x.Partitions, y)
	}
	r.Topics = append(r.Topics, x)
	return at(r, version)
}

func TestDescribeQuorum(t *testing.T) {
	f, _ := newAdmin(t)
	key := quorum.ReplicaKey{ID: 1, Directory: kafka.UUID{5}}
	f.Quorum = func() *promise.Promise[QuorumReply] {
		return promise.Done(QuorumReply{Description: quorum.Description{Leader: 1, Epoch: 3, HighWatermark: 77,
			Voters: []quorum.ReplicaDescription{{Key: key, LogEnd: 80, LastFetchMs: 11, LastCaughtUpMs: 12}},
			Observers: []quorum.ReplicaDescription{
				{Key: quorum.ReplicaKey{ID: 4}, LogEnd: 60, LastFetchMs: 1, LastCaughtUpMs: -1}},
			Nodes: []quorum.Voter{{Key: key, Endpoints: []quorum.Endpoint{{Name: "CONTROLLER", Host: "h", Port: 65535}}}},
		}})
	}
	for v := int16(0); v <= 2; v++ {
		r := ask[*kmsg.DescribeQuorumResponse](f, quorumRequest(v, kafka.MetadataTopic, 0))
		p := r.Topics[0].Partitions[0]
		if r.ErrorCode != 0 || p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch != 3 || p.HighWatermark != 77 {
			t.Errorf("version %d: %+v", v, r)
		}
		voter, observer := p.CurrentVoters[0], p.Observers[0]
		if voter.ReplicaID != 1 || voter.LogEndOffset != 80 || observer.ReplicaID != 4 || observer.LogEndOffset != 60 {
			t.Errorf("version %d: voter %+v, observer %+v", v, voter, observer)
		}
		if v >= 1 && (voter.LastFetchTimestamp != 11 || voter.LastCaughtUpTimestamp != 12 ||
			observer.LastCaughtUpTimestamp != -1) {
			t.Errorf("version %d: times %+v %+v", v, voter, observer)
		}
		if v >= 2 && (voter.ReplicaDirectoryID != [16]byte{5} || r.Nodes[0].NodeID != 1 ||
			r.Nodes[0].Listeners[0].Port != 65535 || r.ErrorMessage == nil || *p.ErrorMessage != "") {
			t.Errorf("version %d: %+v", v, r)
		}
		for _, req := range []*kmsg.DescribeQuorumRequest{quorumRequest(v, "other", 0, 3),
			quorumRequest(v, kafka.MetadataTopic, 1), quorumRequest(v, kafka.MetadataTopic, 0, 1)} {
			r := ask[*kmsg.DescribeQuorumResponse](f, req)
			if len(r.Topics[0].Partitions) != len(req.Topics[0].Partitions) || r.Topics[0].Topic != req.Topics[0].Topic {
				t.Errorf("version %d: %+v", v, r.Topics)
			}
			for _, p := range r.Topics[0].Partitions {
				if kafka.Code(p.ErrorCode) != kafka.UnknownTopicOrPartition {
					t.Errorf("version %d: %v", v, kafka.Code(p.ErrorCode))
				}
			}
		}
		elsewhere, _ := newAdmin(t)
		elsewhere.Quorum = func() *promise.Promise[QuorumReply] {
			return promise.Done(QuorumReply{Err: kafka.NotLeaderOrFollower})
		}
		elsewhere.Control = func(_ *server.Call, r kmsg.Request) *promise.Promise[ControlReply] {
			if r.Key() != int16(kmsg.DescribeQuorum) {
				t.Errorf("asks for %s", apiName(r.Key()))
			}
			return promise.Done(ControlReply{Err: kafka.NotLeaderOrFollower})
		}
		r = ask[*kmsg.DescribeQuorumResponse](elsewhere, quorumRequest(v, kafka.MetadataTopic, 0))
		if p := r.Topics[0].Partitions[0]; kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower {
			t.Errorf("version %d: %v", v, kafka.Code(p.ErrorCode))
		}
	}
}

func TestListConfigResources(t *testing.T) {
	f, _ := newAdmin(t)
	f.create("b", 1)
	f.create("a", 1)
	value := "5000"
	f.apply(&metadata.ConfigRecord{ResourceType: metadata.ResourceType(kmsg.ConfigResourceTypeClientMetrics),
		ResourceName: "m1", Name: "interval.ms", Value: &value},
		&metadata.ConfigRecord{ResourceType: metadata.ResourceType(kmsg.ConfigResourceTypeGroupConfig),
			ResourceName: "g1", Name: "consumer.session.timeout.ms", Value: &value})
	f.fence(2)
	list := func(version int16, types ...int8) string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = version, types
		r := ask[*kmsg.ListConfigResourcesResponse](f, req)
		var out []string
		if r.ErrorCode != 0 {
			out = append(out, kafka.Code(r.ErrorCode).Name())
		}
		for _, x := range r.ConfigResources {
			out = append(out, x.Name)
		}
		return strings.Join(out, " ")
	}
	for _, x := range []struct{ got, want string }{
		{list(0), "m1"}, {list(1), "a b 1 1 m1 g1"}, {list(1, 2), "a b"}, {list(1, 8), "1"}, {list(1, 32, 16, 32), "m1 g1"},
		{list(1, 77), "UNSUPPORTED_VERSION"}, {list(1, 2, 0), "UNSUPPORTED_VERSION"},
	} {
		if x.got != x.want {
			t.Errorf("got %q, want %q", x.got, x.want)
		}
	}
}

func TestDescribeConfigs(t *testing.T) {
	const topic, brk = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	const logger = kmsg.ConfigResourceTypeBrokerLogger
	f, _ := newAdmin(t, "num.partitions", "3")
	f.create("a", 1, "segment.bytes", "2097152")
	for v := int16(1); v <= 4; v++ {
		r := f.describe(v, topic, "a", "segment.bytes", "no.such")
		if r.ErrorCode != 0 || len(r.Configs) != 1 || r.ErrorMessage == nil || *r.ErrorMessage != "" {
			t.Fatalf("version %d: %+v", v, r)
		}
		c := r.Configs[0]
		if *c.Value != "2097152" || c.Source != kmsg.ConfigSourceDynamicTopicConfig || c.ReadOnly || c.IsSensitive {
			t.Errorf("version %d: %+v", v, c)
		}
		if len(c.ConfigSynonyms) != 2 || c.ConfigSynonyms[1].Name != "log.segment.bytes" {
			t.Errorf("version %d: synonyms %+v", v, c.ConfigSynonyms)
		}
		if v >= 3 && (c.ConfigType != kmsg.ConfigTypeInt || c.Documentation == nil) {
			t.Errorf("version %d: type %v", v, c.ConfigType)
		}
		if n := len(f.describe(v, topic, "a").Configs); n < 30 {
			t.Errorf("version %d: %d keys in all", v, n)
		}
		bare := describeRequest(v, topic, "a", "segment.bytes")
		bare.IncludeSynonyms, bare.IncludeDocumentation = false, false
		bare.Resources[0].ConfigNames = []string{} // all, like null
		many := ask[*kmsg.DescribeConfigsResponse](f, bare).Resources[0].Configs
		if len(many) < 30 || len(many[0].ConfigSynonyms) != 0 || many[0].Documentation != nil {
			t.Errorf("version %d: %d keys, first %+v", v, len(many), many[0])
		}
		if c := f.describe(v, brk, "1", "num.partitions").Configs[0]; *c.Value != "3" || !c.ReadOnly ||
			c.Source != kmsg.ConfigSourceStaticBrokerConfig {
			t.Errorf("version %d: %+v", v, c)
		}
		if r := f.describe(v, brk, ""); r.ErrorCode != 0 || len(r.Configs) != 0 {
			t.Errorf("version %d: broker default: %+v", v, r)
		}
	}
	for _, x := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want kafka.Code
	}{
		{topic, "none", kafka.UnknownTopicOrPartition}, {topic, "a/b", kafka.InvalidTopicException},
		{topic, "", kafka.InvalidTopicException}, {brk, "2", kafka.InvalidRequest}, {brk, "x", kafka.InvalidRequest},
		{logger, "2", kafka.InvalidRequest}, {logger, "", kafka.InvalidRequest}, {77, "x", kafka.InvalidRequest},
		{0, "x", kafka.InvalidRequest}, {kmsg.ConfigResourceTypeClientMetrics, "", kafka.InvalidRequest},
		{kmsg.ConfigResourceTypeClientMetrics, "m", 0}, {kmsg.ConfigResourceTypeGroupConfig, "", kafka.InvalidRequest},
		{kmsg.ConfigResourceTypeGroupConfig, "g", 0},
	} {
		r := f.describe(4, x.kind, x.name)
		if kafka.Code(r.ErrorCode) != x.want || r.ResourceType != x.kind || r.ResourceName != x.name ||
			(len(r.Configs) == 0) != (x.want != 0) {
			t.Errorf("%v %q: %v with %d keys", x.kind, x.name, kafka.Code(r.ErrorCode), len(r.Configs))
		}
	}
}

// TestLoggers holds the answers about loggers against those of Apache Kafka 4.4.
func TestLoggers(t *testing.T) {
	const logger = kmsg.ConfigResourceTypeBrokerLogger
	f, x := newAdmin(t)
	f.LogLevel = new(slog.LevelVar)
	f.Log = slog.New(slog.NewTextHandler(new(strings.Builder), &slog.HandlerOptions{Level: f.LogLevel}))
	level := func() string {
		r := f.describe(4, logger, "1")
		if len(r.Configs) != 1 || r.Configs[0].Name != "root" || r.Configs[0].Source != 6 || r.Configs[0].ReadOnly {
			t.Fatalf("%+v", r)
		}
		return *r.Configs[0].Value
	}
	alter := func(validateOnly bool, changes ...kmsg.IncrementalAlterConfigsRequestResource) kafka.Code {
		r := alterOf(logger, "1", "", 0)
		r.Configs = nil
		for _, c := range changes {
			r.Configs = append(r.Configs, c.Configs...)
		}
		return kafka.Code(ask[*kmsg.IncrementalAlterConfigsResponse](f, incremental(validateOnly, r)).Resources[0].ErrorCode)
	}
	set := func(op int8, name string, value ...string) kmsg.IncrementalAlterConfigsRequestResource {
		return alterOf(logger, "1", name, op, value...)
	}
	if level() != "INFO" {
		t.Errorf("begins at %s", level())
	}
	for _, name := range []string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"} {
		if code := alter(false, set(0, "root", name)); code != 0 || level() != name {
			t.Errorf("set to %s: %v, is %s", name, code, level())
		}
	}
	for _, c := range []struct {
		want    kafka.Code
		changes []kmsg.IncrementalAlterConfigsRequestResource
	}{
		{0, nil},
		{kafka.InvalidConfig, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "root", "info")}},
		{kafka.InvalidConfig, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "root", "OFF")}},
		{kafka.InvalidConfig, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "other", "INFO")}},
		{kafka.InvalidConfig, []kmsg.IncrementalAlterConfigsRequestResource{set(1, "other")}},
		{kafka.InvalidRequest, []kmsg.IncrementalAlterConfigsRequestResource{set(1, "root")}},
		{kafka.InvalidRequest, []kmsg.IncrementalAlterConfigsRequestResource{set(2, "root", "INFO")}},
		{kafka.InvalidRequest, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "root")}},
		{kafka.InvalidRequest, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "root", "INFO"), set(0, "root", "WARN")}},
		{kafka.InvalidConfig, []kmsg.IncrementalAlterConfigsRequestResource{set(0, "root", "INFO"), set(0, "other", "WARN")}},
	} {
		if code := alter(false, c.changes...); code != c.want || level() != "TRACE" {
			t.Errorf("%+v: %v, is %s", c.changes, code, level())
		}
	}
	if code := alter(true, set(0, "root", "INFO")); code != 0 || level() != "TRACE" {
		t.Errorf("validate only: %v, is %s", code, level())
	}
	f.LogLevel = nil
	if code := alter(false, set(0, "root", "INFO")); code != kafka.InvalidConfig {
		t.Errorf("a fixed level: %v", code)
	}
	if len(x.asked) != 0 {
		t.Error("the controller was asked about loggers")
	}
	if r := f.describe(4, logger, "1", "other"); r.ErrorCode != 0 || len(r.Configs) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestDescribeConfigsIsBounded: what a short request names a million times is not answered a million times.
func TestDescribeConfigsIsBounded(t *testing.T) {
	f, _ := newAdmin(t, "moldau.describe.entries.max", "1000")
	f.create("a", 1)
	req := describeRequest(4, kmsg.ConfigResourceTypeTopic, "a")
	for range 999 {
		req.Resources = append(req.Resources, req.Resources[0])
	}
	entries, refused := 0, 0
	for _, r := range ask[*kmsg.DescribeConfigsResponse](f, req).Resources {
		entries += len(r.Configs)
		if kafka.Code(r.ErrorCode) == kafka.PolicyViolation {
			refused++
		}
	}
	if entries > 1000 || entries < 900 || refused < 950 {
		t.Errorf("%d entries, %d of 1000 resources refused", entries, refused)
	}
}

// BenchmarkMetadataOfAll measures what a client with no list of topics costs on a node with many partitions.
func BenchmarkMetadataOfAll(b *testing.B) {
	f, _ := newAdmin(b)
	var rs []metadata.Record
	for i := range 1000 {
		name := strings.Repeat("t", 20) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		id := topicID(name[20:])
		rs = append(rs, &metadata.TopicRecord{Name: name, TopicID: id})
		for p := range int32(5) {
			rs = append(rs, &metadata.PartitionRecord{PartitionID: p, TopicID: id, Replicas: []kafka.NodeID{2},
				ISR: []kafka.NodeID{2}, Leader: 2, Directories: []kafka.UUID{kafka.DirectoryUnassigned}})
		}
	}
	f.apply(rs...)
	req := metadataRequest(12)
	b.ReportAllocs()
	for b.Loop() {
		_, p := f.start(req)
		if len(f.reply(p).Body.(*kmsg.MetadataResponse).Topics) != 1000 {
			b.Fatal("topics are missing")
		}
	}
}
