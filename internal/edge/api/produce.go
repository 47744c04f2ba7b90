package api

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
)

// adminClientID is the client id by which Kafka's own tools may write to internal topics.
const adminClientID = "__admin_client"

// produceHandler answers Produce. Differences from Apache Kafka, all deliberate: null records are
// INVALID_RECORD (Kafka never answers them), and what is only broken input is INVALID_RECORD where Kafka
// says UNKNOWN_SERVER_ERROR.
type produceHandler struct {
	b   *Broker
	ops sync.Pool // of *produceOp

	expandedMax   int64 // moldau.batch.expanded.max.bytes
	expandedRatio int64 // moldau.batch.expanded.max.ratio
	expandedTopic atomic.Pointer[expandedDefault]
}

func (b *Broker) produceRow() server.API {
	h := &produceHandler{b: b, expandedMax: b.Config.Int64("moldau.batch.expanded.max.bytes"),
		expandedRatio: b.Config.Int64("moldau.batch.expanded.max.ratio")}
	return server.API{Key: int16(kmsg.Produce), Min: 3, Max: 13, Listener: server.BrokerListener, Handle: h.handle}
}

// handle appends every batch and answers when all acknowledgements are there. The reply's skeleton is built
// with names of its own first, because the request's bytes go back to the budget with the last append and
// not with the reply.
func (h *produceHandler) handle(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ProduceRequest)
	n := 0
	for i := range req.Topics {
		n += 1 + len(req.Topics[i].Partitions)
	}
	if tooMany(h.b.Image(), n) {
		return hangUp()
	}
	op := h.begin(c, req)
	op.lay(req)
	if err := spoilt(req); err != nil {
		op.refuseAll(err)
	}
	for i := range op.targets {
		h.produce(op, &op.targets[i], req.TransactionID != nil)
	}
	clear(op.targets) // they alias the request
	op.letGo()
	if op.pending.Load() > 1 {
		op.park(time.Duration(max(req.TimeoutMillis, 0)) * time.Millisecond)
	}
	later := op.later // op may be in use by somebody else once the last acknowledgement is in
	if op.pending.Add(-1) == 0 {
		reply := op.finish()
		if later == nil {
			return answer(reply)
		}
		later.Set(reply)
	}
	return later
}

// produce validates one batch and appends it, or writes into the response why not.
func (h *produceHandler) produce(op *produceOp, t *produceTarget, transactional bool) {
	if t.err == nil {
		t.err = op.invalidAcks()
	}
	if t.err != nil {
		op.refuse(t, t.err, false)
		return
	}
	batch, err := h.validate(op, t, transactional)
	if err != nil {
		return
	}
	w := op.waiter(t)
	op.pending.Add(1)
	r := replica.AppendRequest{
		Batch: batch, Acks: op.acks, LeaderEpoch: kafka.NoEpoch, Producer: log.ProducerCheck{Origin: log.FromClient},
	}
	mayHold := transactional && batch.IsTransactional()
	if mayHold {
		op.mayHold(w, &r)
	}
	e, err := t.part.Append(op.call.Now, r, &w.AppendWaiter)
	switch {
	case err != nil:
		op.pending.Add(-1)
		op.refuse(t, err, saysOwnMessage(err))
	case !e.Held():
		h.b.Metrics.appended(t.part.TopicPartition().Topic, batch, w.Result.Duplicate)
	}
	if mayHold && !e.Held() {
		op.notHeld()
	}
	e.Run(h.b.Host)
}

// saysOwnMessage picks the append errors that are ours or need a word: Kafka sends the code alone for all
// others.
func saysOwnMessage(err error) bool {
	switch kafka.CodeOf(err) {
	case kafka.PolicyViolation:
		return true
	}
	return false
}

