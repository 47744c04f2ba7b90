package node

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// PartitionExplanation is what GET /partitions/TOPIC/PARTITION of the admin listener answers: how far the partition can be
// read, and which transactions hold readers back. Its JSON names are an interface.
type PartitionExplanation struct {
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Leader      int32     `json:"leader"`
	LeaderEpoch int32     `json:"leaderEpoch"`
	Replicas    []int32   `json:"replicas"`
	ISR         []int32   `json:"isr"`
	Now         time.Time `json:"now"`
	// The offsets of the partition in their order: what was appended ends at End, what is on the disk at Durable, consumers
	// read up to HighWatermark, those that want committed records only up to LastStable.
	Start         int64 `json:"start"`
	LastStable    int64 `json:"lastStable"`
	HighWatermark int64 `json:"highWatermark"`
	Durable       int64 `json:"durable"`
	End           int64 `json:"end"`
	// MinISR is how many replicas must be in sync for acks=all to succeed.
	MinISR    int                   `json:"minIsr"`
	Followers []FollowerExplanation `json:"followers"`
	// Transactions are open on the partition, the one that began first at the front: it pins LastStable.
	Transactions []OpenTransaction `json:"transactions"`
	Waits        string            `json:"waits"`
}

// OpenTransaction is a transaction that is open on a partition.
type OpenTransaction struct {
	ProducerID    int64 `json:"producerId"`
	ProducerEpoch int16 `json:"producerEpoch"`
	StartOffset   int64 `json:"startOffset"`
	// Since is when its first batch was written, by the batch itself; absent when that is gone.
	Since     *time.Time `json:"since,omitempty"`
	LastWrite time.Time  `json:"lastWrite"`
	// TransactionalID and State are what the coordinator knows, if it is on this node.
	TransactionalID string     `json:"transactionalId,omitempty"`
	State           string     `json:"state,omitempty"`
	AbortsAt        *time.Time `json:"abortsAt,omitempty"`
	Hangs           bool       `json:"hangs"` // no coordinator will end it
	Waits           string     `json:"waits"`
}

// servePartition answers GET /partitions/TOPIC/PARTITION.
func (n *Node) servePartition(w http.ResponseWriter, r *http.Request) {
	index, err := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	if err != nil {
		answerAdmin(w, nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "%s is no partition", r.PathValue("partition")))
		return
	}
	e, err := n.explainPartition(r.Context(), kafka.TopicPartition{Topic: r.PathValue("topic"), Partition: int32(index)})
	answerAdmin(w, e, err)
}

func (n *Node) explainPartition(ctx context.Context, tp kafka.TopicPartition) (PartitionExplanation, error) {
	known, ok := n.publisher.Image().Partition(tp)
	if !ok {
		return PartitionExplanation{}, kafka.Errorf(kafka.UnknownTopicOrPartition, "topic %s has no partition %d", tp.Topic, tp.Partition)
	}
	if !known.HasLeader() {
		return n.explainLeaderless(tp, known), nil
	}
	p, err := n.manager.Get(tp)
	if err == nil {
		_, err = p.OpenTransactions()
	}
	if err != nil {
		return PartitionExplanation{}, kafka.Errorf(kafka.CodeOf(err), "this node does not lead it, node %d does", known.Leader)
	}
	open, verdicts := n.openTransactions([]*replica.Partition{p})
	n.askElsewhere(ctx, open, verdicts, func(openHere) bool { return true })
	info := p.Info()
	out := PartitionExplanation{Topic: tp.Topic, Partition: tp.Partition, Leader: int32(info.Leader),
		LeaderEpoch: int32(info.LeaderEpoch), Replicas: numbers(info.Replicas), ISR: numbers(info.ISR), Now: n.o.Now(),
		Start: int64(info.Start), LastStable: int64(info.LastStable), HighWatermark: int64(info.HighWatermark),
		Durable: int64(info.Durable), End: int64(info.End), Transactions: []OpenTransaction{}}
	out.Followers, out.MinISR, err = n.followersOf(p, info.End)
	if err != nil {
		return PartitionExplanation{}, err
	}
	for i, o := range open {
		out.Transactions = append(out.Transactions, o.explain(verdicts[i]))
	}
	out.Waits = out.waits()
	return out, nil
}

// waits says what readers wait for.
func (e PartitionExplanation) waits() string {
	back := e.HighWatermark - e.LastStable
	switch {
	case len(e.ISR) < e.MinISR:
		return fmt.Sprintf("producers with acks=all are refused and consumers wait at offset %d: %d of at least %d replicas are in sync",
			e.HighWatermark, len(e.ISR), e.MinISR)
	case back > 0 && len(e.Transactions) > 0:
		first := e.Transactions[0]
		return fmt.Sprintf("read_committed consumers wait at offset %d, %d before the others, for producer %d", e.LastStable, back,
			first.ProducerID)
	case back > 0:
		return fmt.Sprintf("read_committed consumers wait at offset %d, %d before the others, for the marker of a transaction that "+
			"has ended to be replicated", e.LastStable, back)
	case e.HighWatermark < e.Durable:
		return fmt.Sprintf("consumers wait at offset %d for replicas to follow", e.HighWatermark)
	case e.HighWatermark < e.End:
		return fmt.Sprintf("consumers wait at offset %d for the disk", e.HighWatermark)
	}
	return "all that is written can be read"
}

func (o openHere) explain(v verdict) OpenTransaction {
	out := OpenTransaction{ProducerID: int64(o.info.ProducerID), ProducerEpoch: int16(o.info.Epoch),
		StartOffset: int64(o.info.TxnStart), LastWrite: time.UnixMilli(o.info.LastTimestampMs), Hangs: v == hangs}
	if since, ok := o.since(); ok {
		out.Since = &since
	}
	if o.owner != nil {
		out.TransactionalID, out.State = o.owner.TransactionalID, o.owner.State.String()
	}
	switch {
	case v == hangs && o.owner != nil:
		out.Waits = "nobody: its transactional id has gone on without this partition"
	case v == hangs:
		out.Waits = "nobody: no coordinator has its producer id"
	case v == unknown:
		out.Waits = "a coordinator that could not be asked, or nobody"
	case o.owner.Deciding():
		out.Waits = "its marker, which the coordinator is writing"
	default:
		at := o.owner.Began.Add(o.owner.Timeout)
		out.AbortsAt = &at
		out.Waits = "its producer, to commit or abort"
	}
	return out
}

func numbers(ids []kafka.NodeID) []int32 {
	out := make([]int32, 0, len(ids))
	for _, id := range ids {
		out = append(out, int32(id))
	}
	return out
}
