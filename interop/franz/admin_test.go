package franz

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (s *suite) topics(t *testing.T) {
	name := s.topic(t, 3, "retention.ms=86400000")
	_, err := s.adm.CreateTopic(s.ctx, 1, 1, nil, name)
	expect(t, "create again", err, kerr.TopicAlreadyExists)
	_, err = s.adm.CreateTopic(s.ctx, 1, 1, nil, "no/slash")
	expect(t, "create with a slash", err, kerr.InvalidTopicException)
	_, err = s.adm.CreateTopic(s.ctx, 1, 3, nil, "three-replicas")
	expect(t, "more replicas than brokers", err, kerr.InvalidReplicationFactor)
	bad := "nonsense"
	_, err = s.adm.CreateTopic(s.ctx, 1, 1, map[string]*string{"retention.ms": &bad}, "bad-config")
	expect(t, "bad config value", err, kerr.InvalidConfig)
	if r, err := s.adm.ValidateCreateTopics(s.ctx, 2, 1, nil, "only-validated"); err != nil || r["only-validated"].Err != nil {
		t.Errorf("validate only: %v %v", err, r["only-validated"].Err)
	}
	meta, err := s.adm.ListTopics(s.ctx, name, "only-validated")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "validated topic", meta["only-validated"].Err, kerr.UnknownTopicOrPartition)
	equal(t, "partitions", len(meta[name].Partitions), 3)
	if meta[name].ID == (kadm.TopicID{}) {
		t.Error("no topic id")
	}
	for _, p := range meta[name].Partitions {
		if p.Leader != 1 || len(p.Replicas) != 1 || len(p.ISR) != 1 || p.LeaderEpoch < 0 {
			t.Errorf("partition %+v", p)
		}
	}
	if r, err := s.adm.UpdatePartitions(s.ctx, 5, name); err != nil || r[name].Err != nil {
		t.Fatalf("grow: %v %v", err, r[name].Err)
	}
	r, err := s.adm.UpdatePartitions(s.ctx, 2, name)
	if err == nil {
		err = r[name].Err
	}
	expect(t, "shrink", err, kerr.InvalidPartitions)
	meta, _ = s.adm.ListTopics(s.ctx, name)
	equal(t, "partitions after growing", len(meta[name].Partitions), 5)
	if d, err := s.adm.DeleteTopics(s.ctx, name); err != nil || d[name].Err != nil {
		t.Fatalf("delete: %v %v", err, d[name].Err)
	}
	d, _ := s.adm.DeleteTopics(s.ctx, name)
	expect(t, "delete again", d[name].Err, kerr.UnknownTopicOrPartition)
}

func (s *suite) configs(t *testing.T) {
	name := s.topic(t, 1, "max.message.bytes=54321")
	get := func(key string) *kadm.Config {
		t.Helper()
		rc, err := s.adm.DescribeTopicConfigs(s.ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rc[0].Configs {
			if c.Key == key {
				return &c
			}
		}
		t.Fatalf("no config %s", key)
		return nil
	}
	equal(t, "max.message.bytes", get("max.message.bytes").MaybeValue(), "54321")
	equal(t, "its source", get("max.message.bytes").Source, kmsg.ConfigSourceDynamicTopicConfig)
	equal(t, "a default's source", get("segment.bytes").Source, kmsg.ConfigSourceDefaultConfig)
	alter := func(op kadm.IncrementalOp, key, value string) error {
		r, err := s.adm.AlterTopicConfigs(s.ctx, []kadm.AlterConfig{{Op: op, Name: key, Value: &value}}, name)
		if err == nil {
			err = r[0].Err
		}
		return err
	}
	expect(t, "set", alter(kadm.SetConfig, "retention.ms", "60000"), nil)
	equal(t, "retention.ms", get("retention.ms").MaybeValue(), "60000")
	expect(t, "append", alter(kadm.AppendConfig, "cleanup.policy", "compact"), nil)
	equal(t, "cleanup.policy", get("cleanup.policy").MaybeValue(), "delete,compact")
	expect(t, "subtract", alter(kadm.SubtractConfig, "cleanup.policy", "compact"), nil)
	equal(t, "cleanup.policy again", get("cleanup.policy").MaybeValue(), "delete")
	expect(t, "delete", alter(kadm.DeleteConfig, "retention.ms", ""), nil)
	equal(t, "retention.ms default", get("retention.ms").MaybeValue(), "604800000")
	expect(t, "unknown key", alter(kadm.SetConfig, "no.such.key", "1"), kerr.InvalidConfig)
	expect(t, "bad value", alter(kadm.SetConfig, "retention.ms", "x"), kerr.InvalidConfig)

	v := "33333"
	if r, err := s.adm.AlterBrokerConfigs(s.ctx, []kadm.AlterConfig{{Name: "log.retention.ms", Value: &v}}); err != nil ||
		r[0].Err != nil {
		t.Fatalf("cluster default: %v", err)
	}
	within(t, func() bool {
		c := get("retention.ms")
		return c.MaybeValue() == v && c.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}, "cluster default reaches the topic")
	if r, err := s.adm.AlterBrokerConfigs(s.ctx,
		[]kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}}); err != nil || r[0].Err != nil {
		t.Fatalf("delete cluster default: %v", err)
	}
	rc, err := s.adm.DescribeBrokerConfigs(s.ctx, 1)
	if err != nil || len(rc) != 1 || len(rc[0].Configs) < 100 {
		t.Errorf("broker configs: %v, %d", err, len(rc))
	}
}