// begin takes an op for a request.
func (h *produceHandler) begin(c *server.Call, req *kmsg.ProduceRequest) *produceOp {
	op, ok := h.ops.Get().(*produceOp)
	if !ok {
		op = &produceOp{h: h, places: make(map[produceKey]int)}
		op.due.fire = op.expire
		op.release = func() { h.end(op) }
	}
	op.call, op.version, op.acks = c, req.Version, replica.Acks(req.Acks)
	op.image = h.b.Image()
	op.pending.Store(1) // the handler's own, so that the op cannot end before all is appended
	op.leased.Store(1)
	op.transactionalID = ""
	if req.TransactionID != nil {
		op.transactionalID = *req.TransactionID
	}
	return op
}

// end takes an op back when its reply has left.
func (h *produceHandler) end(op *produceOp) {
	op.reset()
	h.ops.Put(op)
}

// produceTarget is one batch of a request and where it goes. Several for one partition are one: the last
// counts and is answered once, as in Kafka.
type produceTarget struct {
	records   []byte
	part      *replica.Partition
	err       error // why it goes nowhere
	topic, at int   // place in the response
}

// produceKey finds the targets of one partition. It aliases the request.
type produceKey struct {
	topic string
	id    kafka.UUID
	index int32 // -1: the topic itself
}

// lay builds the reply's skeleton and the targets. Topics that come several times are answered once.
func (op *produceOp) lay(req *kmsg.ProduceRequest) {
	single := len(req.Topics) == 1 && len(req.Topics[0].Partitions) <= 1
	for i := range req.Topics {
		t := &req.Topics[i]
		known, name, err := op.findTopic(t)
		at := op.topic(t, name, single)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			target := op.target(produceKey{t.Topic, t.TopicID, p.Partition}, at, single)
			target.records, target.err = p.Records, err
			if err == nil {
				target.part, target.err = op.h.b.partitionOf(known, p.Partition)
			}
		}
	}
	clear(op.places)
}

// findTopic resolves a topic of the request, by name up to version 12 and by id from then on (KIP-516). The
// name may be kept.
func (op *produceOp) findTopic(t *kmsg.ProduceRequestTopic) (known *metadata.Topic, name string, err error) {
	var ok bool
	if op.version >= 13 {
		if known, ok = op.image.TopicByID(t.TopicID); !ok {
			return nil, "", kafka.UnknownTopicID
		}
	} else if known, ok = op.image.Topic(t.Topic); !ok {
		return nil, strings.Clone(t.Topic), kafka.UnknownTopicOrPartition
	}
	if isInternal(known.Name) && op.call.ClientID != adminClientID {
		err = kafka.InvalidTopicException
	}
	return known, known.Name, err
}

// topic gives the place of a topic in the response.
func (op *produceOp) topic(t *kmsg.ProduceRequestTopic, name string, single bool) int {
	at := len(op.resp.Topics)
	if !single {
		key := produceKey{t.Topic, t.TopicID, -1}
		if place, ok := op.places[key]; ok {
			return place
		}
		op.places[key] = at
	}
	if at < cap(op.resp.Topics) {
		op.resp.Topics = op.resp.Topics[:at+1]
	} else {
		op.resp.Topics = append(op.resp.Topics, kmsg.ProduceResponseTopic{})
	}
	out := &op.resp.Topics[at]
	*out = kmsg.ProduceResponseTopic{Topic: name, TopicID: t.TopicID, Partitions: out.Partitions[:0]}
	return at
}

// target gives the target of a partition and makes room for its answer.
func (op *produceOp) target(key produceKey, topic int, single bool) *produceTarget {
	if !single && key.index >= 0 { // a negative index is nobody's, and each is refused for itself
		if place, ok := op.places[key]; ok {
			return &op.targets[place]
		}
		op.places[key] = len(op.targets)
	}
	partitions := &op.resp.Topics[topic].Partitions
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.BaseOffset, p.LogAppendTime, p.LogStartOffset = key.index, -1, -1, -1
	*partitions = append(*partitions, p)
	op.targets = append(op.targets, produceTarget{topic: topic, at: len(*partitions) - 1})
	return &op.targets[len(op.targets)-1]
}

// invalidAcks refuses values that Kafka does not know.
func (op *produceOp) invalidAcks() error {
	switch op.acks {
	case replica.AcksNone, replica.AcksLeader, replica.AcksAll:
		return nil
	}
	return kafka.InvalidRequiredAcks
}
