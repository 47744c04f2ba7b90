package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"

	"moldau/internal/cluster/replica"
)

// txnClient is a program that does its work exactly once: each transaction writes records to partitions and commits how
// far it has come as an offset of its group. When it does not know how a transaction ended it begins anew under its
// transactional id and asks for that offset, as clients do.
type txnClient struct {
	w       *World
	place   int
	id      string
	stamp   coordinator.Stamp
	work    *txnWork
	done    int64 // transactions that are committed
	tries   int   // at the present request
	version int   // of the client: what an earlier one waits for is void
	epochs  map[kafka.TopicPartition]kafka.LeaderEpoch
}

// group is where the client keeps its offset.
func (c *txnClient) group() string { return "group-" + c.id }

// restart begins under the transactional id, which ends whatever was open.
func (c *txnClient) restart() {
	c.version++
	r := kmsg.NewPtrInitProducerIDRequest()
	r.SetVersion(5)
	r.TransactionalID, r.TransactionTimeoutMillis = &c.id, 8000
	c.coordinate(kafka.TransactionsTopic, c.id, r, func(a coordinator.Answer) {
		x := a.Body.(*kmsg.InitProducerIDResponse)
		if code := kafka.Code(x.ErrorCode); code != kafka.None {
			c.w.fail("%s cannot begin: %v", c.id, code)
			return
		}
		c.stamp = coordinator.Stamp{ID: kafka.ProducerID(x.ProducerID), Epoch: kafka.ProducerEpoch(x.ProducerEpoch)}
		c.w.note(c.id, uint64(c.stamp.ID), uint64(c.stamp.Epoch))
		c.lookUp()
	})
}

// lookUp asks how far the work has come, and with that how the last transaction ended.
func (c *txnClient) lookUp() {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.SetVersion(8)
	r.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = c.group()
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topicName, Partitions: []int32{0}}}
	r.Groups = append(r.Groups, g)
	c.coordinate(kafka.OffsetsTopic, c.group(), r, func(a coordinator.Answer) {
		p := a.Body.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
		if code := kafka.Code(p.ErrorCode); code != kafka.None {
			if code != kafka.UnstableOffsetCommit {
				c.w.fail("%s cannot ask for its offset: %v", c.id, code)
			}
			c.pause(c.lookUp)
			return
		}
		done := max(p.Offset, 0)
		switch t := c.work; {
		case done == c.done && t != nil:
			c.w.transactions.settled(t, false)
		case t != nil && done == t.number && t.outcome == outcomeUnknown:
			c.w.transactions.settled(t, true)
			c.done = done
		case done != c.done:
			c.w.fail("%s has committed up to %d and finds offset %d", c.id, c.done, done)
			return
		}
		c.work = nil
		c.begin()
	})
}

// begin begins the next transaction.
func (c *txnClient) begin() {
	w := c.w
	t := &txnWork{client: c, number: c.done + 1, abort: w.chance(0.2), outcome: outcomeNone}
	c.work = t
	w.transactions.begun++
	t.serial = w.transactions.begun
	for i := range 1 + w.rnd.IntN(3) {
		tp := kafka.TopicPartition{Topic: topicName, Partition: int32(w.rnd.IntN(w.plan.partitions))}
		t.writes = append(t.writes, txnWrite{tp: tp, value: fmt.Sprintf("%d/%d/%s", t.serial, i, c.id)})
	}
	w.transactions.all[t.serial] = t
	c.write(0)
}

// write writes the records one after the other, then the offset.
func (c *txnClient) write(at int) {
	t := c.work
	if at == len(t.writes) {
		c.commitOffset()
		return
	}
	x := &t.writes[at]
	for _, before := range t.writes[:at] {
		if before.tp == x.tp {
			x.sequence = before.sequence + 1
		}
	}
	b := record.NewBuilder(record.Options{Transactional: true,
		Producer: &record.Producer{ID: c.stamp.ID, Epoch: c.stamp.Epoch, Sequence: x.sequence}})
	b.Append(1_800_000_000_000+c.w.now.Milliseconds(), nil, []byte(x.value), nil)
	raw, err := b.Build()
	if err != nil {
		c.w.fail("%s: %v", c.id, err)
		return
	}
	c.produce(at, x, raw)
}

func (c *txnClient) produce(at int, x *txnWrite, raw record.Batch) {
	answer := func(a coordinator.Answer) {
		switch err := a.Err; {
		case err == nil:
			c.write(at + 1)
		case c.over(err):
			if kafka.CodeOf(err) == kafka.OutOfOrderSequenceNumber {
				c.w.fail("%s is refused on %s at sequence %d: %v", c.id, x.tp, x.sequence, err)
			}
			c.abandon()
		default:
			c.pause(func() { c.produce(at, x, raw) })
		}
	}
	to, epoch := c.w.leaderOf(x.tp)
	if epoch < c.epochs[x.tp] {
		to = nil // it never goes back to an earlier leader
	}
	c.epochs[x.tp] = max(c.epochs[x.tp], epoch)
	batch := append(record.Batch(nil), raw...)
	c.call(to, func(b *broker, answer func(coordinator.Answer)) { b.produceTxn(c.id, x.tp, batch, answer) }, answer)
}

