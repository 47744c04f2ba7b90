// A rebalance listener: what a member does when partitions come and go. Here it keeps a count per partition that it
// stores when it gives the partition up, as a program would flush buffers and close files.
//
// A member begins alone with all partitions; a second one joins, and the partitions are shared out; then the second leaves.
// Revoked means: finish and commit, the group waits. Lost means: somebody else may already have it, so only clean up.
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
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 4

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-rebalance-listener", "topic, made if missing")
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
	log := &printer{out: out}
	first, err := join(ctx, "first", log, brokers, topic)
	if err != nil {
		return err
	}
	defer first.close()
	if err := first.wait(ctx, partitions); err != nil {
		return err
	}
	second, err := join(ctx, "second", log, brokers, topic)
	if err != nil {
		return err
	}
	err = errors.Join(second.wait(ctx, partitions/2), first.wait(ctx, partitions/2))
	second.close() // leaves the group
	if err != nil {
		return err
	}
	return first.wait(ctx, partitions)
}

// member is one consumer of the group.
type member struct {
	name   string
	log    *printer
	client *kgo.Client
	done   chan struct{}

	mu      sync.Mutex
	counts  map[int32]int // records of each partition that it has now
	changed chan struct{}
}

// join starts a member. Its callbacks never run while it works on what a poll gave.
func join(ctx context.Context, name string, log *printer, brokers []string, topic string) (*member, error) {
	m := &member{name: name, log: log, done: make(chan struct{}), counts: map[int32]int{}, changed: make(chan struct{}, 1)}
	var err error
	m.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("group-of-"+topic), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), // moves only what has to move
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.assigned(got[topic]) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, c *kgo.Client, gone map[string][]int32) {
			if err := c.CommitMarkedOffsets(ctx); err != nil { // the next owner goes on from here
				m.log.print("%s: %v", m.name, err)
			}
			m.gone("gave up", gone[topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.gone("lost", gone[topic]) }),
		kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return nil, err
	}
	go m.work(ctx)
	return m, nil
}

func (m *member) work(ctx context.Context) {
	defer close(m.done)
	for {
		fetches := m.client.PollRecords(ctx, 100)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		for r := range fetches.RecordsAll() {
			m.counts[r.Partition]++
			m.client.MarkCommitRecords(r)
		}
		m.mu.Unlock()
		m.client.AllowRebalance()
	}
}

func (m *member) assigned(got []int32) {
	if len(got) == 0 {
		return
	}
	m.mu.Lock()
	for _, p := range got {
		m.counts[p] = 0 // open what the partition needs
	}
	m.mu.Unlock()
	m.tell("has", got)
}

func (m *member) gone(how string, gone []int32) {
	if len(gone) == 0 {
		return
	}
	m.mu.Lock()
	for _, p := range gone {
		delete(m.counts, p) // store and close it
	}
	m.mu.Unlock()
	m.tell(how, gone)
}

func (m *member) tell(what string, ps []int32) {
	slices.Sort(ps)
	m.log.print("%s %s %s", m.name, what, strings.Trim(fmt.Sprint(ps), "[]"))
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// wait waits until the member has n partitions.
func (m *member) wait(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		have := len(m.counts)
		m.mu.Unlock()
		if have == n {
			return nil
		}
		select {
		case <-m.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close leaves the group and waits for the work to end.
func (m *member) close() {
	m.client.CloseAllowingRebalance()
	<-m.done
}

// printer writes the lines of several members.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func create(ctx context.Context, brokers []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
