package group

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerShard is an offsetShard with the settings of consumer groups.
type consumerShard struct {
	*offsetShard
	conf   ConsumerSettings
	memory *Memory
}

func newConsumerShard(t testing.TB, seed uint64) *consumerShard {
	s := &consumerShard{
		offsetShard: &offsetShard{
			t: t, image: metadata.New(), now: time.UnixMilli(1_700_000_000_000),
			timers: map[coordinator.TimerKey]time.Time{}, rnd: rand.New(rand.NewPCG(seed, 2)),
			settings: Settings{
				MinSession: 6 * time.Second, MaxSession: 30 * time.Minute, MaxSize: 1000, ConsumerMaxSize: 1000,
				OffsetMetadataMaxBytes: 4096, OffsetsRetention: 7 * 24 * time.Hour, OffsetsCheckInterval: 10 * time.Minute,
				Assignors: []string{"uniform", "range"}, Upgrade: true, Downgrade: true, ConsumerProtocol: true,
				RegexRefresh: 10 * time.Minute,
			},
		},
		conf: ConsumerSettings{Session: 45 * time.Second, Heartbeat: 5 * time.Second, AssignmentInterval: time.Second},
	}
	s.restart()
	return s
}

func (s *consumerShard) machine() *Machine {
	return New(Options{
		Memory:   s.memory,
		Settings: func() Settings { return s.settings },
		Consumer: func(*metadata.Image, string) ConsumerSettings { return s.conf },
	}, s.image)
}

// reload gives a new machine that has read the log.
func (s *consumerShard) reload() *Machine {
	m := s.machine()
	for i := range s.log {
		s.apply(m, i)
	}
	return m
}

// restart replaces the machine by one that has read the log.
func (s *consumerShard) restart() {
	s.m = s.reload()
	clear(s.timers)
	s.event(coordinator.Loaded{Image: s.image})
}

// topic creates a topic, gives it more partitions, or with none removes it.
func (s *consumerShard) topic(name string, id kafka.UUID, partitions int) {
	var records []metadata.Record
	have := 0
	if t, ok := s.image.TopicByID(id); ok {
		have = t.NumPartitions()
	} else {
		records = append(records, &metadata.TopicRecord{Name: name, TopicID: id})
	}
	if partitions == 0 {
		records = []metadata.Record{&metadata.RemoveTopicRecord{TopicID: id}}
	}
	for i := have; i < partitions; i++ {
		records = append(records, &metadata.PartitionRecord{PartitionID: int32(i), TopicID: id,
			Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1})
	}
	image, diff, err := s.image.Apply(records)
	if err != nil {
		s.t.Fatal(err)
	}
	s.image = image.WithPosition(s.image.Offset()+10, 1, s.now.UnixMilli())
	s.event(coordinator.ImageChanged{Image: s.image, Diff: diff})
}

// dumpConsumer prints the persistent state of all consumer groups of a machine.
func dumpConsumer(m *Machine) string {
	var b strings.Builder
	for _, id := range m.ids() {
		c, ok := m.groups[id].kind.(*consumerGroup)
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "group %s epoch=%d assignment=%d at=%d hash=%x old=%v\n", id, c.epoch, c.assignmentEpoch, c.assignedAtMs,
			c.hash, c.oldMetadata)
		fmt.Fprintf(&b, " static=%v named=%v pattern=%v holders=%v\n", c.statics, c.named, c.pattern, c.holders)
		for _, id := range sortedMembers(c) {
			fmt.Fprintf(&b, " %s\n", dumpMember(c, c.roster[id]))
		}
		for _, p := range slices.Sorted(maps.Keys(c.regexes)) {
			fmt.Fprintf(&b, " regex %s = %v\n", p, *c.regexes[p])
		}
	}
	return b.String()
}

func dumpMember(c *consumerGroup, m *consumerMember) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%s i=%s r=%s %s%s t=%d a=%s %v/%s classic=%v epoch=%d/%d state=%d has=%v gives=%v target=%v", m.id,
		text(m.instance), text(m.rack), m.clientID, m.clientHost, m.rebalanceTimeoutMs, text(m.assignor), m.topics, m.regex,
		m.classic != nil, m.epoch, m.previous, m.state, m.assigned, m.revoking, c.targets[m.id])
}

// checkReplay compares the machine with one that has read the log.
func (s *consumerShard) checkReplay() {
	s.t.Helper()
	if live, read := dumpConsumer(s.m), dumpConsumer(s.reload()); live != read {
		s.t.Fatalf("the log holds another state\nlive:\n%s\nread:\n%s", live, read)
	}
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
