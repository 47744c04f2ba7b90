// Idempotent producer: every record is stored exactly once and in order, although connections break and the client
// sends again what it got no answer for.
//
// The broker gives the producer an id, and the producer numbers its batches per partition. A number that was seen before
// is acknowledged again and not stored again. This program cuts its own connections to show it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 40

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-idempotent", "topic, made if missing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic string) error {
	cuts, err := produce(ctx, brokers, topic)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sent %d records, lost the answer %d times\n", count, cuts)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for next := 0; next < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			if want := fmt.Sprint("event ", next); string(r.Value) != want {
				return fmt.Errorf("offset %d has %q instead of %q", r.Offset, r.Value, want)
			}
			next++
		}
	}
	fmt.Fprintln(out, "stored each once, in order")
	return nil
}

// produce sends the records over connections that keep breaking, and says how often an answer was lost.
func produce(ctx context.Context, brokers []string, topic string) (int64, error) {
	var cuts atomic.Int64
	// Idempotence and acks from all in-sync replicas are franz-go's defaults: nothing is to be set.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic),
		kgo.MetadataMinAge(50*time.Millisecond), // how soon it looks for the leader again after a failure; 5 s by default
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &flaky{Conn: conn, cuts: &cuts}, nil
		}))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for i := range count {
		// One at a time, so that many answers can be lost; a real producer passes a callback to Produce instead.
		if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("event ", i))).FirstErr(); err != nil {
			return 0, err
		}
	}
	return cuts.Load(), nil
}

// flaky is a connection that breaks after some writes: the request has gone, the answer does not come.
type flaky struct {
	net.Conn
	writes int
	cuts   *atomic.Int64
}

func (f *flaky) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	f.writes++
	return n, err
}

func (f *flaky) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.writes == 10 { // the answer has arrived, and is thrown away
		f.cuts.Add(1)
		f.Conn.Close()
		return 0, errors.New("cut")
	}
	return n, err
}
