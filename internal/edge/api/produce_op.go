package api

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
)

// Bounds of what a pooled op keeps for the next request.
const (
	keepProduceTopics  = 64
	keepProduceTargets = 256
)

// produceOp is one Produce request on its way: the reply under construction and one waiter per batch. Ops
// are used again, so that an ordinary request allocates little.
type produceOp struct {
	h       *produceHandler
	call    *server.Call
	image   *metadata.Image
	version int16
	acks    replica.Acks

	resp    kmsg.ProduceResponse
	targets []produceTarget
	places  map[produceKey]int
	waiters []*produceWaiter // all that were ever made; the first used ones belong to this request
	used    int
	// pending counts the acknowledgements that are missing, and one for the handler until it is through.
	pending atomic.Int32
	later   *promise.Promise[server.Reply] // nil: answered at once
	due     deadline
	parked  bool
	failed  atomic.Bool // a refusal; what closes the connection under acks=0
	release func()

	transactionalID string       // aliases the request
	leased          atomic.Int32 // who needs the request's bytes: held batches, and the handler until it is through
}

// produceWaiter waits for one append.
type produceWaiter struct {
	replica.AppendWaiter
	op        *produceOp
	part      *replica.Partition
	topic, at int
	batch     record.Batch // while it may be held
}

// waiter gives a waiter for a target.
func (op *produceOp) waiter(t *produceTarget) *produceWaiter {
	if op.used == len(op.waiters) {
		w := &produceWaiter{op: op}
		w.Done = func(*replica.AppendWaiter) { w.acknowledged() }
		w.Resumed = func(_ *replica.AppendWaiter, err error) { w.resumed(err) }
		op.waiters = append(op.waiters, w)
	}
	w := op.waiters[op.used]
	op.used++
	w.part, w.topic, w.at = t.part, t.topic, t.at
	w.Result = replica.AppendResult{}
	return w
}

// acknowledged writes the outcome of an append into the response; the last one sends it.
func (w *produceWaiter) acknowledged() {
	op, r := w.op, &w.Result
	p := &op.resp.Topics[w.topic].Partitions[w.at]
	p.BaseOffset, p.LogAppendTime, p.LogStartOffset = int64(r.First), r.LogAppendTimeMs, int64(r.LogStart)
	p.ErrorCode = int16(kafka.CodeOf(r.Err))
	if op.pending.Add(-1) == 0 {
		later := op.later
		later.Set(op.finish())
	}
}

// refuse writes why a batch was not appended. Kafka tells the log start only with errors that the log
// itself found.
func (op *produceOp) refuse(t *produceTarget, err error, message bool) {
	op.h.b.Metrics.rejected(err)
	p := &op.resp.Topics[t.topic].Partitions[t.at]
	p.ErrorCode = int16(kafka.CodeOf(err))
	if message {
		p.ErrorMessage = messageOf(err)
	}
	op.failed.Store(true)
	if t.part == nil {
		return
	}
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower, kafka.MessageTooLarge, kafka.RecordListTooLarge,
		kafka.CorruptMessage, kafka.KafkaStorageError, kafka.InvalidRequiredAcks, kafka.InvalidTopicException,
		kafka.TransactionalIDAuthorizationFailed, kafka.UnsupportedCompressionType:
		return
	}
	at, err := t.part.ListOffset(replica.OffsetSpec{
		TimestampMs: replica.EarliestOffset, Replica: kafka.NoNode, LeaderEpoch: kafka.NoEpoch})
	if err == nil {
		p.LogStartOffset = int64(at.Offset)
	}
}

// refuseAll writes one error for every batch of the request, and leaves nothing to append.
func (op *produceOp) refuseAll(err error) {
	for i := range op.targets {
		op.refuse(&op.targets[i], err, errors.Is(err, record.ErrCorrupt))
	}
	clear(op.targets)
	op.targets = op.targets[:0]
}

// park prepares for a reply that comes later. The handler still holds its own pending count.
func (op *produceOp) park(timeout time.Duration) {
	w := op.h.b.waits()
	w.count.Add(1)
	op.h.b.Metrics.Produces.Now.Add(1)
	op.parked, op.later = true, &promise.Promise[server.Reply]{}
	w.deadlines.add(&op.due, op.call.Now.Add(timeout))
}

// expire answers REQUEST_TIMED_OUT for what is not acknowledged in time. What was appended stays.
func (op *produceOp) expire() {
	op.h.b.Metrics.Produces.Expired.Inc()
	for _, w := range op.waiters[:op.used] {
		e := w.part.Expire(&w.AppendWaiter)
		e.Run(op.h.b.Host)
	}
}

// finish makes the reply. It is called once, when nothing is pending any more.
func (op *produceOp) finish() server.Reply {
	release := op.release
	if op.parked {
		w := op.h.b.waits()
		w.count.Add(-1)
		op.h.b.Metrics.Produces.Now.Add(-1)
		if !w.deadlines.remove(&op.due) {
			release = nil // expire may still look at this op: it is not used again
		}
	}
	code := op.firstError()
	if op.acks == replica.AcksNone {
		return server.Reply{None: true, Close: op.failed.Load(), Code: code, Release: release}
	}
	if op.version >= 10 && code != 0 {
		op.hintLeaders()
	}
	return server.Reply{Body: &op.resp, Code: code, Release: release}
}

func (op *produceOp) firstError() kafka.Code {
	for i := range op.resp.Topics {
		t := &op.resp.Topics[i]
		for j := range t.Partitions {
			if c := t.Partitions[j].ErrorCode; c != 0 {
				return kafka.Code(c)
			}
		}
	}
	return 0
}

// hintLeaders tells clients that came to the wrong broker where the leader is (KIP-951).
func (op *produceOp) hintLeaders() {
	image := op.h.b.Image()
	told := map[kafka.NodeID]bool{}
	for i := range op.resp.Topics {
		t := &op.resp.Topics[i]
		name := t.Topic
		if known, ok := image.TopicByID(t.TopicID); ok && op.version >= 13 {
			name = known.Name
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower {
				continue
			}
			tp := kafka.TopicPartition{Topic: name, Partition: p.Partition}
			part, _ := op.h.b.Partitions.Get(tp)
			id, epoch := leadership(image, part, tp)
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(id), int32(epoch)
			if told[id] {
				continue
			}
			told[id] = true
			if e, ok := op.h.b.leaderEndpoint(op.call.Conn, image, id); ok {
				op.resp.Brokers = append(op.resp.Brokers,
					kmsg.ProduceResponseBroker{NodeID: int32(e.id), Host: e.host, Port: e.port, Rack: e.rack})
			}
		}
	}
}

// reset makes the op ready for another request and lets go of what only this one needed.
func (op *produceOp) reset() {
	op.call, op.image, op.later = nil, nil, nil
	op.parked, op.used, op.transactionalID = false, 0, ""
	op.failed.Store(false)
	op.targets = op.targets[:0]
	op.resp.Brokers = nil
	for _, w := range op.waiters {
		w.part, w.batch = nil, nil
	}
	if cap(op.resp.Topics) > keepProduceTopics || cap(op.targets) > keepProduceTargets {
		op.resp.Topics, op.targets, op.waiters, op.places = nil, nil, nil, make(map[produceKey]int)
	}
	for i := range op.resp.Topics {
		t := &op.resp.Topics[i]
		clear(t.Partitions)
	}
	op.resp.Topics = op.resp.Topics[:0]
}
