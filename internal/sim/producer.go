package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// topicName is the topic that everybody writes to.
const topicName = "orders"

// produceTimeout is request.timeout.ms of producers, and how long a leader keeps a write waiting.
const produceTimeout = 3 * time.Second

// producer is an idempotent producer with one batch in flight, which it sends again until it is acknowledged. It has no
// machine: its own connection may lose things, the network between the machines does not concern it.
type producer struct {
	w        *World
	id       kafka.ProducerID
	tp       kafka.TopicPartition
	sequence int32
	values   []string
	attempt  int
	// epoch is the newest leader epoch it has heard of: it never goes back to an earlier leader.
	epoch kafka.LeaderEpoch
}

// next makes up the next batch and sends it.
func (p *producer) next() {
	p.values = nil
	for range 1 + p.w.rnd.IntN(3) {
		p.values = append(p.values, fmt.Sprintf("%d/%d", p.id, int(p.sequence)+len(p.values)))
	}
	p.w.stats.Produced++
	p.send()
}

// send sends the batch to whoever some broker thinks to be the leader.
func (p *producer) send() {
	w := p.w
	p.attempt++
	attempt := p.attempt
	w.after(produceTimeout+w.latency(), func() {
		if p.attempt == attempt {
			p.send()
		}
	})
	to, epoch := w.leaderOf(p.tp)
	if epoch < p.epoch {
		p.again()
		return
	}
	p.epoch = epoch
	if to == nil || !w.calm && w.chance(0.01) {
		return
	}
	b := record.NewBuilder(record.Options{Producer: &record.Producer{ID: p.id, Sequence: p.sequence}})
	for _, v := range p.values {
		b.Append(1_800_000_000_000+w.now.Milliseconds(), nil, []byte(v), nil)
	}
	raw, err := b.Build()
	if err != nil {
		w.fail("producer %d: %v", p.id, err)
		return
	}
	answer := func(at kafka.Offset, epoch kafka.LeaderEpoch, err error) {
		if !w.calm && w.chance(0.01) {
			return // the answer is lost
		}
		w.after(w.latency(), func() {
			if p.attempt == attempt {
				p.answered(at, epoch, err)
			}
		})
	}
	w.after(w.latency(), func() {
		if to.up() {
			to.happen(to.life, func() { to.process.(*broker).produce(p.tp, raw, answer) })
		}
	})
}

// answered goes on with the next batch, or tries once more.
func (p *producer) answered(at kafka.Offset, epoch kafka.LeaderEpoch, err error) {
	w := p.w
	p.attempt++
	if err == nil {
		p.epoch = max(p.epoch, epoch)
		w.partitions.acknowledged(p, at)
		p.sequence += int32(len(p.values))
		w.after(w.around(w.plan.traffic), p.next)
		return
	}
	switch code := kafka.CodeOf(err); code {
	case kafka.OutOfOrderSequenceNumber, kafka.InvalidProducerEpoch, kafka.InvalidRecord:
		w.fail("producer %d, whose batches before %d were acknowledged, is refused by the leader of epoch %d: %v", p.id, p.sequence, p.epoch, err)
		return
	}
	p.again()
}

// again sends the batch once more, a moment later.
func (p *producer) again() {
	p.attempt++
	p.w.after(50*time.Millisecond+p.w.around(50*time.Millisecond), p.send)
}

// leaderOf is the leader of a partition as some broker knows it, nil if that one knows none.
func (w *World) leaderOf(tp kafka.TopicPartition) (*machine, kafka.LeaderEpoch) {
	m := w.machines[w.rnd.IntN(len(w.machines))]
	if !m.up() {
		return nil, kafka.NoEpoch
	}
	part, ok := m.process.(*broker).published.Partition(tp)
	if !ok {
		return nil, kafka.NoEpoch
	}
	return w.machineOf(part.Leader), part.LeaderEpoch
}

// produce appends a batch for a client.
func (b *broker) produce(tp kafka.TopicPartition, raw record.Batch, answer func(kafka.Offset, kafka.LeaderEpoch, error)) {
	p, err := b.manager.Get(tp)
	if err != nil {
		answer(kafka.NoOffset, kafka.NoEpoch, err)
		return
	}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) {
		if b.m.disk.Crashed() {
			return // nobody hears of it any more
		}
		b.world.partitions.checkReplica(b, p)
		_, epoch := p.Leadership()
		answer(w.Result.First, epoch, w.Result.Err)
	}}
	e, err := p.Append(b.m.time(), replica.AppendRequest{Batch: raw, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}}, w)
	e.Run(b)
	if err != nil {
		answer(kafka.NoOffset, kafka.NoEpoch, err)
		return
	}
	b.m.after(produceTimeout, func() {
		e := p.Expire(w)
		e.Run(b)
	})
}

// topics are those that a world needs, with their partitions.
func (w *World) topics() map[string]int {
	out := map[string]int{topicName: w.plan.partitions}
	if w.transactions.w != nil {
		out[kafka.TransactionsTopic], out[kafka.OffsetsTopic] = 2, 2
	}
	return out
}

// createTopic asks for the topics now and then, until they are there.
func (w *World) createTopic() {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.SetVersion(r.MaxVersion())
	topics := w.topics()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if _, ok := w.partitions.newest.Topic(name); ok {
			continue
		}
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(topics[name]), 3
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "min.insync.replicas", kmsg.StringPtr("2")
		t.Configs = append(t.Configs, c)
		r.Topics = append(r.Topics, t)
	}
	if len(r.Topics) == 0 {
		w.logf("the topics are created")
		return
	}
	w.after(500*time.Millisecond, w.createTopic)
	m := w.machines[w.rnd.IntN(len(w.machines))]
	if m.up() {
		w.ask(m, m.voter().pump.State().Leader, r, func(kmsg.Response, error) {})
	}
}
