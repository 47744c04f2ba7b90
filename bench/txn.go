package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactions commits transactions of ten records, one after the other for each transactional id; connections is the
// number of ids, count the transactions of each.
func transactions(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	var warm sync.WaitGroup
	warm.Add(o.connections)
	var once sync.Once
	var before usage
	var mu sync.Mutex
	var took []time.Duration
	err := each(o.connections, func(n int) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic),
			kgo.TransactionalID(fmt.Sprintf("bench-%d", n)), kgo.ProducerLinger(0))
		if err == nil {
			defer client.Close()
			for range 20 {
				if err = transaction(client); err != nil {
					break
				}
			}
		}
		warm.Done()
		if err != nil {
			return err
		}
		warm.Wait()
		once.Do(func() { before = measure(o.pids) })
		for range o.count {
			begun := time.Now()
			if err := transaction(client); err != nil {
				return err
			}
			mu.Lock()
			took = append(took, time.Since(begun))
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	after := measure(o.pids)
	slices.Sort(took)
	ms := func(q float64) float64 {
		return round(float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000)
	}
	return map[string]any{"txn_s": round(float64(len(took)) / after.at.Sub(before.at).Seconds()), "ids": o.connections,
		"p50_ms": ms(0.5), "p99_ms": ms(0.99), "cpu_us_per_request": round((after.cpu - before.cpu).Seconds() * 1e6 / float64(len(took)))}, nil
}

func transaction(client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, 10)
	for i := range records {
		records[i] = &kgo.Record{Value: make([]byte, 100)}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}
