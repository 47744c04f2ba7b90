// At most once: a record is handled once or not at all, never twice. It suits work where a repetition does more harm
// than a gap, such as readings of a sensor or messages to a pager.
//
// The producer waits for no acknowledgement and never repeats a record. The consumer moves its position on before it
// handles the record, so a crash in between leaves the record out.
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 5

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-at-most-once", "topic, made with 1 partition if missing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic string) error {
	if err := create(ctx, brokers, topic); err != nil {
		return err
	}
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
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.NoAck()), // the broker sends no answer, so nothing is known to have failed ...
		kgo.DisableIdempotentWrite(),  // (which asks for acknowledgements)
		kgo.RecordRetries(0),          // ... and nothing is sent a second time
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range count {
		client.Produce(ctx, kgo.StringRecord(fmt.Sprintf("reading %d", i)), func(r *kgo.Record, err error) {
			if err != nil { // it never left this program; what is lost later is not told
				log.Printf("%s: %v", r.Value, err)
			}
		})
	}
	return client.Flush(ctx)
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
			position = r.Offset + 1 // first the position ...
			if r.Offset == crashAt {
				return position, errCrash
			}
			fmt.Fprintf(out, "handled %s\n", r.Value) // ... then the work
		}
	}
	return position, nil
}

// create makes the topic beforehand: a producer that tries only once does not wait until it appears.
func create(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	// -1: as many replicas as the cluster's default says.
	if _, err = kadm.NewClient(client).CreateTopic(ctx, 1, -1, nil, topic); errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
