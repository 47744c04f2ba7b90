package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/kafka"
)

// unset stands for "the default" in counts of partitions and replicas (KIP-464).
const unset = -1

// createTopics answers CreateTopics. Each topic is created or refused for itself; all records go into one
// batch.
func (t *turn) createTopics(r *kmsg.CreateTopicsRequest) Result {
	reply := kmsg.NewPtrCreateTopicsResponse()
	c := &topicCreator{turn: t, names: newNames(t.Image),
		results: map[string]kmsg.CreateTopicsResponseTopic{}}
	single, twice := splitRepeats(r.Topics)
	err := cmp.Or(checkSize(c.countPartitions(single)), checkSize(len(single)))
	for _, topic := range single {
		if err != nil {
			break
		}
		if refused := c.create(topic); refused != nil {
			c.fail(topic.Topic, refused)
		}
		err = checkSize(len(c.records))
	}
	if err != nil {
		c.records = nil
		for _, topic := range single {
			c.fail(topic.Topic, err)
		}
	}
	for _, topic := range single {
		reply.Topics = append(reply.Topics, c.results[topic.Topic])
	}
	for _, name := range twice {
		reply.Topics = append(reply.Topics, failedTopic(name, kafka.Errorf(kafka.InvalidRequest,
			"topic %q stands there twice", name)))
	}
	if r.ValidateOnly {
		c.records = nil
	}
	return Result{Records: c.records, Atomic: true, Reply: reply}
}

// splitRepeats separates the topics named once from the names given more than once.
func splitRepeats(topics []kmsg.CreateTopicsRequestTopic) (
	single []kmsg.CreateTopicsRequestTopic, twice []string) {
	count := map[string]int{}
	for _, t := range topics {
		count[t.Topic]++
		if count[t.Topic] == 2 {
			twice = append(twice, t.Topic)
		}
	}
	for _, t := range topics {
		if count[t.Topic] == 1 {
			single = append(single, t)
		}
	}
	return single, twice
}

// topicCreator collects the outcome of one CreateTopics.
type topicCreator struct {
	*turn
	names   *names
	placer  *placer
	records []metadata.Record
	results map[string]kmsg.CreateTopicsResponseTopic
}

func (c *topicCreator) fail(name string, err error) { c.results[name] = failedTopic(name, err) }

func failedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.ErrorCode, out.ErrorMessage = name, int16(kafka.CodeOf(err)), messageOf(err)
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // null would say that they may not be seen
	return out
}

// countPartitions counts the partitions that are asked for; where counts are wrong they do not matter.
func (c *topicCreator) countPartitions(topics []kmsg.CreateTopicsRequestTopic) int {
	total := 0
	for _, t := range topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += len(t.ReplicaAssignment)
		case t.NumPartitions == unset:
			total += int(c.Settings.DefaultPartitions)
		case t.NumPartitions > 0:
			total += int(t.NumPartitions)
		}
	}
	return total
}

// create judges one topic and adds its records and its result.
func (c *topicCreator) create(topic kmsg.CreateTopicsRequestTopic) error {
	if err := checkTopicName(topic.Topic); err != nil {
		return err
	}
	if _, exists := c.Image.Topic(topic.Topic); exists {
		return kafka.Errorf(kafka.TopicAlreadyExists, "topic %q exists", topic.Topic)
	}
	if other, ok := c.names.collision(topic.Topic); ok {
		return kafka.Errorf(kafka.InvalidTopicException,
			"topic %q differs from topic %q only in '.' and '_'", topic.Topic,
			other)
	}
	values := make([]config.Assignment, 0, len(topic.Configs))
	for _, v := range topic.Configs {
		values = append(values, config.Assignment{Name: v.Name, Value: v.Value})
	}
	writes, err := c.resolver().NewTopic(values)
	if err != nil {
		return err
	}
	partitions, err := c.partitions(topic)
	if err != nil {
		return err
	}
	id := c.newID()
	c.records = append(c.records, &metadata.TopicRecord{Name: topic.Topic, TopicID: id})
	c.records = append(c.records, c.configRecords(topic.Topic, writes)...)
	for i, p := range partitions {
		p.TopicID, p.PartitionID = id, int32(i)
		c.records = append(c.records, p)
	}
	c.names.add(topic.Topic)
	c.results[topic.Topic] = c.result(topic.Topic, id, partitions, writes)
	return nil
}

