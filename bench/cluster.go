package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lane is a connection to a leader, and the partitions that it takes care of.
type lane struct {
	address    string
	partitions []int32
}

// lanesTo divides the topic's partitions among connections, at least one to every leader.
func lanesTo(o options) ([]lane, error) {
	var led map[string][]int32
	err := asked(o, func(ctx context.Context, admin *kadm.Client) error {
		m, err := admin.Metadata(ctx, o.topic)
		if err != nil {
			return err
		}
		address := map[int32]string{}
		for _, b := range m.Brokers {
			address[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
		led = map[string][]int32{}
		for _, p := range m.Topics[o.topic].Partitions.Sorted() {
			led[address[p.Leader]] = append(led[address[p.Leader]], p.Partition)
		}
		return nil
	})
	var lanes []lane
	for address, partitions := range led {
		share := min(max(1, o.connections/len(led)), len(partitions))
		for n := range share {
			l := lane{address: address}
			for i := n; i < len(partitions); i += share {
				l.partitions = append(l.partitions, partitions[i])
			}
			lanes = append(lanes, l)
		}
	}
	return lanes, err
}

// asked runs a question with an admin client of its own.
func asked(o options, ask func(context.Context, *kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	return ask(ctx, kadm.NewClient(client))
}

// untilJoined waits until there are brokers enough for the replicas.
func untilJoined(ctx context.Context, admin *kadm.Client, o options) error {
	for {
		brokers, err := admin.ListBrokers(ctx)
		if err != nil || len(brokers) >= o.replicas {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// untilInSync waits until every replica of the topic's partitions is in sync, and led.
func untilInSync(ctx context.Context, admin *kadm.Client, o options) error {
	for {
		m, err := admin.Metadata(ctx, o.topic)
		if err != nil {
			return err
		}
		partitions, whole := m.Topics[o.topic].Partitions, 0
		for _, p := range partitions {
			if p.Err == nil && p.Leader >= 0 && len(p.ISR) == o.replicas {
				whole++
			}
		}
		if whole == o.partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d partitions in sync: %w", whole, o.partitions, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inSync tells how long it takes from now until all of the topic is in sync: started with a node, it measures its return.
func inSync(o options) (map[string]any, error) {
	start := time.Now()
	err := asked(o, func(ctx context.Context, admin *kadm.Client) error { return untilInSync(ctx, admin, o) })
	return map[string]any{"in_sync_s": round(time.Since(start).Seconds()), "rss_mib": round(residentMiB(o.pids))}, err
}

// openLoop sends records at a fixed rate, whatever the answers, and measures each from the moment it was due.
func openLoop(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	value := make([]byte, 1024)
	const warm = 1000
	for range warm {
		if err := client.ProduceSync(context.Background(), &kgo.Record{Value: value}).FirstErr(); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	before, interval := measure(o.pids), time.Second/time.Duration(o.rate)
	due := time.Now()
	for range o.rate * o.seconds {
		due = due.Add(interval)
		time.Sleep(time.Until(due))
		at := due
		client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(at))
			if err != nil {
				failed = err
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return nil, err
	}
	out := report(before, o, int64(len(took))*1024, len(took))
	quantiles(out, took)
	return out, failed
}

// quantiles adds p50_ms, p99_ms and p999_ms.
func quantiles(out map[string]any, took []time.Duration) {
	slices.Sort(took)
	for name, q := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999} {
		out[name] = round(took[int(q*float64(len(took)-1))].Seconds() * 1000)
	}
}

// failover sends a signal to a partition's leader and gives the longest time without an acknowledgement. A process that
// was stopped goes on afterwards. The client gives a request up after half a second: with its usual 20 s it would measure
// itself where a process hangs.
func failover(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(time.Minute), kgo.RecordDeliveryTimeout(time.Minute),
		kgo.ProduceRequestTimeout(250*time.Millisecond), kgo.RequestTimeoutOverhead(250*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	partition, leader, err := victim(client, o)
	if err != nil {
		return nil, err
	}
	if int(leader) > len(o.pids) {
		return nil, fmt.Errorf("no process id for node %d", leader)
	}
	pid := o.pids[leader-1]
	ctx, value := context.Background(), make([]byte, 1024)
	send := func() error {
		return client.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: value}).FirstErr()
	}
	for range 300 {
		if err := send(); err != nil {
			return nil, err
		}
	}
	if err := syscall.Kill(pid, syscall.Signal(o.signal)); err != nil {
		return nil, err
	}
	if syscall.Signal(o.signal) == syscall.SIGSTOP {
		defer syscall.Kill(pid, syscall.SIGCONT)
	}
	var worst time.Duration
	begun, last := time.Now(), time.Now()
	for time.Since(begun) < time.Duration(o.seconds)*time.Second {
		if err := send(); err != nil {
			return nil, err
		}
		worst, last = max(worst, time.Since(last)), time.Now()
		time.Sleep(time.Millisecond)
	}
	return map[string]any{"gap_ms": worst.Milliseconds(), "leader": leader}, nil
}

// victim finds a partition whose leader is, or is not, the active controller.
func victim(client *kgo.Client, o options) (partition, leader int32, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := kmsg.NewPtrDescribeQuorumRequest()
	t, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	quorum, err := r.RequestWith(ctx, client)
	if err != nil {
		return 0, 0, err
	}
	if len(quorum.Topics) != 1 || len(quorum.Topics[0].Partitions) != 1 {
		return 0, 0, fmt.Errorf("no quorum: error %d", quorum.ErrorCode)
	}
	active := quorum.Topics[0].Partitions[0].LeaderID
	m, err := kadm.NewClient(client).Metadata(ctx, o.topic)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range m.Topics[o.topic].Partitions.Sorted() {
		if (p.Leader == active) == (o.victim == "controller") {
			return p.Partition, p.Leader, nil
		}
	}
	return 0, 0, fmt.Errorf("no partition's leader is such a node; the active controller is %d", active)
}
