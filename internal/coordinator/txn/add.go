package txn

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// addPartitions enters partitions into the open transaction, or begins one with them; with VerifyOnly it only tells whether
// they are in it (KIP-890). The request is of one transactional id: at the top, or the only one of the list.
//
// The response of one id is a AddPartitionsToTxnResponse: Topics for versions up to 3, one of Transactions later.
func (m *Machine) addPartitions(now time.Time, p *coordinator.Pending, r *kmsg.AddPartitionsToTxnRequest) coordinator.Result {
	a := adding{id: r.TransactionalID, producer: coordinator.Stamp{ID: kafka.ProducerID(r.ProducerID),
		Epoch: kafka.ProducerEpoch(r.ProducerEpoch)}, fenced: fencedCode(r.Version, 2)}
	topics := r.Topics
	if r.Version >= 4 {
		t := r.Transactions[0]
		a = adding{id: t.TransactionalID, producer: coordinator.Stamp{ID: kafka.ProducerID(t.ProducerID),
			Epoch: kafka.ProducerEpoch(t.ProducerEpoch)}, verify: t.VerifyOnly, version: 2, fenced: kafka.ProducerFenced}
		topics = nil
		for _, x := range t.Topics {
			topics = append(topics, kmsg.AddPartitionsToTxnRequestTopic(x))
		}
	}
	for _, t := range topics {
		for _, i := range t.Partitions {
			a.partitions = append(a.partitions, kafka.TopicPartition{Topic: t.Topic, Partition: i})
		}
	}
	return m.add(now, p, a, func(code func(kafka.TopicPartition) kafka.Code) kmsg.Response {
		return addedResponse(r.Version, a.id, topics, code)
	})
}

func addedResponse(version int16, id string, topics []kmsg.AddPartitionsToTxnRequestTopic,
	code func(kafka.TopicPartition) kafka.Code) kmsg.Response {
	var out []kmsg.AddPartitionsToTxnResponseTopic
	for _, t := range topics {
		x := kmsg.NewAddPartitionsToTxnResponseTopic()
		x.Topic = t.Topic
		for _, i := range t.Partitions {
			y := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			y.Partition, y.ErrorCode = i, int16(code(kafka.TopicPartition{Topic: t.Topic, Partition: i}))
			x.Partitions = append(x.Partitions, y)
		}
		out = append(out, x)
	}
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	if version < 4 {
		resp.Topics = out
		return resp
	}
	x := kmsg.NewAddPartitionsToTxnResponseTransaction()
	x.TransactionalID = id
	for _, t := range out {
		y := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		y.Topic = t.Topic
		for _, q := range t.Partitions {
			z := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			z.Partition, z.ErrorCode = q.Partition, q.ErrorCode
			y.Partitions = append(y.Partitions, z)
		}
		x.Topics = append(x.Topics, y)
	}
	resp.Transactions = append(resp.Transactions, x)
	return resp
}

// addOffsets enters the partition that holds a group's offsets into the transaction.
func (m *Machine) addOffsets(now time.Time, p *coordinator.Pending, r *kmsg.AddOffsetsToTxnRequest) coordinator.Result {
	tp, ok := m.o.OffsetsPartition(m.image, r.Group)
	if !ok {
		return answer(p, r.TransactionalID, kafka.CoordinatorNotAvailable)
	}
	a := adding{id: r.TransactionalID, producer: coordinator.Stamp{ID: kafka.ProducerID(r.ProducerID),
		Epoch: kafka.ProducerEpoch(r.ProducerEpoch)}, fenced: fencedCode(r.Version, 2), partitions: []kafka.TopicPartition{tp}}
	return m.add(now, p, a, func(code func(kafka.TopicPartition) kafka.Code) kmsg.Response {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.ErrorCode = int16(code(tp))
		return resp
	})
}

// adding is a wish to have partitions in a transaction.
type adding struct {
	id         string
	producer   coordinator.Stamp
	partitions []kafka.TopicPartition
	verify     bool
	version    int16
	fenced     error // what a producer of another epoch is told
}

// add checks and records an adding. A failure is the same for all partitions; respond makes the response.
func (m *Machine) add(now time.Time, p *coordinator.Pending, a adding,
	respond func(func(kafka.TopicPartition) kafka.Code) kmsg.Response) coordinator.Result {
	all := func(code kafka.Code) kmsg.Response {
		return respond(func(kafka.TopicPartition) kafka.Code { return code })
	}
	e := m.ids[a.id]
	switch {
	case a.id == "":
		return reply(p, a.id, all(kafka.InvalidRequest))
	case e == nil:
		return reply(p, a.id, all(kafka.InvalidProducerIDMapping))
	case e.awaits(a.producer):
		return m.park(now, e, p)
	case a.producer.ID != e.producer.ID:
		return reply(p, a.id, all(kafka.InvalidProducerIDMapping))
	case a.producer.Epoch != e.producer.Epoch:
		return reply(p, a.id, all(kafka.CodeOf(a.fenced)))
	case a.verify:
		return reply(p, a.id, respond(func(tp kafka.TopicPartition) kafka.Code {
			if e.state == Ongoing && e.holds([]kafka.TopicPartition{tp}) {
				return kafka.None
			}
			return kafka.TransactionAbortable
		}))
	case e.state == Ongoing && e.holds(a.partitions):
		return reply(p, a.id, all(kafka.None))
	}
	out := m.write(e.with(a.partitions, a.version, now.UnixMilli()))
	out.Replies = []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: all(kafka.None)}}}
	return out
}
