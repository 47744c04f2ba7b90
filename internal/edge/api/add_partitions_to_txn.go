package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// addPartitionsToTxnRow adds partitions to transactions, all of one transaction or none. Versions up to 3 are of clients
// and of one transaction; newer ones of brokers, for many, and may only ask whether partitions are in them (KIP-890).
func (b *Broker) addPartitionsToTxnRow() server.API {
	return server.API{Key: int16(kmsg.AddPartitionsToTxn), Min: 0, Max: 5, Listener: server.BrokerListener,
		Handle: b.handleAddPartitionsToTxn}
}

func (b *Broker) handleAddPartitionsToTxn(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.AddPartitionsToTxnRequest))
	if err != nil {
		return answer(server.Reply{None: true, Close: true, Code: kafka.CodeOf(err)})
	}
	call, image := callOf(c), b.Image()
	c.Lease.Release()
	if req.Version < 4 {
		return promise.Map(b.addPartitions(call, image, oneTransaction(req), req),
			func(x kmsg.AddPartitionsToTxnResponseTransaction) server.Reply {
				resp := kmsg.NewPtrAddPartitionsToTxnResponse()
				for _, t := range x.Topics {
					out := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
					for _, p := range t.Partitions {
						out.Partitions = append(out.Partitions,
							kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
					}
					resp.Topics = append(resp.Topics, out)
				}
				return server.Reply{Body: resp, Code: firstAddError(x)}
			})
	}
	parts := make([]*promise.Promise[kmsg.AddPartitionsToTxnResponseTransaction], 0, len(req.Transactions))
	for _, t := range req.Transactions {
		one := kmsg.NewPtrAddPartitionsToTxnRequest()
		one.Version = req.Version
		one.Transactions = append(one.Transactions, t)
		parts = append(parts, b.addPartitions(call, image, t, one))
	}
	return promise.Map(gather(parts), func(all []kmsg.AddPartitionsToTxnResponseTransaction) server.Reply {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		resp.Transactions = all
		return server.Reply{Body: resp, Code: firstAddError(all...)}
	})
}

// oneTransaction gives a client's request in the words of a broker's.
func oneTransaction(req *kmsg.AddPartitionsToTxnRequest) kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: req.TransactionalID, ProducerID: req.ProducerID,
		ProducerEpoch: req.ProducerEpoch}
	for _, x := range req.Topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic(x))
	}
	return t
}

// addPartitions passes the part of one transaction to its coordinator, as req. A partition that does not exist spoils it
// for the others.
func (b *Broker) addPartitions(call coordinator.Call, image *metadata.Image, t kmsg.AddPartitionsToTxnRequestTransaction,
	req *kmsg.AddPartitionsToTxnRequest) *promise.Promise[kmsg.AddPartitionsToTxnResponseTransaction] {
	missing := false
	judged := addedAs(t, func(tp kafka.TopicPartition) kafka.Code {
		if _, ok := image.Partition(tp); !ok {
			missing = true
			return kafka.UnknownTopicOrPartition
		}
		return kafka.OperationNotAttempted
	})
	if missing {
		return promise.Done(judged)
	}
	p := coordinator.NewPending(call, req)
	return promise.Map(b.Transactions.Do(t.TransactionalID, p),
		func(a coordinator.Answer) kmsg.AddPartitionsToTxnResponseTransaction {
			body, ok := a.Body.(*kmsg.AddPartitionsToTxnResponse)
			switch {
			case a.Err == nil && ok && len(body.Transactions) == 1:
				return body.Transactions[0]
			case a.Err == nil && ok:
				return addedAs(t, func(tp kafka.TopicPartition) kafka.Code { return addedCode(body, tp) })
			case a.Err == nil:
				a.Err = kafka.UnknownServerError
			}
			return addedAs(t, func(kafka.TopicPartition) kafka.Code { return kafka.CodeOf(a.Err) })
		})
}

// addedAs answers for every partition of a transaction.
func addedAs(t kmsg.AddPartitionsToTxnRequestTransaction, code func(kafka.TopicPartition) kafka.Code,
) kmsg.AddPartitionsToTxnResponseTransaction {
	out := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: t.TransactionalID}
	for _, x := range t.Topics {
		y := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: x.Topic}
		for _, i := range x.Partitions {
			y.Partitions = append(y.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: i,
				ErrorCode: int16(code(kafka.TopicPartition{Topic: x.Topic, Partition: i}))})
		}
		out.Topics = append(out.Topics, y)
	}
	return out
}

// addedCode finds a partition in a response to a client.
func addedCode(resp *kmsg.AddPartitionsToTxnResponse, tp kafka.TopicPartition) kafka.Code {
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			if resp.Topics[i].Topic == tp.Topic && p.Partition == tp.Partition {
				return kafka.Code(p.ErrorCode)
			}
		}
	}
	return kafka.UnknownServerError
}

func firstAddError(all ...kmsg.AddPartitionsToTxnResponseTransaction) kafka.Code {
	for _, t := range all {
		for i := range t.Topics {
			for _, p := range t.Topics[i].Partitions {
				if p.ErrorCode != 0 {
					return kafka.Code(p.ErrorCode)
				}
			}
		}
	}
	return kafka.None
}