// configRecords are the configurations of a new topic. With eligible leader replicas on, a
// min.insync.replicas brings the ClearElr along that every change of it does.
func (c *topicCreator) configRecords(name string, writes []config.Write) []metadata.Record {
	var out, after []metadata.Record
	for _, w := range writes {
		out = append(out, &metadata.ConfigRecord{ResourceType: metadata.TopicResource, ResourceName: name,
			Name: w.Name, Value: w.Value})
		if w.Name == minISRKey && c.elr {
			after = append(after, &metadata.ClearElrRecord{TopicName: name})
		}
	}
	return append(out, after...)
}

func (c *topicCreator) result(name string, id kafka.UUID, partitions []*metadata.PartitionRecord,
	writes []config.Write) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.TopicID = name, id
	out.NumPartitions = int32(len(partitions))
	out.ReplicationFactor = int16(len(partitions[0].Replicas))
	own := config.Map{}
	for _, w := range writes {
		own[w.Name] = *w.Value
	}
	for _, d := range c.resolver().DescribeNewTopic(own) {
		x := kmsg.NewCreateTopicsResponseTopicConfig()
		x.Name, x.Value, x.Source = d.Name, d.Value, int8(d.Source)
		x.ReadOnly, x.IsSensitive = d.ReadOnly, d.Sensitive
		out.Configs = append(out.Configs, x)
	}
	return out
}

// newID draws a topic id that nobody has.
func (t *turn) newID() kafka.UUID {
	for {
		id, _ := kafka.NewUUID(randomBytes{t.rnd}) // never fails
		if _, taken := t.Image.TopicByID(id); !taken {
			return id
		}
	}
}

// partitions gives the partitions of a new topic as records that lack the topic.
func (c *topicCreator) partitions(topic kmsg.CreateTopicsRequestTopic) ([]*metadata.PartitionRecord, error) {
	switch {
	case len(topic.ReplicaAssignment) > 0:
		return c.assigned(topic)
	case topic.ReplicationFactor < unset || topic.ReplicationFactor == 0:
		return nil, kafka.Errorf(kafka.InvalidReplicationFactor,
			"the replication factor must be at least 1, or -1 for the default")
	case topic.NumPartitions < unset || topic.NumPartitions == 0:
		return nil, kafka.Errorf(kafka.InvalidPartitions,
			"the number of partitions must be at least 1, or -1 for the default")
	}
	count, rf := topic.NumPartitions, topic.ReplicationFactor
	if count == unset {
		count = c.Settings.DefaultPartitions
	}
	if rf == unset {
		rf = c.Settings.DefaultReplicationFactor
	}
	if c.placer == nil {
		c.placer = c.newPlacer()
	}
	if err := c.placer.check(int(rf)); err != nil {
		return nil, err
	}
	out := make([]*metadata.PartitionRecord, 0, count)
	for range count {
		out = append(out, c.newPartition(c.placer.place(int(rf))))
	}
	return out, nil
}

