package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTxn is a transaction that is open on a partition, by the word of the partition's leader.
type openTxn struct {
	Topic            string    `json:"topic"`
	Partition        int32     `json:"partition"`
	ProducerID       int64     `json:"producerId"`
	ProducerEpoch    int16     `json:"producerEpoch"`
	CoordinatorEpoch int32     `json:"coordinatorEpoch"`
	StartOffset      int64     `json:"startOffset"`
	LastWrite        time.Time `json:"lastWrite"`
	// TransactionalID is whose producer id it is; "" when no coordinator knows.
	TransactionalID string `json:"transactionalId,omitempty"`
}

func newTxnFindHanging(s streams) *cobra.Command {
	c := &cobra.Command{Use: "find-hanging", Short: "Find transactions that are open on a partition and that no coordinator will end",
		Long: `Find transactions that are open on a partition and that no coordinator will end. They hold back all read_committed
consumers of the partition and its compaction. They come of old clients and of brokers that do not verify transactions
(transaction.partition.verification.enable=false). moldau txn abort ends one.`,
		Example: `  moldau txn find-hanging
  moldau txn find-hanging --topic orders:0,1 --older-than 1m`,
		Args: args(0, 0, "no argument")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	topics := c.Flags().StringArrayP("topic", "t", nil, "look at this topic, or `topic:0,1` for some partitions; may be given again")
	older := c.Flags().Duration("older-than", 15*time.Minute, "only those that wrote nothing for so long")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		chosen, err := parsePartitionChoice(*topics)
		if err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		found, err := ses.hanging(cmd.Context(), chosen, time.Now().Add(-*older))
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(s.out, found)
		}
		now := time.Now()
		t := newTable("TOPIC", "PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "LAST WRITE", "AGO", "TRANSACTIONAL ID")
		for _, x := range found {
			t.add(x.Topic, x.Partition, x.StartOffset, x.ProducerID, x.ProducerEpoch, x.LastWrite.Local().Format(time.DateTime),
				agoText(now.Sub(x.LastWrite)), x.TransactionalID)
		}
		if err := t.print(s.out); err != nil || len(found) == 0 {
			return err
		}
		x := found[0]
		fmt.Fprintf(s.err, "moldau: end one with: moldau txn abort --topic %s:%d --start-offset %d --execute\n", x.Topic,
			x.Partition, x.StartOffset)
		return nil
	}
	return c
}

// set gives the choice as kadm takes it; empty means all.
func (c partitionChoice) set() kadm.TopicsSet {
	set := kadm.TopicsSet{}
	for topic, partitions := range c {
		set.Add(topic, partitions...)
	}
	return set
}

// openTransactions lists the transactions that are open on partitions, by topic, partition and start.
func (s *session) openTransactions(parent context.Context, of partitionChoice) ([]openTxn, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	topics, err := s.admin.DescribeProducers(ctx, of.set())
	if err != nil {
		return nil, s.about("describe producers", err)
	}
	out := []openTxn{}
	var failed problems
	for _, p := range topics.SortedPartitions() {
		if err := withMessage(p.Err, p.ErrMessage); err != nil {
			failed.add(fmt.Sprintf("topic %s, partition %d", p.Topic, p.Partition), s.explain(err))
		}
	}
	topics.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 {
			out = append(out, openTxn{Topic: p.Topic, Partition: p.Partition, ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch,
				CoordinatorEpoch: p.CoordinatorEpoch, StartOffset: p.CurrentTxnStartOffset, LastWrite: time.UnixMilli(p.LastTimestamp)})
		}
	})
	slices.SortFunc(out, func(a, b openTxn) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.StartOffset, b.StartOffset))
	})
	return out, failed.err()
}

// hanging lists the open transactions that wrote nothing since a time and that no coordinator will end.
//
// Partitions are asked before the coordinators and again after them: a transaction that ends in between looks hanging in
// the first two answers, but has gone from the third.
func (s *session) hanging(ctx context.Context, of partitionChoice, before time.Time) ([]openTxn, error) {
	first, err := s.openTransactions(ctx, of)
	if err != nil {
		return nil, err
	}
	out := []openTxn{}
	again := partitionChoice{}
	for _, x := range first {
		if x.LastWrite.Before(before) {
			out = append(out, x)
		}
	}
	if out, err = s.unowned(ctx, out); err != nil || len(out) == 0 {
		return out, err
	}
	for _, x := range out {
		if !again.has(x.Topic, x.Partition) {
			again[x.Topic] = append(again[x.Topic], x.Partition)
		}
	}
	still, err := s.openTransactions(ctx, again)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(x openTxn) bool { return !slices.ContainsFunc(still, x.same) }), nil
}

// same says whether x and y are the same transaction.
func (x openTxn) same(y openTxn) bool {
	return x.Topic == y.Topic && x.Partition == y.Partition && x.ProducerID == y.ProducerID && x.StartOffset == y.StartOffset
}

// unowned leaves the transactions that are in no coordinator's transaction, with the transactional ids that are known.
func (s *session) unowned(ctx context.Context, open []openTxn) ([]openTxn, error) {
	if len(open) == 0 {
		return open, nil
	}
	ids := map[int64]bool{}
	for _, x := range open {
		ids[x.ProducerID] = true
	}
	req := kmsg.NewPtrListTransactionsRequest()
	req.ProducerIDFilters = slices.Sorted(maps.Keys(ids))
	known, err := s.listTransactions(ctx, req)
	if err != nil {
		return nil, err
	}
	views := []txnView{}
	if len(known) > 0 {
		var names []string
		for _, k := range known {
			names = append(names, k.TransactionalID)
		}
		if views, err = s.describeTransactions(ctx, names); err != nil {
			return nil, err
		}
	}
	owner := map[int64]txnView{}
	for _, v := range views {
		owner[v.ProducerID] = v
	}
	out := []openTxn{}
	for _, x := range open {
		v, ok := owner[x.ProducerID]
		if ok && v.open() && slices.Contains(v.Partitions[x.Topic], x.Partition) {
			continue
		}
		x.TransactionalID = v.TransactionalID
		out = append(out, x)
	}
	return out, nil
}
