package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTxn(s streams) *cobra.Command {
	return group("txn", "List, describe and abort transactions, and find those that hang",
		newTxnList(s), newTxnDescribe(s), newTxnFindHanging(s), newTxnAbort(s))
}

// txnRow is a transactional id in a listing.
type txnRow struct {
	TransactionalID string `json:"transactionalId"`
	State           string `json:"state"`
	ProducerID      int64  `json:"producerId"`
	Coordinator     int32  `json:"coordinator"`
}

// txnStates are the states by which a listing can be narrowed.
const txnStates = "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort"

func newTxnList(s streams) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List transactional ids", Args: args(0, 0, "no argument"),
		Long: `List transactional ids. An id is remembered for transactional.id.expiration.ms after its last transaction; --state Ongoing
leaves those that have one open.`,
		Example: `  moldau txn list
  moldau txn list --state Ongoing --older-than 30s -o json`}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	states := c.Flags().StringSlice("state", nil, "only these `states`: "+txnStates)
	producers := c.Flags().Int64Slice("producer", nil, "only those with these producer `ids`")
	older := c.Flags().Duration("older-than", -1, "only transactions that began longer ago (Kafka 3.8)")
	pattern := c.Flags().String("pattern", "", "only ids that match this regular `expression` (Kafka 4.1)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		req := kmsg.NewPtrListTransactionsRequest()
		req.StateFilters, req.ProducerIDFilters = *states, *producers
		if *older >= 0 {
			req.DurationFilterMillis = older.Milliseconds()
		}
		if *pattern != "" {
			req.TransactionalIDPattern = pattern
		}
		rows, err := ses.listTransactions(cmd.Context(), req)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(s.out, rows)
		}
		t := newTable("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR")
		for _, r := range rows {
			t.add(r.TransactionalID, r.State, r.ProducerID, r.Coordinator)
		}
		return t.print(s.out)
	}
	return c
}

// listTransactions asks all brokers and gives their answers by transactional id. A filter that a broker is too old for
// is an error: it would list too much.
func (s *session) listTransactions(parent context.Context, req *kmsg.ListTransactionsRequest) ([]txnRow, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	found := kadm.ListedTransactions{}
	for _, shard := range s.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, s.about("list transactions", shard.Err)
		}
		resp := shard.Resp.(*kmsg.ListTransactionsResponse)
		switch {
		case resp.ErrorCode != 0:
			return nil, s.about("list transactions", answered(resp.ErrorCode, nil))
		case len(resp.UnknownStateFilters) > 0:
			return nil, fmt.Errorf("--state %s: a transaction is never in it; there are %s", resp.UnknownStateFilters[0], txnStates)
		case resp.Version < 1 && req.DurationFilterMillis >= 0:
			return nil, errors.New("--older-than: the broker is too old for it")
		case resp.Version < 2 && req.TransactionalIDPattern != nil:
			return nil, errors.New("--pattern: the broker is too old for it")
		}
		for _, t := range resp.TransactionStates {
			found[t.TransactionalID] = kadm.ListedTransaction{Coordinator: shard.Meta.NodeID, TxnID: t.TransactionalID,
				ProducerID: t.ProducerID, State: t.TransactionState}
		}
	}
	rows := []txnRow{}
	for _, t := range found.Sorted() {
		rows = append(rows, txnRow{t.TxnID, t.State, t.ProducerID, t.Coordinator})
	}
	return rows, nil
}

// txnView is what a coordinator knows of a transactional id.
type txnView struct {
	TransactionalID string             `json:"transactionalId"`
	State           string             `json:"state"`
	ProducerID      int64              `json:"producerId"`
	ProducerEpoch   int16              `json:"producerEpoch"`
	Coordinator     int32              `json:"coordinator"`
	TimeoutMs       int32              `json:"timeoutMs"`
	Began           *time.Time         `json:"began,omitempty"` // of an open transaction
	Partitions      map[string][]int32 `json:"partitions"`
}

func newTxnDescribe(s streams) *cobra.Command {
	c := &cobra.Command{Use: "describe ID...", Short: "Show transactional ids with the partitions of their open transactions",
		Long: `Show transactional ids with the partitions of their open transactions. moldau explain txn says what one waits for.`,
		Args: args(1, -1, "a transactional id")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	c.ValidArgsFunction = f.completeTransactions
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		views, failed := ses.describeTransactions(cmd.Context(), ids)
		if output.value == "json" && views != nil {
			err = writeJSON(s.out, views)
		} else {
			err = printTransactions(s.out, views, time.Now())
		}
		return errors.Join(failed, err)
	}
	return c
}

// describeTransactions asks the coordinators of transactional ids. What cannot be described is in the error.
func (s *session) describeTransactions(parent context.Context, ids []string) ([]txnView, error) {
	if err := s.awaitCoordinators(parent, s.admin.FindTxnCoordinators, ids...); err != nil {
		return nil, err
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	found, err := s.admin.DescribeTransactions(ctx, ids...)
	if err != nil {
		return nil, s.about("describe transactions", err)
	}
	views := []txnView{}
	var failed problems
	for _, id := range ids {
		t, ok := found[id]
		switch {
		case errors.Is(t.Err, kerr.TransactionalIDNotFound) || !ok:
			failed.add("transactional id "+id, &brokerError{code: kerr.TransactionalIDNotFound, message: "nobody has used it, or it has expired"})
			continue
		case t.Err != nil:
			failed.add("transactional id "+id, s.explain(t.Err))
			continue
		}
		v := txnView{TransactionalID: id, State: t.State, ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch,
			Coordinator: t.Coordinator, TimeoutMs: t.TimeoutMillis, Partitions: partitionsOf(t.Topics)}
		if v.open() && t.StartTimestamp >= 0 {
			began := time.UnixMilli(t.StartTimestamp)
			v.Began = &began
		}
		views = append(views, v)
	}
	return views, failed.err()
}

// open says that the transaction has begun and its markers are not all written.
func (v txnView) open() bool {
	return v.State == "Ongoing" || v.deciding()
}

// deciding says that the outcome is decided and the markers are under way.
func (v txnView) deciding() bool {
	return v.State == "PrepareCommit" || v.State == "PrepareAbort" || v.State == "PrepareEpochFence"
}

func printTransactions(w io.Writer, views []txnView, now time.Time) error {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "transactional id %s, state %s, producer %d, epoch %d, timeout %s, coordinator %d\n", v.TransactionalID,
			v.State, v.ProducerID, v.ProducerEpoch, time.Duration(v.TimeoutMs)*time.Millisecond, v.Coordinator)
		if v.Began != nil {
			fmt.Fprintf(w, "began %s, %s ago", v.Began.Local().Format(time.DateTime), agoText(now.Sub(*v.Began)))
			if v.State == "Ongoing" {
				left := v.Began.Add(time.Duration(v.TimeoutMs) * time.Millisecond).Sub(now)
				fmt.Fprintf(w, ", is aborted in %s", agoText(max(left, 0)))
			}
			fmt.Fprintln(w)
		}
		if len(v.Partitions) > 0 {
			fmt.Fprintf(w, "partitions %s\n", assignmentText(v.Partitions))
		}
	}
	return nil
}

// completeTransactions offers the transactional ids of the cluster to the shell.
func (f *clientFlags) completeTransactions(c *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(-1, func(ctx context.Context, s *session) []string {
		found, _ := s.admin.ListTransactions(ctx, nil, nil)
		return found.TransactionalIDs()
	})(c, given, prefix)
}
