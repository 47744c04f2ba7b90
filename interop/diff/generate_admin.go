package diff

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) createTopics() Step {
	req := kmsg.NewPtrCreateTopicsRequest()
	g.version(req, 2, 7)
	req.TimeoutMillis = 10000
	req.ValidateOnly = g.IntN(2) == 0
	what := fmt.Sprintf("validate %v", req.ValidateOnly)
	for range 1 + g.IntN(2) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = often(g, fmt.Sprintf("x%d", g.IntN(8)), "t0", "", ".", "..", "a b", "__cluster_metadata", "t.0", "t_0")
		t.NumPartitions = often(g, int32(1+g.IntN(3)), -1, 0, -2)
		t.ReplicationFactor = often(g, int16(1), -1, 0, 2, -3)
		if g.IntN(6) == 0 {
			t.NumPartitions, t.ReplicationFactor = -1, -1
			t.ReplicaAssignment = pick(g, []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}},
				[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}},
				[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{7}}},
				[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1, 1}}},
				[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0}})
		}
		for range g.IntN(3) {
			key, value := g.config()
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: value})
		}
		what += fmt.Sprintf(" %q p%d r%d %v %s", t.Topic, t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment, configText(t.Configs))
		req.Topics = append(req.Topics, t)
	}
	return fixed(what, req, true)
}

func configText(cs []kmsg.CreateTopicsRequestTopicConfig) (s string) {
	for _, c := range cs {
		s += " " + c.Name + "=" + text(c.Value)
	}
	return s
}

func text(v *string) string {
	if v == nil {
		return "null"
	}
	return *v
}

// config draws a setting of a topic, right or wrong. Not those that change what later steps see of time or codec.
func (g *gen) config() (key string, value *string) {
	key = pick(g, "retention.ms", "retention.bytes", "max.message.bytes", "min.insync.replicas", "cleanup.policy",
		"compression.type", "segment.bytes", "segment.ms", "index.interval.bytes", "message.timestamp.type",
		"min.cleanable.dirty.ratio", "file.delete.delay.ms", "preallocate", "unclean.leader.election.enable",
		"flush.messages", "delete.retention.ms", "max.compaction.lag.ms", "no.such.key", "",
		"leader.replication.throttled.replicas", "compression.gzip.level", "message.timestamp.after.max.ms")
	v := pick(g, "1", "0", "-1", "-2", "1048576", "9223372036854775807", "9223372036854775808", "abc", "", "true", "TRUE",
		"delete", "compact", "compact,delete", "none", "delete,delete", "zstd", "gzip", "LogAppendTime", "0.5", "1.5", " 7 ", "*", "0:1")
	if g.IntN(15) == 0 {
		return key, nil
	}
	return key, &v
}

func (g *gen) deleteTopics() Step {
	req := kmsg.NewPtrDeleteTopicsRequest()
	g.version(req, 1, 6)
	req.TimeoutMillis = 10000
	// Only what createTopics may have made: the topics of the other steps stay.
	name := often(g, fmt.Sprintf("x%d", g.IntN(8)), "missing", "")
	byID := req.Version >= 6 && g.IntN(2) == 0
	req.TopicNames = []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	if !byID {
		t.Topic = &name
	}
	req.Topics = append(req.Topics, t)
	s := built(fmt.Sprintf("%q by id %v", name, byID), req, func(w *World) {
		if byID {
			req.Topics[0].TopicID = w.id(name)
		}
	})
	s.Changes = true
	return s
}

func (g *gen) createPartitions() Step {
	req := kmsg.NewPtrCreatePartitionsRequest()
	g.version(req, 0, 3)
	req.TimeoutMillis = 10000
	req.ValidateOnly = g.IntN(2) == 0
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic = often(g, fmt.Sprintf("x%d", g.IntN(8)), "missing", "t0", "")
	t.Count = often(g, int32(2+g.IntN(3)), 0, -1, 1)
	if t.Topic == "t0" {
		req.ValidateOnly = true
	}
	if g.IntN(5) == 0 {
		t.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: pick(g, []int32{1}, []int32{3}, []int32{1, 1}, nil)}}
	}
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q to %d %v validate %v", t.Topic, t.Count, t.Assignment, req.ValidateOnly), req, true)
}

