package node

import (
	"fmt"
	"net/http"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/kafka"
)

// TransactionExplanation is what GET /transactions/ID of the admin listener answers: what a transactional id is at and
// what it waits for. Its JSON names are an interface.
type TransactionExplanation struct {
	TransactionalID string    `json:"transactionalId"`
	State           string    `json:"state"`
	ProducerID      int64     `json:"producerId"`
	ProducerEpoch   int16     `json:"producerEpoch"`
	TimeoutMs       int64     `json:"timeoutMs"`
	Now             time.Time `json:"now"`
	Updated         time.Time `json:"updated"` // the last transition
	// Began is when the open transaction did, AbortsAt when the coordinator aborts it unless it has ended.
	Began    *time.Time `json:"began,omitempty"`
	AbortsAt *time.Time `json:"abortsAt,omitempty"`
	// Ended is who decided the outcome of the last transaction: producer, timeout, or fenced by a new producer; it is
	// absent when this coordinator was not there.
	Ended      string            `json:"ended,omitempty"`
	Waits      string            `json:"waits"`
	Parked     int               `json:"parked"` // requests that wait for its end
	Partitions []TransactionPart `json:"partitions"`
}

// TransactionPart is a partition of an open transaction.
type TransactionPart struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// StartOffset is where the transaction begins there, -1 when nothing is written or this node does not lead it. Behind
	// are the records from there on that read_committed consumers cannot have if this transaction is the first that is open.
	StartOffset int64  `json:"startOffset"`
	Pins        bool   `json:"pins"` // it is the first open one
	Behind      int64  `json:"behind"`
	Waits       string `json:"waits,omitempty"`
}

// serveTransaction answers GET /transactions/ID.
func (n *Node) serveTransaction(w http.ResponseWriter, r *http.Request) {
	e, err := n.explainTransaction(r.PathValue("id"))
	answerAdmin(w, e, err)
}

func (n *Node) explainTransaction(id string) (TransactionExplanation, error) {
	var found txn.Explanation
	known := false
	err := n.coordinators.txns.Inspect(id, func(m coordinator.Machine) { found, known = m.(*txn.Machine).Explain(id) })
	if err == nil && !known {
		err = kafka.Errorf(kafka.TransactionalIDNotFound, "this node has no transactional id %s", id)
	}
	if err != nil {
		return TransactionExplanation{}, err
	}
	out := TransactionExplanation{TransactionalID: id, State: found.State.String(), ProducerID: int64(found.Producer.ID),
		ProducerEpoch: int16(found.Producer.Epoch), TimeoutMs: found.Timeout.Milliseconds(), Now: n.o.Now(), Updated: found.Updated,
		Ended: found.Ended, Parked: found.Parked, Partitions: []TransactionPart{}}
	if found.Open() {
		out.Began = &found.Began
	}
	if found.Open() && !found.Deciding() {
		at := found.Began.Add(found.Timeout)
		out.AbortsAt = &at
	}
	missing := n.coordinators.markers.missingOf(id)
	for _, tp := range found.Partitions {
		part := n.transactionPart(found, tp)
		if err, without := missing[tp]; without && err != nil {
			part.Waits = fmt.Sprintf("the marker was refused (%s) and is tried again", err)
		} else if without {
			part.Waits = "the marker is being written"
		}
		out.Partitions = append(out.Partitions, part)
	}
	out.Waits = waitsOf(found, len(missing))
	return out, nil
}

// waitsOf says what a transactional id waits for.
func waitsOf(e txn.Explanation, missing int) string {
	switch {
	case e.Deciding() && missing == 0:
		return "all markers are written; that is being recorded"
	case e.Deciding():
		return fmt.Sprintf("markers on %d of %d partitions", missing, len(e.Partitions))
	case e.Open():
		return "its producer, to commit or abort"
	}
	return "nothing: no transaction is open"
}

// transactionPart tells of a partition in a transaction.
func (n *Node) transactionPart(e txn.Explanation, tp kafka.TopicPartition) TransactionPart {
	out := TransactionPart{Topic: tp.Topic, Partition: tp.Partition, StartOffset: -1}
	p, err := n.manager.Get(tp)
	if err != nil {
		return out
	}
	open, err := p.OpenTransactions()
	if err != nil {
		return out
	}
	for i, info := range open {
		if info.ProducerID == e.Producer.ID {
			out.StartOffset, out.Pins = int64(info.TxnStart), i == 0
			out.Behind = int64(max(p.HighWatermark()-max(info.TxnStart, p.Log().View().Start), 0))
		}
	}
	return out
}
