package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compact writes o.mib of records of 1 KiB with 10,000 keys into one partition, lets the cleaner at them, and tells what
// CPU that took for each GB that was there, until the log is small and stays so.
func compact(o options) (map[string]any, error) {
	o.partitions, o.configs = 1, "segment.bytes=67108864,min.cleanable.dirty.ratio=0.01,delete.retention.ms=0"
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(5000))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var failure error
	for range o.mib << 10 {
		client.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "key-%05d", rnd.IntN(10_000)), Value: make([]byte, 1000)},
			func(_ *kgo.Record, err error) { failure = errors.Join(failure, err) })
	}
	if err := errors.Join(client.Flush(ctx), failure); err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	full, err := topicBytes(ctx, admin, o.topic)
	if err != nil {
		return nil, err
	}
	before := measure(o.pids)
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, o.topic)
	if err != nil {
		return nil, err
	}
	if altered[0].Err != nil {
		return nil, altered[0].Err
	}
	last, at, lastUsage := full, time.Now(), before
	for time.Since(at) < 20*time.Second || last > full/2 {
		time.Sleep(500 * time.Millisecond)
		size, err := topicBytes(ctx, admin, o.topic)
		if err != nil {
			return nil, err
		}
		if size != last {
			last, at, lastUsage = size, time.Now(), measure(o.pids)
		}
	}
	return map[string]any{"cpu_s_per_gb": round((lastUsage.cpu - before.cpu).Seconds() / (float64(full) / 1e9)),
		"mb_before": full / 1e6, "mb_after": last / 1e6}, nil
}

// topicBytes is the size of a topic's logs on the broker.
func topicBytes(ctx context.Context, admin *kadm.Client, topic string) (int64, error) {
	var set kadm.TopicsSet
	set.Add(topic, 0)
	dirs, err := admin.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	dirs.Each(func(d kadm.DescribedLogDir) { total += d.Size() })
	return total, nil
}
