// Partitioning: who chooses the partition of a record. Order is kept within a partition only, so what must stay in order
// belongs into the same one.
//
//   - keyed: by a hash of the key, the same in every Kafka client (murmur2). The usual choice.
//   - explicit: the program names the partition.
//   - custom: a rule of one's own.
package main

import (
	"bytes"
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

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-partitioning", "topic, made with 4 partitions if missing")
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
	key := func(key string) *kgo.Record { return kgo.KeyStringRecord(key, "v") }
	for _, way := range []struct {
		name        string
		partitioner kgo.Partitioner
		records     []*kgo.Record
	}{
		{"keyed", kgo.StickyKeyPartitioner(nil), []*kgo.Record{key("alice"), key("bob"), key("alice")}},
		{"explicit", kgo.ManualPartitioner(), []*kgo.Record{{Partition: 3, Value: []byte("v")}, {Partition: 1, Value: []byte("v")}}},
		{"custom", kgo.BasicConsistentPartitioner(urgentFirst), []*kgo.Record{key("urgent/1"), key("urgent/2"), key("other")}},
	} {
		if err := produce(ctx, out, brokers, topic, way.name, way.partitioner, way.records); err != nil {
			return err
		}
	}
	return nil
}

// urgentFirst keeps partition 0 for urgent records, so that a consumer of its own can take them without waiting behind
// others. The same record must always give the same partition: a retry asks again.
func urgentFirst(topic string) func(*kgo.Record, int) int {
	return func(r *kgo.Record, partitions int) int {
		if bytes.HasPrefix(r.Key, []byte("urgent/")) || partitions == 1 {
			return 0
		}
		return 1 + len(r.Key)%(partitions-1)
	}
}

func produce(ctx context.Context, out io.Writer, brokers []string, topic, way string, p kgo.Partitioner, rs []*kgo.Record) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(p))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, r := range rs {
		stored, err := client.ProduceSync(ctx, r).First()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: key %q went to partition %d\n", way, stored.Key, stored.Partition)
	}
	return nil
}

func create(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	// -1: as many replicas as the cluster's default says.
	if _, err = kadm.NewClient(client).CreateTopic(ctx, 4, -1, nil, topic); errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
