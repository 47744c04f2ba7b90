package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// benchFlags are what the three benchmarks share.
type benchFlags struct {
	client      *clientFlags
	output      *choice
	topic       string
	partitions  int32
	replication int16
	configs     []string
	keep        bool
	recordSize  int
	batchBytes  int32
	linger      time.Duration
	acks        *choice
	compression *choice
	idempotent  bool
	duration    time.Duration
	count       int64
	rate        float64
}

func newBench(s streams) *cobra.Command {
	return group("bench", "Measure a broker: throughput and latency", newBenchProduce(s), newBenchConsume(s),
		newBenchLatency(s))
}

// benchCommand makes one of the benchmarks, whose defaults stand in f.
func benchCommand(s streams, c *cobra.Command, f *benchFlags, run func(context.Context, *bench) error) *cobra.Command {
	f.client, f.output = clientFlagsOf(c), outputFlag(c)
	f.acks, f.compression = oneOf("all", "1", "0"), oneOf("none", "gzip", "snappy", "lz4", "zstd")
	fl := c.Flags()
	fl.StringVar(&f.topic, "topic", "", "use this `topic`, and leave it if it exists (default: a new one, deleted afterwards)")
	fl.Int32VarP(&f.partitions, "partitions", "p", 1, "partitions of a new topic")
	fl.Int16VarP(&f.replication, "replication-factor", "r", -1, "copies of a new topic (default: the broker's)")
	fl.StringArrayVarP(&f.configs, "config", "c", nil, "set `key=value` for a new topic; may be given again")
	fl.BoolVar(&f.keep, "keep", false, "keep the topic that was made for the benchmark")
	fl.IntVar(&f.recordSize, "record-size", f.recordSize, "bytes in the value of a record")
	fl.Int32Var(&f.batchBytes, "batch-bytes", 1000012, "largest batch")
	fl.DurationVar(&f.linger, "linger", f.linger, "how long a batch waits for more records")
	fl.Var(f.acks, "acks", "who must have a record: all in-sync replicas, the leader, or nobody")
	fl.VarP(f.compression, "compression", "z", "how batches are compressed")
	fl.BoolVar(&f.idempotent, "idempotent", true, "produce idempotently (with acks all)")
	fl.DurationVar(&f.duration, "duration", f.duration, "how long to run")
	fl.Int64VarP(&f.count, "count", "n", f.count, "how many records (0: as many as the time allows)")
	c.Args = args(0, 0, "no argument")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.recordSize < 0 || f.recordSize > 1<<30 || f.partitions < 1 || f.rate < 0 {
			return errors.New("--record-size, --partitions and --rate must be sensible numbers above 0")
		}
		if fl.Changed("count") && !fl.Changed("duration") {
			f.duration = 0
		}
		if f.duration <= 0 && f.count <= 0 {
			return errors.New("give --duration or --count: a benchmark must end")
		}
		return withBench(cmd.Context(), s, f, run)
	}
	return c
}

// bench is one run of a benchmark.
type bench struct {
	streams
	*session
	flags *benchFlags
	topic string
	pool  []byte // random text that values are cut from
}

// withBench makes the topic, runs the benchmark and removes the topic.
func withBench(ctx context.Context, s streams, f *benchFlags, run func(context.Context, *bench) error) error {
	ses, err := f.client.connect(ctx)
	if err != nil {
		return err
	}
	defer ses.Close()
	b := &bench{streams: s, session: ses, flags: f, topic: f.topic, pool: randomText(f.recordSize + 1<<16)}
	made, err := b.makeTopic(ctx)
	if err == nil {
		err = run(ctx, b)
	}
	if made && !f.keep {
		after, cancel := ses.bound(context.WithoutCancel(ctx))
		defer cancel()
		if _, deleteErr := ses.admin.DeleteTopic(after, b.topic); err == nil && deleteErr != nil {
			err = ses.about("delete topic "+b.topic, deleteErr)
		}
	}
	return err
}

// makeTopic makes the topic unless it exists, and says whether it did.
func (b *bench) makeTopic(parent context.Context) (bool, error) {
	if b.topic == "" {
		b.topic = fmt.Sprintf("moldau-bench-%08x", rand.Uint32())
	}
	spec := topicSpec{partitions: b.flags.partitions, replication: b.flags.replication, configs: b.flags.configs}
	req, err := spec.request([]string{b.topic})
	if err != nil {
		return false, err
	}
	ctx, cancel := b.bound(parent)
	defer cancel()
	resp, err := req.RequestWith(ctx, b)
	if err != nil {
		return false, b.explain(err)
	}
	if t := resp.Topics[0]; t.ErrorCode != 0 && (t.ErrorCode != topicExists || b.flags.topic == "") {
		return false, b.about("topic "+b.topic, answered(t.ErrorCode, t.ErrorMessage))
	}
	return resp.Topics[0].ErrorCode == 0, b.awaitLeaders(ctx)
}

// awaitLeaders waits until the broker that is asked knows a leader of every partition: brokers learn of a new topic one
// after the other.
func (b *bench) awaitLeaders(ctx context.Context) error {
	const wait = 50 * time.Millisecond
	for {
		topics, err := b.admin.ListTopics(ctx, b.topic)
		if err != nil {
			return b.about("topic "+b.topic, err)
		}
		t := topics[b.topic]
		if t.Err == nil && rowOf(t).WithoutLeader == 0 {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return b.about("topic "+b.topic, cmp.Or(t.Err, ctx.Err()))
		}
	}
}

// producer makes the client that writes.
func (b *bench) producer(ctx context.Context, more ...kgo.Opt) (*session, error) {
	f := b.flags
	opts := []kgo.Opt{kgo.DefaultProduceTopic(b.topic), kgo.ProducerBatchMaxBytes(f.batchBytes), kgo.ProducerLinger(f.linger),
		acksOf(f.acks.value), kgo.ProducerBatchCompression(codecOf(f.compression.value)), kgo.UnknownTopicRetries(10),
		kgo.RecordDeliveryTimeout(max(f.client.timeout, 30*time.Second))}
	if f.acks.value != "all" || !f.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return f.client.connect(ctx, append(opts, more...)...)
}

// value gives the n-th value: text that does not repeat within a batch and compresses as random letters do.
func (b *bench) value(n int64) []byte {
	from := int(n*251) & 0xffff
	return b.pool[from : from+b.flags.recordSize]
}

func randomText(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	return text
}

// limit gives the context that ends with --duration.
func (f *benchFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.duration <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.duration)
}
