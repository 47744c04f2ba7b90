package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stampBytes is the room that the time of a record takes in its value.
const stampBytes = 8

// settle is how long the consumer may wait for the last records.
const settle = 5 * time.Second

func newBenchLatency(s streams) *cobra.Command {
	f := &benchFlags{recordSize: 100, duration: 10 * time.Second}
	c := &cobra.Command{
		Use:   "latency",
		Short: "Measure acknowledgement and end-to-end latency at a fixed rate",
		Long: `Measure acknowledgement and end-to-end latency at a fixed rate. Records are due at fixed times and their latency counts
from then, whether or not earlier ones were answered: a broker that stalls does not hide that by slowing the load.`,
		Example: `  moldau bench latency --rate 1000 --duration 30s
  moldau bench latency --rate 100 --acks 1 -b kafka:9092`,
	}
	c.Flags().Float64Var(&f.rate, "rate", 100, "records a second")
	return benchCommand(s, c, f, func(ctx context.Context, b *bench) error {
		if b.flags.rate <= 0 || b.flags.recordSize < stampBytes {
			return fmt.Errorf("--rate must be above 0 and --record-size at least %d", stampBytes)
		}
		r, err := b.latency(ctx)
		if err != nil {
			return err
		}
		r.Bench, r.what = "latency", "ack"
		return r.print(b)
	})
}

// receiver reads the topic and measures from the time in each value.
type receiver struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram
	n     int64
}

func (r *receiver) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// run reads until ctx ends. begun is what the stamps count from.
func (r *receiver) run(ctx context.Context, c *session, begun time.Time) {
	for ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		at := time.Since(begun)
		r.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) {
			if len(rec.Value) >= stampBytes {
				took := at - time.Duration(binary.BigEndian.Uint64(rec.Value))
				_ = r.times.RecordValue(min(max(took, time.Microsecond), longestLatency).Microseconds())
				r.n++
			}
		})
		r.mu.Unlock()
	}
}

// latency sends at the rate and reads what it sent.
func (b *bench) latency(ctx context.Context) (benchResult, error) {
	p, err := b.producer(ctx)
	if err != nil {
		return benchResult{}, err
	}
	defer p.Close()
	c, err := b.reader(ctx)
	if err != nil {
		return benchResult{}, err
	}
	defer c.Close()
	if err := p.ProduceSync(ctx, &kgo.Record{Value: []byte{}}).FirstErr(); err != nil { // connections are made before the clock runs
		return benchResult{}, p.explain(err)
	}
	pace := newPace(b.flags.rate)
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReading()
	recv := &receiver{times: newHistogram()}
	var reader sync.WaitGroup
	reader.Go(func() { recv.run(reading, c, pace.begun) })
	limit, cancel := b.flags.limit(ctx)
	defer cancel()
	var first firstError
	m := startMeter(b.err, "sent")
	var n int64
	for ; (b.flags.count == 0 || n < b.flags.count) && pace.wait(limit, n) && first.count() == 0; n++ {
		due := pace.due(n)
		value := append([]byte(nil), b.value(n)...)
		binary.BigEndian.PutUint64(value, uint64(due.Sub(pace.begun)))
		p.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				first.add(err)
				return
			}
			m.add(1, int64(len(value)), time.Since(due))
		})
	}
	flushErr := p.Flush(context.WithoutCancel(ctx))
	r := m.finish()
	for end := time.Now().Add(settle); recv.count() < n-int64(first.count()) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	stopReading()
	reader.Wait()
	if err := errors.Join(first.err, flushErr); err != nil {
		return r, fmt.Errorf("%s not written: %w", count(first.count(), "record"), p.explain(err))
	}
	view := latencyOf(recv.times)
	r.EndToEnd = &view
	return r, nil
}

// reader makes the client that reads what comes in from now on.
func (b *bench) reader(parent context.Context) (*session, error) {
	ctx, cancel := b.bound(parent)
	defer cancel()
	ends, err := b.admin.ListEndOffsets(ctx, b.topic)
	if err != nil {
		return nil, b.about("last offsets", err)
	}
	if ends.Error() != nil {
		return nil, b.about("last offsets", ends.Error())
	}
	return b.flags.client.connect(parent, kgo.ConsumePartitions(ends.KOffsets()))
}