func (g *gen) describeConfigs() Step {
	req := kmsg.NewPtrDescribeConfigsRequest()
	g.version(req, 1, 4)
	req.IncludeSynonyms, req.IncludeDocumentation = g.IntN(2) == 0, false
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType = often(g, kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceType(1))
	r.ResourceName = g.topic()
	if r.ResourceType == kmsg.ConfigResourceTypeBroker {
		r.ResourceName = pick(g, "1", "2", "x", "")
		r.ConfigNames = pick(g, []string{"log.retention.ms", "num.io.threads"}, []string{"message.max.bytes"}, []string{"no.such"})
	} else if g.IntN(2) == 0 {
		r.ConfigNames = pick(g, []string{"retention.ms"}, []string{"cleanup.policy", "no.such"}, []string{})
	}
	req.Resources = append(req.Resources, r)
	return fixed(fmt.Sprintf("%d %q %v", r.ResourceType, r.ResourceName, r.ConfigNames), req, false)
}

func (g *gen) incrementalAlter() Step {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	g.version(req, 0, 1)
	// Changes only topics that nothing is produced to.
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = often(g, kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceType(77))
	r.ResourceName = often(g, fmt.Sprintf("x%d", g.IntN(8)), "missing", "t0")
	req.ValidateOnly = r.ResourceName == "t0" || g.IntN(3) == 0
	what := fmt.Sprintf("%d %q validate %v", r.ResourceType, r.ResourceName, req.ValidateOnly)
	for range 1 + g.IntN(2) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = g.config()
		c.Op = kmsg.IncrementalAlterConfigOp(often(g, int8(0), 1, 2, 3, 9))
		what += fmt.Sprintf(" %d %s=%s", c.Op, c.Name, text(c.Value))
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return fixed(what, req, true)
}

func (g *gen) alter() Step {
	req := kmsg.NewPtrAlterConfigsRequest()
	g.version(req, 0, 2)
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeTopic
	r.ResourceName = often(g, fmt.Sprintf("x%d", g.IntN(8)), "missing", "t0")
	req.ValidateOnly = r.ResourceName == "t0" || g.IntN(3) == 0
	what := fmt.Sprintf("%q validate %v", r.ResourceName, req.ValidateOnly)
	for range g.IntN(3) {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = g.config()
		what += fmt.Sprintf(" %s=%s", c.Name, text(c.Value))
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return fixed(what, req, true)
}

func (g *gen) topicPartitions() Step {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	g.version(req, 0, 0)
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = g.topic()
	req.Topics = append(req.Topics, t)
	req.ResponsePartitionLimit = often(g, int32(2000), 1)
	return fixed(fmt.Sprintf("%q limit %d", t.Topic, req.ResponsePartitionLimit), req, false)
}

func (g *gen) elect() Step {
	req := kmsg.NewPtrElectLeadersRequest()
	g.version(req, 0, 2)
	req.ElectionType = often(g, int8(0), 1, 5)
	req.TimeoutMillis = 10000
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = g.topic(), []int32{g.partition()}
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("type %d %q %v", req.ElectionType, t.Topic, t.Partitions), req, true)
}

func (g *gen) features() Step {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	g.version(req, 1, 2)
	req.TimeoutMillis, req.ValidateOnly = 10000, true
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature = pick(g, "metadata.version", "no.such", "transaction.version", "")
	f.MaxVersionLevel = pick(g, int16(0), -1, 1, 33, 99)
	f.UpgradeType = pick(g, int8(0), 1, 2, 3, 7)
	req.FeatureUpdates = append(req.FeatureUpdates, f)
	return fixed(fmt.Sprintf("%q to %d type %d", f.Feature, f.MaxVersionLevel, f.UpgradeType), req, false)
}

func (g *gen) logDirs() Step {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	g.version(req, 1, 4)
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = g.topic(), []int32{0, 1, 9}
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%q", t.Topic), req, false)
}
