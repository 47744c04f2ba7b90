//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// churned is a topic of an administrator, and what the controller last acknowledged of it.
type churned struct {
	name       string
	exists     bool
	partitions int32
	retention  string
	id         kadm.TopicID
	unsure     bool // a request had no clear answer: nothing is known
}

// administrator creates, changes and deletes topics, moves replicas and elects leaders, and remembers what it was told.
type administrator struct {
	l      *Load
	r      *rand.Rand
	a      *kadm.Client // tries once: a second try may be carried out long after the first was answered
	asks   *kadm.Client // tries again
	topics []*churned
	done   int
}

// administrate works until writers stop; then every partition gets all its replicas back and the metadata is judged.
func (l *Load) administrate(r *rand.Rand) {
	once, err := l.c.Client(kgo.RequestRetries(0))
	if err != nil {
		l.History.Fault("administrator: %v", err)
		return
	}
	defer once.Close()
	again, err := l.c.Client()
	if err != nil {
		l.History.Fault("administrator: %v", err)
		return
	}
	defer again.Close()
	m := &administrator{l: l, r: r, a: kadm.NewClient(once), asks: kadm.NewClient(again)}
	for l.writing.Err() == nil {
		ctx, cancel := context.WithTimeout(l.alive, 10*time.Second)
		m.act(ctx)
		cancel()
		time.Sleep(20 * l.o.Pause)
	}
	m.restore()
	m.judge()
	l.c.Logf("administrator: %d requests acknowledged, %d topics made", m.done, len(m.topics))
}

func (m *administrator) act(ctx context.Context) {
	var err error
	switch m.r.IntN(8) {
	case 0, 1:
		err = m.create(ctx)
	case 2:
		err = m.alter(ctx)
	case 3:
		err = m.grow(ctx)
	case 4:
		err = m.remove(ctx)
	case 5, 6:
		err = m.move(ctx, m.someReplicas())
	case 7:
		_, err = m.a.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	}
	if err == nil {
		m.done++
	}
}

func (m *administrator) create(ctx context.Context) error {
	t := &churned{name: fmt.Sprint("churn-", len(m.topics)), partitions: 1 + m.r.Int32N(3), retention: strconv.Itoa(3_600_000)}
	m.topics = append(m.topics, t)
	made, err := m.a.CreateTopic(ctx, t.partitions, int16(len(m.l.c.Nodes)), map[string]*string{"retention.ms": &t.retention}, t.name)
	t.exists, t.id, t.unsure = true, made.ID, err != nil
	return err
}

// known draws a topic that exists for certain.
func (m *administrator) known() *churned {
	for range m.topics {
		if t := m.topics[m.r.IntN(len(m.topics))]; t.exists && !t.unsure {
			return t
		}
	}
	return nil
}

func (m *administrator) alter(ctx context.Context) error {
	t := m.known()
	if t == nil {
		return nil
	}
	value := strconv.Itoa(3_600_000 + m.r.IntN(1000))
	all, err := m.a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, t.name)
	if err == nil && len(all) == 1 {
		err = all[0].Err
	}
	t.retention, t.unsure = value, err != nil
	return err
}

func (m *administrator) grow(ctx context.Context) error {
	t := m.known()
	if t == nil || t.partitions > 6 {
		return nil
	}
	all, err := m.a.UpdatePartitions(ctx, int(t.partitions+1), t.name)
	if err == nil {
		err = all.Error()
	}
	t.partitions, t.unsure = t.partitions+1, err != nil
	return err
}

func (m *administrator) remove(ctx context.Context) error {
	t := m.known()
	if t == nil {
		return nil
	}
	_, err := m.a.DeleteTopic(ctx, t.name)
	t.exists, t.unsure = false, err != nil
	return err
}

// someReplicas draws two or three nodes in any order.
func (m *administrator) someReplicas() []int32 {
	var out []int32
	for _, i := range m.r.Perm(len(m.l.c.Nodes)) {
		out = append(out, int32(i+1))
	}
	return out[:2+m.r.IntN(2)]
}

// move gives a partition of the load other replicas.
func (m *administrator) move(ctx context.Context, to []int32) error {
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign([]string{Plain, OneDisk, Transactional, Copied}[m.r.IntN(4)], m.r.Int32N(partitions), to)
	all, err := m.a.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = all.Error()
	}
	return err
}

// restore gives every partition of the load a replica on every node again.
func (m *administrator) restore() {
	var req kadm.AlterPartitionAssignmentsReq
	for _, topic := range []string{Plain, OneDisk, Transactional, Copied} {
		for p := range int32(partitions) {
			var to []int32
			for i := range m.l.c.Nodes {
				to = append(to, 1+(p+int32(i))%int32(len(m.l.c.Nodes)))
			}
			req.Assign(topic, p, to)
		}
	}
	for m.l.alive.Err() == nil {
		ctx, cancel := context.WithTimeout(m.l.alive, 10*time.Second)
		all, err := m.asks.AlterPartitionAssignments(ctx, req)
		cancel()
		if err == nil && all.Error() == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.l.History.Fault("replicas cannot be moved")
}

// judge compares what was acknowledged with what the cluster says.
func (m *administrator) judge() {
	fault := m.l.History.Fault
	ctx, cancel := context.WithTimeout(m.l.alive, time.Minute)
	defer cancel()
	found, err := m.asks.ListTopics(ctx)
	if err != nil {
		fault("administrator: %v", err)
		return
	}
	for _, t := range m.topics {
		if t.unsure {
			continue
		}
		d, ok := found[t.name]
		if ok && d.ID != t.id {
			continue // brokers pass requests on again when an answer is late: the name was given a second time
		}
		if ok != t.exists || ok && d.Err != nil {
			fault("topic %s: acknowledged %+v, found %v (%v)", t.name, *t, ok, d.Err)
			continue
		}
		if !ok {
			continue
		}
		if len(d.Partitions) != int(t.partitions) {
			fault("topic %s was acknowledged to have %d partitions and has %d", t.name, t.partitions, len(d.Partitions))
		}
		all, err := m.asks.DescribeTopicConfigs(ctx, t.name)
		if err != nil {
			fault("topic %s: %v", t.name, err)
			continue
		}
		c, err := all.On(t.name, nil)
		if err != nil {
			fault("topic %s: %v", t.name, err)
		}
		for _, k := range c.Configs {
			if k.Key == "retention.ms" && k.MaybeValue() != t.retention {
				fault("topic %s was acknowledged to have retention.ms=%s and has %s", t.name, t.retention, k.MaybeValue())
			}
		}
	}
}
