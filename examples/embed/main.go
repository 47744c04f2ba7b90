// Embed: a whole node inside a Go program. Clients in the program reach it without a socket; with -listen, others reach
// it too.
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
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau"
)

func main() {
	dir := flag.String("data-dir", "moldau-data", "directory of the data, made if missing")
	listen := flag.String("listen", "", "host:port for other programs; empty: none")
	topic := flag.String("topic", "example-embed", "topic, made if missing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *dir, *listen, *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, dir, listen, topic string) (err error) {
	node, err := moldau.Start(ctx, moldau.Options{
		DataDir: dir,
		Listen:  listen,
		Config:  map[string]string{"num.partitions": "1"}, // any key of Kafka's server.properties
	})
	if err != nil {
		return err
	}
	defer func() {
		// A stopped node has marked its data clean: the next start reads no segment. The context of the program may be
		// the one that has just ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, node.Stop(ctx))
	}()

	client, err := kgo.NewClient(kgo.SeedBrokers(node.Address()), kgo.Dialer(node.Dial), kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	stored, err := client.ProduceSync(ctx, kgo.StringRecord("hello")).First()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "stored at offset %d\n", stored.Offset)
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			fmt.Fprintf(out, "offset %d: %s\n", r.Offset, r.Value)
			if r.Offset == stored.Offset {
				return nil
			}
		}
	}
}
