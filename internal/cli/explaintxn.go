package cli

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/node"
)

func newExplainTxn(s streams) *cobra.Command {
	c := &cobra.Command{Use: "txn ID", Short: "Say what a transaction is at, what it waits for and what it holds back",
		Long: `Say what the transaction of a transactional id is at, what it waits for, when its coordinator aborts it, and what it
holds back on each of its partitions; or how the last one ended. The coordinator is asked at its node's admin listener
(moldau.admin.listener), since Kafka's protocol does not tell.`,
		Example: `  moldau explain txn etl-7
  moldau explain txn etl-7 --admin 10.0.0.7:9644 -o json`,
		Args: args(1, 1, "a transactional id")}
	return explains(c, s, func(id string) (question, error) {
		return question{path: "/transactions/" + url.PathEscape(id), what: "transactional id " + id,
			elsewhere: "moldau txn describe names its coordinator"}, nil
	}, printTransaction)
}

// endings are how the last transaction of an id ended, by the words of node.TransactionExplanation.
var endings = map[string]string{
	"producer": "the last one was ended by its producer",
	"timeout":  "the last one was aborted because its timeout had passed, which fenced its producer",
	"fenced":   "the last one was aborted because a new producer took the id over",
}

func printTransaction(w io.Writer, e node.TransactionExplanation) error {
	fmt.Fprintf(w, "transactional id %s, state %s, producer %d, epoch %d, timeout %s\n", e.TransactionalID, e.State, e.ProducerID,
		e.ProducerEpoch, time.Duration(e.TimeoutMs)*time.Millisecond)
	if e.Began != nil {
		fmt.Fprintf(w, "began %s, %s ago\n", e.Began.Local().Format(time.DateTime), agoText(e.Now.Sub(*e.Began)))
	}
	fmt.Fprintf(w, "waits for %s\n", e.Waits)
	if e.Parked > 0 {
		fmt.Fprintf(w, "%s waiting for its end\n", count(e.Parked, "request"))
	}
	if e.Began == nil {
		if text := endings[e.Ended]; text != "" {
			fmt.Fprintf(w, "%s, %s ago\n", text, agoText(e.Now.Sub(e.Updated)))
		}
		return nil
	}
	if e.AbortsAt != nil {
		fmt.Fprintf(w, "its coordinator aborts it at %s, in %s; moldau txn abort %s --execute does at once\n",
			e.AbortsAt.Local().Format(time.DateTime), agoText(max(e.AbortsAt.Sub(e.Now), 0)), e.TransactionalID)
	}
	fmt.Fprintln(w)
	t := newTable("TOPIC", "PARTITION", "START OFFSET", "HOLDS BACK", "WAITS FOR")
	for _, p := range e.Partitions {
		start, back := "", ""
		if p.StartOffset >= 0 {
			start = strconv.FormatInt(p.StartOffset, 10)
		}
		switch {
		case p.Pins:
			back = count(int(p.Behind), "record")
		case p.StartOffset >= 0:
			back = "an earlier one does"
		}
		t.add(p.Topic, p.Partition, start, back, p.Waits)
	}
	return t.print(w)
}

func newExplainPartition(s streams) *cobra.Command {
	c := &cobra.Command{Use: "partition TOPIC-PARTITION", Short: "Say how far a partition can be read, and who holds readers back",
		Long: `Say how far a partition can be read and what readers wait for: which replicas are in sync, who is not, since when and
why; which transaction holds back consumers that read committed records only, since when, and how to free them. The leader is asked at its node's admin listener
(moldau.admin.listener), since Kafka's protocol does not tell.`,
		Example: `  moldau explain partition orders-3
  moldau explain partition orders-3 --admin 10.0.0.7:9644 -o json`,
		Args: args(1, 1, "a topic and a partition, such as orders-3")}
	return explains(c, s, func(name string) (question, error) {
		topic, partition, err := parsePartition(name)
		return question{path: fmt.Sprintf("/partitions/%s/%d", url.PathEscape(topic), partition),
			what: fmt.Sprintf("partition %s-%d", topic, partition), elsewhere: "moldau topic describe names the leaders"}, err
	}, printPartition)
}

