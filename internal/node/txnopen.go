package node

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// openHere is a transaction that is open on a partition that this node leads.
type openHere struct {
	p    *replica.Partition
	info log.ProducerInfo
	// owner is the transactional id that has the producer id, if a coordinator on this node knows one.
	owner *txn.Explanation
}

// held says that a coordinator knows of the transaction on this partition, and will end it.
func (o openHere) held() bool {
	return o.owner != nil && o.owner.Producer.ID == o.info.ProducerID && o.owner.Holds(o.p.TopicPartition())
}

// verdict is what can be said of who will end an open transaction.
type verdict int8

const (
	ends    verdict = iota // its coordinator does
	hangs                  // nobody does
	unknown                // a coordinator on another broker might, or one that is being loaded: see askElsewhere
)

// openTransactions finds the transactions that are open on partitions led here, and who owns them.
//
// The partitions are asked first, then the coordinators, and then the partitions again about those that no coordinator
// holds: a transaction that ends in between would look as if it hung.
func (n *Node) openTransactions(partitions []*replica.Partition) ([]openHere, []verdict) {
	var found []openHere
	for _, p := range partitions {
		open, err := p.OpenTransactions()
		if err != nil {
			continue // led elsewhere
		}
		for _, info := range open {
			found = append(found, openHere{p: p, info: info})
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	all := n.coordinators.findOwners(found)
	var kept []openHere
	var verdicts []verdict
	for _, o := range found {
		v := ends
		switch {
		case o.held():
		case !o.still():
			continue
		case all:
			v = hangs
		default:
			v = unknown
		}
		kept, verdicts = append(kept, o), append(verdicts, v)
	}
	return kept, verdicts
}

// still says that the transaction is open yet.
func (o openHere) still() bool {
	open, _ := o.p.OpenTransactions()
	for _, info := range open {
		if info.ProducerID == o.info.ProducerID && info.TxnStart == o.info.TxnStart {
			return true
		}
	}
	return false
}

// findOwners looks up who has the producer ids, and says whether all coordinators of the cluster were asked.
func (c *coordinators) findOwners(open []openHere) (all bool) {
	byID := map[kafka.ProducerID]*txn.Explanation{}
	for _, o := range open {
		byID[o.info.ProducerID] = nil
	}
	loaded := 0
	c.txns.InspectAll(func(_ int32, m coordinator.Machine) {
		loaded++
		for e := range m.(*txn.Machine).Owners(func(id kafka.ProducerID) bool { _, ok := byID[id]; return ok }) {
			byID[e.Producer.ID] = &e
		}
	})
	for i := range open {
		open[i].owner = byID[open[i].info.ProducerID]
	}
	topic, ok := c.n.publisher.Image().Topic(kafka.TransactionsTopic)
	return !ok || topic.NumPartitions() == loaded
}

// since is when the first batch of the transaction was written, by that batch; false when it cannot be told.
func (o openHere) since() (time.Time, bool) {
	view := o.p.Log().View()
	if o.info.TxnStart < view.Start {
		return time.Time{}, false
	}
	head, ok := headerAt(view, o.info.TxnStart, view.End)
	if !ok {
		return time.Time{}, false
	}
	if head.IsLogAppendTime() || head.HasDeleteHorizon() {
		return time.UnixMilli(head.MaxTimestamp()), true
	}
	return time.UnixMilli(head.BaseTimestamp()), true
}

// headerAt reads the header of the batch that holds an offset.
func headerAt(view *log.View, at, end kafka.Offset) (record.Batch, bool) {
	extents, err := view.Read(at, end, 1, true)
	if err != nil {
		return nil, false
	}
	defer extents.Release()
	for file, r := range extents.Parts() {
		head := make(record.Batch, record.HeaderSize)
		if r.Len < len(head) {
			return nil, false
		}
		n, err := file.ReadAt(head, r.Pos)
		return head, err == nil && n == len(head)
	}
	return nil, false
}
