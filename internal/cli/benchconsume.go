package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newBenchConsume(s streams) *cobra.Command {
	f := &benchFlags{recordSize: 1024, linger: 5 * time.Millisecond, duration: 60 * time.Second, count: 500000}
	c := &cobra.Command{
		Use:   "consume",
		Short: "Read as fast as it goes",
		Long: `Read as fast as it goes, and tell throughput and how long each poll of the client waited. Without --topic, or when the
topic is empty, --count records are written first, which does not count.`,
		Example: `  moldau bench consume -n 1000000 --partitions 3
  moldau bench consume --topic orders --duration 30s`,
	}
	return benchCommand(s, c, f, func(ctx context.Context, b *bench) error {
		r, err := b.consume(ctx)
		if err != nil {
			return err
		}
		r.Bench, r.what = "consume", "poll"
		return r.print(b)
	})
}

// consume reads the topic from its beginning to what was its end, count or time.
func (b *bench) consume(ctx context.Context) (benchResult, error) {
	held, err := b.held(ctx)
	if err != nil {
		return benchResult{}, err
	}
	if held == 0 {
		fmt.Fprintf(b.err, "writing %s to read\n", count(int(b.flags.count), "record"))
		filled := *b.flags
		filled.duration = 0
		if _, err := (&bench{b.streams, b.session, &filled, b.topic, b.pool}).produce(ctx); err != nil {
			return benchResult{}, err
		}
		if held, err = b.held(ctx); err != nil {
			return benchResult{}, err
		}
	}
	want := held
	if b.flags.count > 0 {
		want = min(want, b.flags.count)
	}
	c, err := b.flags.client.connect(ctx, kgo.ConsumeTopics(b.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return benchResult{}, err
	}
	defer c.Close()
	limit, cancel := b.flags.limit(ctx)
	defer cancel()
	m := startMeter(b.err, "read")
	for read := int64(0); read < want; {
		asked := time.Now()
		fetches := c.PollRecords(limit, pollRecords)
		if limit.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			m.finish()
			return benchResult{}, c.explain(err)
		}
		records, bytes := int64(0), int64(0)
		fetches.EachRecord(func(r *kgo.Record) {
			records++
			bytes += int64(len(r.Key) + len(r.Value))
		})
		m.add(records, bytes, time.Since(asked))
		read += records
	}
	return m.finish(), nil
}

// held is how many offsets the topic holds.
func (b *bench) held(parent context.Context) (int64, error) {
	ctx, cancel := b.bound(parent)
	defer cancel()
	starts, err := b.admin.ListStartOffsets(ctx, b.topic)
	if err != nil {
		return 0, b.about("first offsets", err)
	}
	ends, err := b.admin.ListEndOffsets(ctx, b.topic)
	if err != nil {
		return 0, b.about("last offsets", err)
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) {
		if s, ok := starts.Lookup(o.Topic, o.Partition); ok && o.Err == nil && s.Err == nil {
			n += o.Offset - s.Offset
		}
	})
	return n, nil
}
