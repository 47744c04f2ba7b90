// Package durable kills the broker with SIGKILL while producers write and checks that after each restart everything
// that was acknowledged is there, in order, once.
package durable

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
)

const (
	topic      = "durable"
	partitions = 4
)

// TestKill kills several times; producers are idempotent and carry on over the restarts, so no record may be lost and
// none may come twice.
func TestKill(t *testing.T) {
	kills := 5
	if testing.Short() {
		kills = 2
	}
	n := broker.Start(t, "log.segment.bytes=1048576")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	create(t, ctx, n.Addr)

	var wg sync.WaitGroup
	var stop atomic.Bool
	var acked atomic.Int64
	next := make([]int, partitions)
	for p := range int32(partitions) {
		wg.Go(func() { next[p] = produce(t, ctx, n.Addr, p, &stop, &acked) })
	}
	for range kills {
		// Kill once something new was acknowledged, at no particular moment.
		seen := acked.Load()
		for acked.Load() < seen+200 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		n.Kill()
		n.Start(t)
	}
	stop.Store(true)
	wg.Wait()
	if t.Failed() {
		t.Fatal(n.Tail())
	}
	n.Kill()
	n.Start(t)
	verify(t, ctx, n.Addr, next)
	t.Logf("%d records acknowledged over %d kills", acked.Load(), kills+1)
}

func create(t *testing.T, ctx context.Context, addr string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// produce writes 0, 1, 2... to one partition until stop and returns how many were acknowledged.
func produce(t *testing.T, ctx context.Context, addr string, p int32, stop *atomic.Bool, acked *atomic.Int64) int {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(500), kgo.ProducerBatchMaxBytes(4000), kgo.RetryBackoffFn(func(int) time.Duration {
			return 50 * time.Millisecond
		}))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer cl.Close()
	n := 0
	for ; !stop.Load() && ctx.Err() == nil; n++ {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%0100d", n)},
			func(_ *kgo.Record, err error) {
				if err != nil && !t.Failed() {
					t.Errorf("produce: %v", err)
				}
				acked.Add(1)
			})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Errorf("flush: %v", err)
	}
	return n
}

func verify(t *testing.T, ctx context.Context, addr string, want []int) {
	at, left := map[int32]kgo.Offset{}, 0
	for p, n := range want {
		at[int32(p)] = kgo.NewOffset().AtStart()
		left += n
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	next := make([]int, len(want))
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			t.Fatalf("%d records missing: %v (read %v, acknowledged %v)", left, errs, next, want)
		}
		for _, r := range fs.Records() {
			if string(r.Value) != fmt.Sprintf("%0100d", next[r.Partition]) {
				t.Fatalf("partition %d: found %s at place %d", r.Partition, r.Value, next[r.Partition])
			}
			next[r.Partition]++
			left--
		}
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != int64(want[o.Partition]) {
			t.Errorf("partition %d ends at %d, %d records were acknowledged", o.Partition, o.Offset, want[o.Partition])
		}
	})
}
