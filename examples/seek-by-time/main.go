// Seek by time: read what was written since a moment, without knowing an offset.
//
// The broker finds the first record whose timestamp is at or after the moment; its time index makes that cheap. Records
// from there on come in the order they were written, so some may be older than the moment if producers' clocks differ.
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

const hours = 6

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-seek-by-time", "topic, made if missing")
	since := flag.Duration("since", 150*time.Minute, "how far to go back")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic, *since); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic string, since time.Duration) error {
	now := time.Now()
	if err := produce(ctx, brokers, topic, now); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(now.Add(-since).UnixMilli())))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			fmt.Fprintf(out, "offset %d: %s\n", r.Offset, r.Value)
			if r.Timestamp.UnixMilli() == now.UnixMilli() { // the newest of this run
				return nil
			}
		}
	}
}

// produce writes one record for each of the last hours. A record without a Timestamp gets the time of its production.
func produce(ctx context.Context, brokers []string, topic string, now time.Time) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for ago := hours - 1; ago >= 0; ago-- {
		records = append(records, &kgo.Record{
			Timestamp: now.Add(-time.Duration(ago) * time.Hour),
			Value:     fmt.Appendf(nil, "written %d hours ago", ago),
		})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
