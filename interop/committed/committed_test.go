package committed_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/committed"
)

// TestLatePartitions: a reader that was there before topics and partitions reads them all.
func TestLatePartitions(t *testing.T) {
	n := broker.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o := committed.Watch(t, n.Addr, func(*kgo.Record) error { return nil }, "late")
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	time.Sleep(500 * time.Millisecond)
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "late"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "late"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for o.Count() == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := kadm.NewClient(cl).CreatePartitions(ctx, 1, "late"); err != nil {
		t.Fatal(err)
	}
	cl.ForceMetadataRefresh()
	for {
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: "late", Partition: 1}).FirstErr()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for o.Count() < 2 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	o.Finish(ctx, t)
	if o.Count() != 2 {
		t.Errorf("read %v, want 2", o)
	}
	n.Stop(t)
}
