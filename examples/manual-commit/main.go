// Manual commits, one partition at a time: the program says what is handled, and when. Waiting for a commit costs a round
// trip to the coordinator and its disk; committing without waiting costs nothing, and a later commit makes up for one that
// was lost. So this program commits without waiting after each batch and waits once, at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions   = 3
	perPartition = 4
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-manual-commit", "topic, made if missing")
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
	group := "group-of-" + topic
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll()) // no partition goes away between a poll and the commit of what it gave
	if err != nil {
		return err
	}
	defer client.Close()
	handled, err := consume(ctx, client)
	if err != nil {
		return err
	}
	committed, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(handled)) {
		fmt.Fprintf(out, "partition %d: handled %d records, committed offset %d\n", p, handled[p], committed[topic][p].At)
	}
	return nil
}

// consume handles every record and counts them by partition.
func consume(ctx context.Context, client *kgo.Client) (map[int32]int, error) {
	handled, left := map[int32]int{}, partitions*perPartition
	topic := client.GetConsumeTopics()[0]
	var last sync.Map // partition to the position that is still to be committed for sure
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			handled[p.Partition] += len(p.Records) // the work
			left -= len(p.Records)
			next := positionAfter(p.Records[len(p.Records)-1])
			last.Store(p.Partition, next)
			// Without waiting. Only this partition: the others may be in the middle of their work.
			client.CommitOffsets(ctx, at(p.Topic, p.Partition, next), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
				if err == nil && commitError(r) == nil {
					last.CompareAndDelete(p.Partition, next)
				}
			})
		})
		client.AllowRebalance()
	}
	var failed error
	last.Range(func(p, next any) bool { // with waiting: what is not known to be committed
		client.CommitOffsetsSync(ctx, at(topic, p.(int32), next.(kgo.EpochOffset)),
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
				failed = errors.Join(failed, err, commitError(r))
			})
		return true
	})
	return handled, failed
}

// positionAfter is what to commit once a record is handled: the offset of the next one.
func positionAfter(r *kgo.Record) kgo.EpochOffset {
	return kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
}

func at(topic string, partition int32, next kgo.EpochOffset) map[string]map[int32]kgo.EpochOffset {
	return map[string]map[int32]kgo.EpochOffset{topic: {partition: next}}
}

// commitError finds the error of a commit, which stands beside each partition.
func commitError(r *kmsg.OffsetCommitResponse) error {
	if r == nil {
		return nil
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

func produce(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, topic); err != nil &&
		!errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	var records []*kgo.Record
	for i := range int32(partitions * perPartition) {
		records = append(records, &kgo.Record{Topic: topic, Partition: i % partitions, Value: fmt.Append(nil, "order ", i)})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
