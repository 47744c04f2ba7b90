// Consume, transform, produce, with the guarantee of your choice. A program reads a topic, works on each record and writes
// to another topic; when it is killed and started anew it goes on where its group has committed.
//
//   - at-most-once commits its position before it writes: what it had not written by then is missing.
//   - at-least-once writes before it commits its position: what it had not committed by then is written again.
//   - exactly-once puts both into one transaction: either both have happened or none. Readers of the output ask for
//     committed records only, or they would see what was aborted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// config is what the flags say.
type config struct {
	brokers         []string
	in, out, group  string
	guarantee       string
	work            time.Duration
	transactionalID string
}

// batch is how many records are worked on between two commits.
const batch = 10

func main() {
	var c config
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	flag.StringVar(&c.in, "in", "example-in", "topic to read")
	flag.StringVar(&c.out, "out", "example-out", "topic to write")
	flag.StringVar(&c.group, "group", "example-transform", "consumer group, also the transactional id")
	flag.StringVar(&c.guarantee, "guarantee", "exactly-once", "exactly-once, at-least-once or at-most-once")
	flag.DurationVar(&c.work, "work", 0, "how long the work on a record takes")
	flag.Parse()
	c.brokers, c.transactionalID = strings.Split(*brokers, ","), c.group
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, c); err != nil {
		log.Fatal(err)
	}
}

// run works until the input that was there at the beginning is through.
func run(ctx context.Context, out io.Writer, c config) error {
	opts := []kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.DefaultProduceTopic(c.out), kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.in), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A static member that is started anew takes its old place at once, instead of waiting until the one that was
		// killed is missed.
		kgo.InstanceID("the-only-one"),
		kgo.DisableAutoCommit(),
		// Read what was committed only. The markers that end the transactions of the input are kept, because positions
		// move over them.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		// Never begin at a position that a transaction is about to change.
		kgo.RequireStableFetchOffsets()}
	var client *kgo.Client
	var step func(context.Context, []*kgo.Record) error
	w := &worker{config: c, printed: out}
	if c.guarantee == "exactly-once" {
		// The transactional id must stay the same from one run to the next: with it the new producer ends the transaction
		// of the one that was killed, and fences that one if it is still alive.
		session, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(c.transactionalID))...)
		if err != nil {
			return err
		}
		defer session.Close()
		client = session.Client()
		step = func(ctx context.Context, records []*kgo.Record) error { return w.exactlyOnce(ctx, session, records) }
	} else {
		var err error
		if client, err = kgo.NewClient(opts...); err != nil {
			return err
		}
		defer client.Close()
		step = func(ctx context.Context, records []*kgo.Record) error { return w.atLeastOnce(ctx, client, records) }
		if c.guarantee == "at-most-once" {
			step = func(ctx context.Context, records []*kgo.Record) error { return w.atMostOnce(ctx, client, records) }
		}
	}
	for {
		through, err := w.through(ctx, client)
		if err != nil || through {
			return err
		}
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollRecords(poll, batch)
		cancel()
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if records := fetches.Records(); len(records) > 0 {
			if err := step(ctx, records); err != nil {
				return err
			}
		}
	}
}

// worker does the work.
type worker struct {
	config
	printed io.Writer
}

// transformed works on records, one after the other, and gives what is to be written.
func (w *worker) transformed(records []*kgo.Record) iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for _, r := range records {
			if r.Attrs.IsControl() {
				continue
			}
			time.Sleep(w.work)
			fmt.Fprintf(w.printed, "worked on %s\n", r.Value)
			if !yield(&kgo.Record{Topic: w.out, Key: r.Key, Value: append([]byte("done "), r.Value...)}) {
				return
			}
		}
	}
}

// exactlyOnce writes and commits in one transaction.
func (w *worker) exactlyOnce(ctx context.Context, session *kgo.GroupTransactSession, records []*kgo.Record) error {
	if err := session.Begin(); err != nil {
		return err
	}
	var failed error
	for r := range w.transformed(records) {
		session.Produce(ctx, r, func(_ *kgo.Record, err error) { // called before End returns
			if err != nil {
				failed = err
			}
		})
	}
	// The session adds the positions of the group to the transaction. It aborts instead of committing when a record could
	// not be written or the group has given the partitions to another member; the records are then polled again.
	_, err := session.End(ctx, kgo.TryCommit)
	return errors.Join(err, failed)
}

// atLeastOnce writes, then commits.
func (w *worker) atLeastOnce(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	for r := range w.transformed(records) {
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return client.CommitRecords(ctx, records...)
}

// atMostOnce commits, then writes.
func (w *worker) atMostOnce(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	if err := client.CommitRecords(ctx, records...); err != nil {
		return err
	}
	for r := range w.transformed(records) {
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// through says whether the group has committed all of the input.
func (w *worker) through(ctx context.Context, client *kgo.Client) (bool, error) {
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, w.in)
	if err != nil {
		return false, err
	}
	committed, err := admin.FetchOffsets(ctx, w.group)
	if err != nil {
		return false, nil // the group does not exist yet, or its coordinator is still loading
	}
	through := true
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(end.Topic, end.Partition)
		through = through && (end.Offset == 0 || ok && at.At >= end.Offset)
	})
	return through, nil
}