// parsePartition reads orders-3; orders:3 is understood too.
func parsePartition(text string) (topic string, partition int32, err error) {
	at := strings.LastIndexAny(text, "-:")
	if at > 0 {
		if n, err := strconv.ParseInt(text[at+1:], 10, 32); err == nil && n >= 0 {
			return text[:at], int32(n), nil
		}
	}
	return "", 0, fmt.Errorf("%q is no partition: write the topic, a hyphen and its number, such as orders-3", text)
}

func printPartition(w io.Writer, e node.PartitionExplanation) error {
	fmt.Fprintf(w, "partition %s-%d, leader %d, leader epoch %d, replicas %s, in sync %s\n", e.Topic, e.Partition, e.Leader,
		e.LeaderEpoch, joinInts(e.Replicas), joinInts(e.ISR))
	fmt.Fprintf(w, "offsets %d up to %d, consumers read up to %d, read_committed ones up to %d\n", e.Start, e.End, e.HighWatermark,
		e.LastStable)
	fmt.Fprintln(w, e.Waits)
	if err := printFollowers(w, e); err != nil || len(e.Transactions) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t := newTable("PRODUCER", "EPOCH", "START OFFSET", "SINCE", "AGO", "TRANSACTIONAL ID", "STATE", "WAITS FOR")
	for _, x := range e.Transactions {
		since, ago := "", ""
		if x.Since != nil {
			since, ago = x.Since.Local().Format(time.DateTime), agoText(e.Now.Sub(*x.Since))
		}
		t.add(x.ProducerID, x.ProducerEpoch, x.StartOffset, since, ago, x.TransactionalID, x.State, x.Waits)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, x := range e.Transactions {
		if cure := cureOfTransaction(e, x); cure != "" {
			fmt.Fprintln(w, cure)
		}
	}
	return nil
}

// printFollowers shows how far the followers are, and why they are in sync or not.
func printFollowers(w io.Writer, e node.PartitionExplanation) error {
	if len(e.Followers) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable("FOLLOWER", "IN SYNC", "BEHIND", "FETCHED", "HAD ALL", "WHY")
	ago := func(at *time.Time) string {
		if at == nil {
			return ""
		}
		return agoText(max(0, e.Now.Sub(*at))) + " ago"
	}
	for _, f := range e.Followers {
		inSync, behind := "no", ""
		if f.InSync {
			inSync = "yes"
		}
		if f.Lag != nil {
			behind = strconv.FormatInt(*f.Lag, 10)
		}
		t.add(f.Broker, inSync, behind, ago(f.LastFetch), ago(f.CaughtUp), f.Why)
	}
	return t.print(w)
}

// cureOfTransaction says how to end a transaction that is open on a partition.
func cureOfTransaction(e node.PartitionExplanation, x node.OpenTransaction) string {
	switch {
	case x.Hangs:
		return fmt.Sprintf("end it with: moldau txn abort --topic %s:%d --start-offset %d --execute", e.Topic, e.Partition, x.StartOffset)
	case x.AbortsAt != nil:
		return fmt.Sprintf("the coordinator aborts that of %s at %s, in %s; at once: moldau txn abort %s --execute",
			x.TransactionalID, x.AbortsAt.Local().Format(time.DateTime), agoText(max(x.AbortsAt.Sub(e.Now), 0)), x.TransactionalID)
	case x.State == "":
		return fmt.Sprintf("see who has it with: moldau txn list --producer %d, and whether it hangs with: moldau txn find-hanging "+
			"--topic %s:%d", x.ProducerID, e.Topic, e.Partition)
	}
	return ""
}