// assigned gives the partitions of a topic whose replicas the client has placed.
func (c *topicCreator) assigned(topic kmsg.CreateTopicsRequestTopic) ([]*metadata.PartitionRecord, error) {
	if topic.ReplicationFactor != unset {
		return nil, kafka.Errorf(kafka.InvalidRequest,
			"replicas are assigned, so the replication factor must be -1")
	}
	if topic.NumPartitions != unset {
		return nil, kafka.Errorf(kafka.InvalidRequest,
			"replicas are assigned, so the number of partitions must be -1")
	}
	sorted := slices.SortedStableFunc(slices.Values(topic.ReplicaAssignment),
		func(a, b kmsg.CreateTopicsRequestTopicReplicaAssignment) int {
			return int(a.Partition) - int(b.Partition)
		})
	rf := -1
	var out []*metadata.PartitionRecord
	for i, a := range sorted {
		if i > 0 && a.Partition == sorted[i-1].Partition {
			return nil, kafka.Errorf(kafka.InvalidReplicaAssignment,
				"partition %d is assigned twice", a.Partition)
		}
		replicas := nodeIDs(a.Replicas)
		if err := c.checkAssignment(replicas, rf); err != nil {
			return nil, err
		}
		rf = len(replicas)
		p := c.newPartition(replicas)
		if len(p.ISR) == 0 {
			return nil, kafka.Errorf(kafka.InvalidReplicaAssignment,
				"no broker of partition %d is in service", a.Partition)
		}
		out = append(out, p)
	}
	for i, a := range sorted {
		if int(a.Partition) != i {
			return nil, kafka.Errorf(kafka.InvalidReplicaAssignment,
				"the partitions must be numbered from 0 without gaps")
		}
	}
	return out, nil
}

// checkAssignment judges replicas that a client has placed; rf is how many there must be, -1 for any number.
func (t *turn) checkAssignment(replicas []kafka.NodeID, rf int) error {
	if len(replicas) == 0 {
		return kafka.Errorf(kafka.InvalidReplicaAssignment, "a partition is assigned to no broker")
	}
	for i, id := range replicas {
		b, ok := t.Image.Broker(id)
		switch {
		case slices.Contains(replicas[:i], id):
			return kafka.Errorf(kafka.InvalidReplicaAssignment, "broker %d stands twice in an assignment", id)
		case !ok:
			return kafka.Errorf(kafka.InvalidReplicaAssignment, "broker %d is not registered", id)
		case cordonedWhole(b):
			return kafka.Errorf(kafka.InvalidReplicaAssignment,
				"all log directories of broker %d are cordoned", id)
		}
	}
	if rf != -1 && len(replicas) != rf {
		return kafka.Errorf(kafka.InvalidReplicaAssignment,
			"%d replicas are assigned where other partitions have %d",
			len(replicas), rf)
	}
	return nil
}

// newPartition is a partition at its beginning: the live replicas are in sync and the first of them leads.
func (t *turn) newPartition(replicas []kafka.NodeID) *metadata.PartitionRecord {
	p := &metadata.PartitionRecord{Replicas: replicas, Leader: kafka.NoNode}
	for _, id := range replicas {
		if t.active(id) {
			p.ISR = append(p.ISR, id)
		}
		if t.mv >= metadata.MVDirectories {
			p.Directories = append(p.Directories, t.defaultDirectory(id))
		}
	}
	if len(p.ISR) > 0 {
		p.Leader = p.ISR[0]
	}
	return p
}

// maxTopicName is the longest name, so that the name of a partition directory fits.
const maxTopicName = 249

// checkTopicName holds the rule of names: letters, digits, '.', '_' and '-', neither "." nor "..".
func checkTopicName(name string) error {
	bad := func(why string) error { return kafka.Errorf(kafka.InvalidTopicException, "topic name: %s", why) }
	switch {
	case name == "":
		return bad("it is empty")
	case name == "." || name == "..":
		return bad("it is . or ..")
	case len(name) > maxTopicName:
		return bad("it is longer than 249 characters")
	case strings.ContainsFunc(name, func(r rune) bool { return !topicRune(r) }):
		return bad("only letters, digits, '.', '_' and '-' are allowed")
	case name == kafka.MetadataTopic:
		return kafka.Errorf(kafka.InvalidRequest, "topic %s is the cluster's own", name)
	}
	return nil
}

func topicRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("._-", r)
}
