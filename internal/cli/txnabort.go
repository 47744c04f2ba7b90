package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTxnAbort(s streams) *cobra.Command {
	c := &cobra.Command{Use: "abort [ID]", Short: "Abort an open transaction, by its transactional id or where it hangs",
		Long: `Abort the open transaction of a transactional id, on all its partitions. Its producer is fenced: it cannot go on and
has to begin anew.

With --topic and --start-offset it ends a transaction on one partition instead, which is for those that no coordinator
knows of (moldau txn find-hanging). One that a coordinator would end is left alone, because its partitions must end together.

Only what would happen is printed unless --execute is given.`,
		Example: `  moldau txn abort etl-7
  moldau txn abort --topic orders:3 --start-offset 4711 --execute`,
		Args: args(0, 1, "one transactional id")}
	f := clientFlagsOf(c)
	topic := c.Flags().StringP("topic", "t", "", "the partition where a transaction hangs, as `topic:3`")
	start := c.Flags().Int64("start-offset", -1, "the first `offset` of that transaction")
	execute := c.Flags().Bool("execute", false, "do it")
	c.ValidArgsFunction = f.completeTransactions
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		one := len(ids) == 1
		if one == (*topic != "") {
			return errors.New("say what to abort: a transactional id, or --topic and --start-offset")
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if one {
			return ses.abortID(cmd.Context(), s, ids[0], *execute)
		}
		chosen, err := parsePartitionChoice([]string{*topic})
		if err != nil {
			return err
		}
		for name, partitions := range chosen {
			if len(partitions) != 1 || *start < 0 {
				return errors.New("a transaction that hangs is named by --topic topic:3 and --start-offset, see moldau txn find-hanging")
			}
			return ses.abortHanging(cmd.Context(), s, openTxn{Topic: name, Partition: partitions[0], StartOffset: *start}, *execute)
		}
		return nil
	}
	return c
}

// abortID aborts the transaction of a transactional id by taking the id over, as a new producer would.
func (s *session) abortID(ctx context.Context, to streams, id string, execute bool) error {
	views, err := s.describeTransactions(ctx, []string{id})
	if err != nil {
		return err
	}
	v := views[0]
	switch {
	case v.deciding():
		return fmt.Errorf("transactional id %s: its transaction is ending already (%s); moldau explain txn %s says what it waits for",
			id, v.State, id)
	case !v.open():
		return fmt.Errorf("transactional id %s has no open transaction (%s)", id, v.State)
	}
	what := fmt.Sprintf("the transaction of %s on %s, and fence its producer %d with epoch %d", id, assignmentText(v.Partitions),
		v.ProducerID, v.ProducerEpoch)
	if !execute {
		fmt.Fprintf(to.out, "would abort %s\n", what)
		fmt.Fprintln(to.err, dryRunRemark)
		return nil
	}
	if err := s.fence(ctx, v); err != nil {
		return s.about("transactional id "+id, err)
	}
	fmt.Fprintf(to.out, "aborted the transaction of %s on %s, and fenced its producer %d with epoch %d\n", id,
		assignmentText(v.Partitions), v.ProducerID, v.ProducerEpoch)
	return nil
}

// fence asks for a new epoch of a transactional id until the coordinator has ended what was open.
func (s *session) fence(parent context.Context, v txnView) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &v.TransactionalID, v.TimeoutMs
	req.ProducerID, req.ProducerEpoch = -1, -1
	for {
		resp, err := req.RequestWith(ctx, s)
		if err != nil {
			return err
		}
		if err = answered(resp.ErrorCode, nil); !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// abortHanging writes an abort marker to the one partition where a transaction hangs.
func (s *session) abortHanging(ctx context.Context, to streams, t openTxn, execute bool) error {
	where := fmt.Sprintf("topic %s, partition %d", t.Topic, t.Partition)
	open, err := s.openTransactions(ctx, partitionChoice{t.Topic: {t.Partition}})
	if err != nil {
		return err
	}
	found := false
	for _, x := range open {
		if x.StartOffset == t.StartOffset {
			t, found = x, true
		}
	}
	if !found {
		return fmt.Errorf("%s has no open transaction that began at offset %d; moldau explain partition %s-%d shows what is open",
			where, t.StartOffset, t.Topic, t.Partition)
	}
	unowned, err := s.unowned(ctx, []openTxn{t})
	if err != nil {
		return err
	}
	if len(unowned) == 0 {
		return fmt.Errorf("%s: the transaction that began at offset %d does not hang, its coordinator ends it; "+
			"moldau txn list --producer %d names its transactional id, which moldau txn abort takes", where, t.StartOffset, t.ProducerID)
	}
	what := fmt.Sprintf("the transaction of producer %d, epoch %d, that began at offset %d of %s", t.ProducerID, t.ProducerEpoch,
		t.StartOffset, where)
	if !execute {
		fmt.Fprintf(to.out, "would abort %s\n", what)
		fmt.Fprintln(to.err, dryRunRemark)
		return nil
	}
	if err := s.writeAbort(ctx, t); err != nil {
		return s.about(where, err)
	}
	fmt.Fprintf(to.out, "aborted %s\n", what)
	return nil
}

func (s *session) writeAbort(parent context.Context, t openTxn) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	set := kadm.TopicsSet{}
	set.Add(t.Topic, t.Partition)
	got, err := s.admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch,
		CoordinatorEpoch: max(t.CoordinatorEpoch, 0), Topics: set})
	if err != nil {
		return err
	}
	for _, p := range got.SortedPartitions() {
		if p.Err != nil {
			return p.Err
		}
	}
	return nil
}
