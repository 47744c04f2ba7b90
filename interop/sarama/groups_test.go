package sarama

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

const groupRecords = 90

// handler notes what a member reads, and marks it.
type handler struct {
	mu    sync.Mutex
	got   map[string]int
	owned map[int32]bool
	topic string
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned = map[int32]bool{}
	for _, p := range s.Claims()[h.topic] {
		h.owned[p] = true
	}
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-c.Messages():
			if !ok {
				return nil
			}
			h.mu.Lock()
			h.got[fmt.Sprint(m.Partition, "/", m.Offset)]++
			h.mu.Unlock()
			s.MarkMessage(m, "read")
		case <-s.Context().Done():
			return nil
		}
	}
}

func (h *handler) count() (records, owned int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.got), len(h.owned)
}

// join starts a member; end makes it leave.
func (s *suite) join(t *testing.T, group, topic string, strategy sarama.BalanceStrategy) (h *handler, end func()) {
	t.Helper()
	c := s.config()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	g, err := sarama.NewConsumerGroup(s.addr, group, c)
	if err != nil {
		t.Fatal(err)
	}
	h = &handler{got: map[string]int{}, topic: topic}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{topic}, h); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", group, err)
				return
			}
		}
	})
	return h, func() {
		cancel()
		running.Wait()
		_ = g.Close()
	}
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// groups lets a member read everything, a second one share, and a third find nothing left, with every strategy.
func (s *suite) groups(t *testing.T) {
	a := s.admin(t)
	topic := s.topic + "-groups"
	if err := a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false); err != nil {
		t.Fatal(err)
	}
	p, err := sarama.NewSyncProducer(s.addr, s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range int32(groupRecords) {
		m := &sarama.ProducerMessage{Topic: topic, Partition: i % 3, Value: sarama.StringEncoder(fmt.Sprint(i))}
		if _, _, err := p.SendMessage(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, strategy := range []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(),
		sarama.NewBalanceStrategySticky()} {
		group := topic + "-" + strategy.Name()
		first, end := s.join(t, group, topic, strategy)
		wait(t, "every record", func() bool { n, _ := first.count(); return n == groupRecords })
		second, endSecond := s.join(t, group, topic, strategy)
		wait(t, "the sharing", func() bool {
			_, mine := first.count()
			_, yours := second.count()
			return mine+yours == 3 && yours > 0
		})
		endSecond()
		wait(t, "the rest", func() bool { _, n := first.count(); return n == 3 })
		end()
		third, endThird := s.join(t, group, topic, strategy)
		wait(t, "an assignment", func() bool { _, n := third.count(); return n == 3 })
		endThird()
		if n, _ := third.count(); n > 0 {
			t.Errorf("%s: %d committed records came again", strategy.Name(), n)
		}
	}
	s.groupAdmin(t, a, topic)
}

func (s *suite) groupAdmin(t *testing.T, a sarama.ClusterAdmin, topic string) {
	group := topic + "-range"
	list, err := a.ListConsumerGroups()
	if err != nil || list[group] != "consumer" {
		t.Errorf("list: %v %v", list, err)
	}
	d, err := a.DescribeConsumerGroups([]string{group})
	if err != nil || d[0].State != "Empty" {
		t.Errorf("describe: %+v %v", d, err)
	}
	offsets, err := a.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if b := offsets.GetBlock(topic, p); b == nil || b.Offset != groupRecords/3 || b.Metadata != "read" {
			t.Errorf("offset of partition %d: %+v", p, b)
		}
	}
	if err := a.DeleteConsumerGroupOffset(group, topic, 1); err != nil && s.version.IsAtLeast(sarama.V2_4_0_0) {
		t.Errorf("delete offset: %v", err)
	}
	if err := a.DeleteConsumerGroup(group); err != nil {
		t.Errorf("delete: %v", err)
	}
}