// produceTxn appends a batch of a transaction.
func (b *broker) produceTxn(id string, tp kafka.TopicPartition, raw record.Batch, answer func(coordinator.Answer)) {
	p, err := b.manager.Get(tp)
	if err != nil {
		answer(coordinator.Answer{Err: err})
		return
	}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) { answer(coordinator.Answer{Err: w.Result.Err}) },
		Resumed: func(_ *replica.AppendWaiter, err error) {
			if err != nil {
				answer(coordinator.Answer{Err: err})
			}
		}}
	e, err := p.Append(b.m.time(), replica.AppendRequest{Batch: raw, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}, Verify: replica.VerifyAndAdd, TransactionalID: id}, w)
	e.Run(b)
	if err != nil {
		answer(coordinator.Answer{Err: err})
		return
	}
	b.m.after(produceTimeout, func() {
		e := p.Expire(w)
		e.Run(b)
	})
}

func (c *txnClient) commitOffset() {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.SetVersion(5)
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch = c.id, c.group(), int64(c.stamp.ID), int16(c.stamp.Epoch)
	r.Generation = -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = c.work.number
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topicName, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	to, _ := c.w.coordinatorOf(kafka.OffsetsTopic, c.group())
	c.call(to, func(b *broker, answer func(coordinator.Answer)) { b.commitOffsets(r, answer) }, func(a coordinator.Answer) {
		err := a.Err
		if x, ok := a.Body.(*kmsg.TxnOffsetCommitResponse); ok {
			err = orNil(kafka.Code(x.Topics[0].Partitions[0].ErrorCode))
		}
		switch {
		case err == nil:
			c.end()
		case c.over(err):
			c.abandon()
		default:
			c.pause(c.commitOffset)
		}
	})
}

// end ends the transaction.
func (c *txnClient) end() {
	t := c.work
	r := kmsg.NewPtrEndTxnRequest()
	r.SetVersion(5)
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = c.id, int64(c.stamp.ID), int16(c.stamp.Epoch), !t.abort
	if !t.abort {
		t.outcome = outcomeUnknown // from now on it may be committed
	}
	c.coordinate(kafka.TransactionsTopic, c.id, r, func(a coordinator.Answer) {
		x := a.Body.(*kmsg.EndTxnResponse)
		c.stamp = coordinator.Stamp{ID: kafka.ProducerID(x.ProducerID), Epoch: kafka.ProducerEpoch(x.ProducerEpoch)}
		c.w.transactions.settled(t, !t.abort)
		if !t.abort {
			c.done = t.number
		}
		c.work = nil
		c.pause(c.begin)
	})
}

// abandon gives the transaction up: another one with the same id will tell how it ended.
func (c *txnClient) abandon() { c.pause(c.restart) }

// over says whether an error ends the transaction. What an old epoch is told is no wonder: its time may have run out.
func (c *txnClient) over(err error) bool {
	for _, fatal := range []kafka.Code{kafka.InvalidProducerEpoch, kafka.ProducerFenced, kafka.InvalidTxnState,
		kafka.TransactionAbortable, kafka.InvalidProducerIDMapping, kafka.OutOfOrderSequenceNumber,
		kafka.UnknownProducerID, kafka.UnknownServerError} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}

// coordinate asks the coordinator of an id until it answers.
func (c *txnClient) coordinate(topic, id string, r kmsg.Request, answer func(coordinator.Answer)) {
	version := c.version
	again := func() {
		if c.version == version {
			c.coordinate(topic, id, r, answer)
		}
	}
	to, _ := c.w.coordinatorOf(topic, id)
	c.call(to, func(b *broker, answer func(coordinator.Answer)) {
		runtime := b.coordinators.txns
		if topic == kafka.OffsetsTopic {
			runtime = b.coordinators.groups
		}
		runtime.Do(id, coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous}, r)).OnDone(answer)
	}, func(a coordinator.Answer) {
		switch {
		case a.Err == nil:
			answer(a)
		case c.over(a.Err):
			c.abandon()
		default:
			c.pause(again)
		}
	})
}

// call sends a request of the client's to a machine. It waits for an answer only so long, and an answer that comes later
// is not heard.
func (c *txnClient) call(to *machine, ask func(*broker, func(coordinator.Answer)), answer func(coordinator.Answer)) {
	w, over := c.w, false
	once := func(a coordinator.Answer) {
		if !over {
			over = true
			answer(a)
		}
	}
	w.after(callTimeout, func() { once(failure[coordinator.Answer]()) })
	if to == nil {
		w.after(20*time.Millisecond, func() { once(failure[coordinator.Answer]()) })
		return
	}
	lost := func() bool { return !w.calm && w.chance(0.02) }
	if lost() {
		return
	}
	w.after(w.latency(), func() {
		if !to.up() {
			return
		}
		to.happen(to.life, func() {
			life := to.life
			ask(to.process.(*broker), func(a coordinator.Answer) {
				if to.life != life || to.disk.Crashed() || lost() {
					return
				}
				w.after(w.latency(), func() { once(a) })
			})
		})
	})
}

func (c *txnClient) pause(then func()) {
	c.w.after(20*time.Millisecond+c.w.around(c.w.plan.traffic), then)
}

// coordinatorOf is the coordinator of an id as some broker knows it.
func (w *World) coordinatorOf(topic, id string) (*machine, kafka.LeaderEpoch) {
	at, ok := int32(0), false
	for _, m := range w.machines {
		if m.up() && !ok {
			at, ok = m.process.(*broker).coordinators.groups.PartitionFor(id) // both topics have as many partitions
		}
	}
	if !ok {
		return nil, kafka.NoEpoch
	}
	return w.leaderOf(kafka.TopicPartition{Topic: topic, Partition: at})
}