func within(t *testing.T, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (s *suite) deleteRecords(t *testing.T) {
	name := s.topic(t, 1)
	s.fill(t, name, 50)
	del := func(at int64) error {
		var o kadm.Offsets
		o.Add(kadm.Offset{Topic: name, Partition: 0, At: at})
		r, err := s.adm.DeleteRecords(s.ctx, o)
		if err != nil {
			return err
		}
		if p, ok := r.Lookup(name, 0); ok {
			if p.Err == nil && at >= 0 {
				equal(t, "low watermark", p.LowWatermark, at)
			}
			return p.Err
		}
		return errors.New("partition not answered")
	}
	expect(t, "up to 20", del(20), nil)
	rs := s.read(t, name, kgo.NewOffset().AtStart(), 30)
	equal(t, "first offset", rs[0].Offset, 20)
	expect(t, "beyond the end", del(51), kerr.OffsetOutOfRange)
	expect(t, "up to the high watermark", del(-1), nil)
	start, _ := s.adm.ListStartOffsets(s.ctx, name)
	o, _ := start.Lookup(name, 0)
	equal(t, "start", o.Offset, 50)
	// A position that is gone is reset as the client asks.
	cl := s.client(t, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(5)}}))
	time.Sleep(300 * time.Millisecond)
	s.fill(t, name, 1)
	equal(t, "after the reset", poll(t, s.ctx, cl, 1)[0].Offset, 50)
}

func (s *suite) recreate(t *testing.T) {
	name := s.topic(t, 1)
	s.fill(t, name, 10)
	before := s.topicID(t, name)
	if _, err := s.adm.DeleteTopics(s.ctx, name); err != nil {
		t.Fatal(err)
	}
	s.topic(t, 1)
	if before == s.topicID(t, name) {
		t.Error("a topic created again has its old id")
	}
	s.fill(t, name, 3)
	rs := s.read(t, name, kgo.NewOffset().AtStart(), 3)
	equal(t, "first offset", rs[0].Offset, 0)
}

// topicID asks the broker itself, past the client's cache of metadata.
func (s *suite) topicID(t *testing.T, name string) [16]byte {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &name
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(s.ctx, s.client(t).SeedBrokers()[0])
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("metadata of %s: %v %+v", name, err, resp)
	}
	return resp.Topics[0].TopicID
}

func (s *suite) logDirs(t *testing.T) {
	name := s.topic(t, 2)
	s.fill(t, name, 100)
	var set kadm.TopicsSet
	set.Add(name, 0, 1)
	all, err := s.adm.DescribeAllLogDirs(s.ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int32]int64{}
	all[1].EachPartition(func(p kadm.DescribedLogDirPartition) {
		equal(t, "broker", p.Broker, 1)
		found[p.Partition] = p.Size
	})
	if size, ok := found[0]; !ok || size < 100 {
		t.Errorf("partition 0: %v, %d bytes", ok, size)
	}
	if size, ok := found[1]; !ok || size != 0 {
		t.Errorf("partition 1: %v, %d bytes", ok, size)
	}
}

func (s *suite) cluster(t *testing.T) {
	meta, err := s.adm.BrokerMetadata(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if meta.Cluster == "" || meta.Controller != 1 || len(meta.Brokers) != 1 || meta.Brokers[0].NodeID != 1 {
		t.Errorf("metadata %+v", meta)
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	resp, err := req.RequestWith(s.ctx, s.client(t))
	if err != nil || resp.ClusterID != meta.Cluster || len(resp.Brokers) != 1 {
		t.Errorf("describe cluster: %v %+v", err, resp)
	}
	q := kmsg.NewPtrDescribeQuorumRequest()
	qt := kmsg.NewDescribeQuorumRequestTopic()
	qt.Topic = "__cluster_metadata"
	qt.Partitions = append(qt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, qt)
	qr, err := q.RequestWith(s.ctx, s.client(t))
	if err != nil || qr.ErrorCode != 0 || qr.Topics[0].Partitions[0].LeaderID != 1 ||
		len(qr.Topics[0].Partitions[0].CurrentVoters) != 1 {
		t.Errorf("describe quorum: %v %+v", err, qr)
	}
	f := kmsg.NewPtrUpdateFeaturesRequest()
	ff := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	ff.Feature, ff.MaxVersionLevel = "no.such.feature", 1
	f.FeatureUpdates = append(f.FeatureUpdates, ff)
	fr, err := f.RequestWith(s.ctx, s.client(t))
	if err == nil {
		err = kerr.ErrorForCode(fr.ErrorCode)
		if err == nil && len(fr.Results) > 0 {
			err = kerr.ErrorForCode(fr.Results[0].ErrorCode)
		}
	}
	expect(t, "unknown feature", err, kerr.InvalidUpdateVersion)
}
