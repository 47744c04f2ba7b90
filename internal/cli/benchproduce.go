package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newBenchProduce(s streams) *cobra.Command {
	f := &benchFlags{recordSize: 1024, linger: 5 * time.Millisecond, duration: 10 * time.Second}
	c := &cobra.Command{
		Use:   "produce",
		Short: "Write as fast as it goes, or at a rate",
		Long: `Write as fast as it goes, or at a rate, and tell throughput and the time from handing a record to the client to its
acknowledgement. At full speed that is mostly the time in the client's queue; bench latency measures the broker's.`,
		Example: `  moldau bench produce --partitions 6 --record-size 1024 --duration 30s
  moldau bench produce -b kafka:9092 --acks 1 --compression zstd -n 1000000`,
	}
	c.Flags().Float64Var(&f.rate, "rate", 0, "records a second (0: as fast as it goes)")
	return benchCommand(s, c, f, func(ctx context.Context, b *bench) error {
		r, err := b.produce(ctx)
		if err != nil {
			return err
		}
		r.Bench, r.what = "produce", "ack"
		return r.print(b)
	})
}

// produce writes until count or time is reached.
func (b *bench) produce(ctx context.Context) (benchResult, error) {
	p, err := b.producer(ctx)
	if err != nil {
		return benchResult{}, err
	}
	defer p.Close()
	limit, cancel := b.flags.limit(ctx)
	defer cancel()
	var first firstError
	m := startMeter(b.err, "written")
	size := int64(b.flags.recordSize)
	pace := newPace(b.flags.rate)
	for n := int64(0); (b.flags.count == 0 || n < b.flags.count) && first.count() == 0; n++ {
		if !pace.wait(limit, n) {
			break
		}
		handed := time.Now()
		p.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: b.value(n), Timestamp: handed}, func(_ *kgo.Record, err error) {
			if err != nil {
				first.add(err)
				return
			}
			m.add(1, size, time.Since(handed))
		})
	}
	flushErr := p.Flush(context.WithoutCancel(ctx))
	r := m.finish()
	if err := errors.Join(first.err, flushErr); err != nil {
		return r, fmt.Errorf("%s not written: %w", count(first.count(), "record"), p.explain(err))
	}
	return r, nil
}

// firstError keeps the first of many errors.
type firstError struct {
	mu  sync.Mutex
	err error
	n   int
}

func (f *firstError) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.err = err
	}
}

func (f *firstError) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// pace says when the n-th record is due at a rate. A rate of 0 means at once.
type pace struct {
	begun time.Time
	rate  float64
}

func newPace(rate float64) pace { return pace{time.Now(), rate} }

// due is when record n is to be sent.
func (p pace) due(n int64) time.Time {
	return p.begun.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// wait sleeps until record n is due; false says that ctx ended first.
func (p pace) wait(ctx context.Context, n int64) bool {
	if p.rate > 0 {
		if left := time.Until(p.due(n)); left > 0 {
			select {
			case <-time.After(left):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err() == nil
}
