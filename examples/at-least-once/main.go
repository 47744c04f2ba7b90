// At least once: no record is lost, and some are handled twice after a failure. It suits work that may be repeated, such
// as setting a value or filling a cache.
//
// The producer repeats a record until it is acknowledged. The consumer moves its position on after it has handled the
// record, so a crash in between makes it handle the record again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 5

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-at-least-once", "topic, made if missing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic string) error {
	if err := produce(ctx, brokers, topic); err != nil {
		return err
	}
	position, err := consume(ctx, out, brokers, topic, 0, 2)
	if !errors.Is(err, errCrash) {
		return err
	}
	fmt.Fprintf(out, "crashed; going on at offset %d\n", position)
	_, err = consume(ctx, out, brokers, topic, position, -1)
	return err
}

func produce(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(),
		kgo.RequiredAcks(kgo.AllISRAcks()), // an answer means: stored on every in-sync replica
		kgo.DisableIdempotentWrite(),       // a repetition may store a record twice; see idempotent for how it does not
		kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range count {
		// The client repeats the record until it is acknowledged or ctx ends. An error means: not known to be stored.
		if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("order %d", i))).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

var errCrash = errors.New("crash")

// consume handles the records from an offset on and returns the position it has kept. It plays a crash at the record
// crashAt. A real program keeps its position in a file or a database; see offsets-outside.
func consume(ctx context.Context, out io.Writer, brokers []string, topic string, from, crashAt int64) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().At(from)},
	}))
	if err != nil {
		return from, err
	}
	defer client.Close()
	position := from
	for position < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return position, err
		}
		for r := range fetches.RecordsAll() {
			fmt.Fprintf(out, "handled %s\n", r.Value) // first the work ...
			if r.Offset == crashAt {
				return position, errCrash
			}
			position = r.Offset + 1 // ... then the position
		}
	}
	return position, nil
}
