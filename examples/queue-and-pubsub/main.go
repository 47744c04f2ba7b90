// A queue and two subscribers on one topic: a group sees every record once, however many members it has; every group sees
// every record.
//
// The group "workers" is a queue: its two members share the records. The groups "audit" and "billing" subscribe: each gets
// all of them, at its own pace.
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
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 4 // as many members can work at once
	count      = 40
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-queue-and-pubsub", "topic, made if missing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, topic); err != nil &&
		!errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	groups := []*group{{name: "workers", members: 2}, {name: "audit", members: 1}, {name: "billing", members: 1}}
	var running sync.WaitGroup
	for _, g := range groups {
		if err := g.start(ctx, brokers, topic, &running); err != nil {
			return err
		}
	}
	for i := range count {
		// The key chooses the partition: records of one customer stay in order, whoever works on them.
		r := kgo.KeyStringRecord(fmt.Sprint("customer ", i%8), fmt.Sprint("order ", i))
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	running.Wait()
	for _, g := range groups {
		fmt.Fprintf(out, "%s: %d members handled %d different records\n", g.name, g.members, len(g.handled))
	}
	return nil
}

// group is a group of consumers in one program; usually they are programs of their own on different machines.
type group struct {
	name    string
	members int

	mu      sync.Mutex
	handled map[string]int // how often each record was handled
	stop    context.CancelFunc
}

func (g *group) start(ctx context.Context, brokers []string, topic string, running *sync.WaitGroup) error {
	g.handled = map[string]int{}
	ctx, g.stop = context.WithTimeout(ctx, 30*time.Second)
	for range g.members {
		client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(g.name+"-of-"+topic), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
		if err != nil {
			return err
		}
		running.Go(func() {
			defer client.CloseAllowingRebalance()
			g.work(ctx, client)
		})
	}
	return nil
}

// work handles what one member is given, until the group has handled everything.
func (g *group) work(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 10)
		for r := range fetches.RecordsAll() {
			if g.handle(string(r.Value)) == count {
				g.stop()
			}
			client.MarkCommitRecords(r)
		}
		client.AllowRebalance()
	}
}

// handle does the work on a record and gives how many different ones the group has handled. While members come and go a
// record may be handled twice, since the group is one of at least once.
func (g *group) handle(record string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handled[record]++
	return len(g.handled)
}
