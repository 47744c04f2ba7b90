package librdkafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"moldau/interop/broker"
)

const (
	groupTopic   = "librdkafka-groups"
	groupParts   = 4
	groupRecords = 200
)

// TestGroups runs both protocols of consumer groups with every assignor of the client.
func TestGroups(t *testing.T) {
	n := broker.Start(t, "group.consumer.assignment.interval.ms=0")
	s := newSuite(t, n.Addr)
	s.createGroupTopic(t)
	for name, config := range map[string]kafka.ConfigMap{
		"range":              {"partition.assignment.strategy": "range"},
		"roundrobin":         {"partition.assignment.strategy": "roundrobin"},
		"cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
		"server-uniform":     {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
		"server-range":       {"group.protocol": "consumer", "group.remote.assignor": "range"},
	} {
		t.Run(name, func(t *testing.T) { s.group(t, "rd-"+name, config) })
	}
	t.Run("administration", s.groupAdministration)
	n.Stop(t)
}

func (s *suite) createGroupTopic(t *testing.T) {
	r, err := s.adm.CreateTopics(s.ctx, []kafka.TopicSpecification{{Topic: groupTopic, NumPartitions: groupParts, ReplicationFactor: 1}})
	if err != nil || r[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(err, r)
	}
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	name, done := groupTopic, make(chan kafka.Event, groupRecords)
	for i := range groupRecords {
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &name, Partition: int32(i % groupParts)},
			Value: fmt.Append(nil, i)}
		if err := p.Produce(m, done); err != nil {
			t.Fatal(err)
		}
	}
	for range groupRecords {
		if m := (<-done).(*kafka.Message); m.TopicPartition.Error != nil {
			t.Fatal(m.TopicPartition.Error)
		}
	}
}

// member joins a group; it keeps what it reads.
type member struct {
	*kafka.Consumer
	got map[string]int
}

func (s *suite) member(t *testing.T, group string, config kafka.ConfigMap) *member {
	t.Helper()
	c := kafka.ConfigMap{"bootstrap.servers": s.addr, "group.id": group, "auto.offset.reset": "earliest",
		"enable.auto.commit": false, "fetch.wait.max.ms": 100}
	if config["group.protocol"] == nil {
		c["session.timeout.ms"], c["heartbeat.interval.ms"] = 6000, 300
	}
	for k, v := range config {
		c[k] = v
	}
	consumer, err := kafka.NewConsumer(&c)
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Subscribe(groupTopic, nil); err != nil {
		t.Fatal(err)
	}
	return &member{consumer, map[string]int{}}
}

// poll reads for a moment.
func (m *member) poll(t *testing.T) {
	t.Helper()
	switch e := m.Poll(50).(type) {
	case *kafka.Message:
		m.got[e.TopicPartition.String()]++
	case kafka.Error:
		if e.IsFatal() {
			t.Fatal(e)
		}
	}
}

func (m *member) owns(t *testing.T) int {
	t.Helper()
	a, err := m.Assignment()
	if err != nil {
		t.Fatal(err)
	}
	return len(a)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// group lets one member read everything and commit it, a second one join and leave, and a third find nothing left.
func (s *suite) group(t *testing.T, name string, config kafka.ConfigMap) {
	first := s.member(t, name, config)
	until(t, "the last record", func() bool { first.poll(t); return len(first.got) == groupRecords })
	if _, err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	second := s.member(t, name, config)
	until(t, "the sharing", func() bool {
		first.poll(t)
		second.poll(t)
		return first.owns(t) == groupParts/2 && second.owns(t) == groupParts/2
	})
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the rest", func() bool { first.poll(t); return first.owns(t) == groupParts })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third := s.member(t, name, config)
	defer third.Close()
	until(t, "an assignment", func() bool { third.poll(t); return third.owns(t) == groupParts })
	for range 5 {
		third.poll(t)
	}
	if len(third.got)+len(second.got) != 0 {
		t.Errorf("committed records came again: %v %v", second.got, third.got)
	}
	at := make([]kafka.TopicPartition, groupParts)
	topic := groupTopic
	for p := range at {
		at[p] = kafka.TopicPartition{Topic: &topic, Partition: int32(p)}
	}
	committed, err := third.Committed(at, 5000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range committed {
		if c.Offset != groupRecords/groupParts {
			t.Errorf("committed %v", c)
		}
	}
}

func (s *suite) groupAdministration(t *testing.T) {
	list, err := s.adm.ListConsumerGroups(s.ctx, kafka.SetAdminMatchConsumerGroupStates([]kafka.ConsumerGroupState{kafka.ConsumerGroupStateEmpty}))
	if err != nil || len(list.Valid) != 5 {
		t.Fatalf("list: %v %+v", err, list)
	}
	d, err := s.adm.DescribeConsumerGroups(s.ctx, []string{"rd-range", "rd-server-range"})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range d.ConsumerGroupDescriptions {
		if g.Error.Code() != kafka.ErrNoError || g.State != kafka.ConsumerGroupStateEmpty {
			t.Errorf("describe: %+v", g)
		}
	}
	topic := groupTopic
	offsets := []kafka.TopicPartition{{Topic: &topic, Partition: 1, Offset: 3}}
	altered, err := s.adm.AlterConsumerGroupOffsets(s.ctx, []kafka.ConsumerGroupTopicPartitions{{Group: "rd-range", Partitions: offsets}})
	if err != nil || altered.ConsumerGroupsTopicPartitions[0].Partitions[0].Error != nil {
		t.Fatalf("alter: %v %+v", err, altered)
	}
	got, err := s.adm.ListConsumerGroupOffsets(s.ctx, []kafka.ConsumerGroupTopicPartitions{{Group: "rd-range", Partitions: offsets}})
	if err != nil || got.ConsumerGroupsTopicPartitions[0].Partitions[0].Offset != 3 {
		t.Fatalf("offsets: %v %+v", err, got)
	}
	deleted, err := s.adm.DeleteConsumerGroups(s.ctx, []string{"rd-range", "rd-server-range", "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range deleted.ConsumerGroupResults {
		if want := kafka.ErrNoError; g.Group != "nobody" && g.Error.Code() != want {
			t.Errorf("delete %s: %v", g.Group, g.Error)
		} else if g.Group == "nobody" && g.Error.Code() != kafka.ErrGroupIDNotFound {
			t.Errorf("delete %s: %v", g.Group, g.Error)
		}
	}
}
