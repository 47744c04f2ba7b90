package txn

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// The bytes of __transaction_state. The key is of version 0; values are of version 0, or 1 (flexible) once
// transaction.version is at least 1. Both are read.

// record encodes the state of a transaction. Not flexible, it can tell nothing of transactions v2.
func (t *transaction) record(flexible bool) coordinator.Record {
	v := kmsg.NewTxnMetadataValue()
	if flexible {
		v.Version = 1
	}
	v.ProducerID, v.ProducerEpoch = int64(t.producer.ID), int16(t.producer.Epoch)
	v.TimeoutMillis, v.State = t.timeoutMs, kmsg.TransactionState(t.state)
	v.Topics = t.topics()
	v.LastUpdateTimestamp, v.StartTimestamp = t.updateMs, t.startMs
	v.PreviousProducerID, v.NextProducerID = int64(t.previousID), int64(t.nextID)
	v.ClientTransactionVersion = t.version
	// The epoch of the next producer id stays unwritten, as nobody writes it: it is 0.
	return coordinator.Record{Key: key(t.id), Value: v.AppendTo(nil)}
}

// key encodes the key of a transactional id.
func key(id string) []byte {
	k := kmsg.TxnMetadataKey{TransactionalID: id}
	return k.AppendTo(nil)
}

// topics are the partitions by topic: nil for an id that never had a transaction.
func (t *transaction) topics() []kmsg.TxnMetadataValueTopic {
	if t.state == Empty {
		return nil
	}
	out := []kmsg.TxnMetadataValueTopic{}
	for _, tp := range t.partitions {
		if n := len(out); n == 0 || out[n-1].Topic != tp.Topic {
			out = append(out, kmsg.TxnMetadataValueTopic{Topic: tp.Topic})
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return out
}

// parseKey reads the transactional id of a key.
func parseKey(b []byte) (string, error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(b); err != nil {
		return "", kafka.Errorf(kafka.CorruptMessage, "the key of a transaction: %v", err)
	}
	if k.Version != 0 {
		return "", kafka.Errorf(kafka.CorruptMessage, "a key of type %d", k.Version)
	}
	return k.TransactionalID, nil
}

// parseValue reads the state of a transaction.
func parseValue(id string, b []byte) (transaction, error) {
	if len(b) >= 2 && binary.BigEndian.Uint16(b) > 1 {
		return transaction{}, kafka.Errorf(kafka.UnsupportedVersion, "a transaction record of version %d", binary.BigEndian.Uint16(b))
	}
	var v kmsg.TxnMetadataValue
	if err := v.ReadFrom(b); err != nil {
		return transaction{}, kafka.Errorf(kafka.CorruptMessage, "a transaction record: %v", err)
	}
	t := transaction{
		id: id, producer: coordinator.Stamp{ID: kafka.ProducerID(v.ProducerID), Epoch: kafka.ProducerEpoch(v.ProducerEpoch)},
		previousID: kafka.ProducerID(v.PreviousProducerID), nextID: kafka.ProducerID(v.NextProducerID),
		timeoutMs: v.TimeoutMillis, state: State(v.State), startMs: v.StartTimestamp, updateMs: v.LastUpdateTimestamp,
		version: v.ClientTransactionVersion,
	}
	if t.state < Empty || t.state > CompleteAbort {
		return transaction{}, kafka.Errorf(kafka.CorruptMessage, "a transaction in state %d", t.state)
	}
	for _, topic := range v.Topics {
		for _, i := range topic.Partitions {
			t.partitions = append(t.partitions, kafka.TopicPartition{Topic: topic.Topic, Partition: i})
		}
	}
	slices.SortFunc(t.partitions, comparePartitions)
	return t, nil
}
