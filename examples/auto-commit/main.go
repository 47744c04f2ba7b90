// Auto commit: the client commits the group's position by itself while the program handles records. It is the least work,
// and at least once: a record counts as handled when the next poll begins, so after a crash the records of the last poll
// come again.
//
// Two runs of the same group show it: the second begins where the first has stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	count  = 6
	atOnce = 3 // records of a poll
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-auto-commit", "topic, made if missing")
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
	for _, name := range []string{"first run", "second run"} {
		if err := consume(ctx, out, brokers, topic, name); err != nil {
			return err
		}
	}
	return nil
}

func produce(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range count {
		if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("order %d", i))).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// consume handles the records of one poll as a member of a group named after the topic.
func consume(ctx context.Context, out io.Writer, brokers []string, topic, name string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("group-of-"+topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // where a group begins that has committed nothing
		kgo.AutoCommitInterval(time.Second))               // what a crash repeats is at most this old
	if err != nil {
		return err
	}
	defer client.Close()
	handled := 0
	for handled < atOnce {
		fetches := client.PollRecords(ctx, atOnce-handled)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			fmt.Fprintf(out, "%s: %s\n", name, r.Value)
			handled++
		}
	}
	// The records of the last poll are handled too: say so before leaving, or the next member gets them again.
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	return client.LeaveGroupContext(ctx)
}
