package javatools

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/kafka"
)

// cleanedKeys is how many keys the cleaned topic has; every tenth is deleted.
const cleanedKeys = 50

// TestCleanedLogs has the Java consumer, under both isolation levels, and kafka-dump-log read a log that was compacted: of
// batches in every codec, with gaps in them, with tombstones and with what transactions left.
func TestCleanedLogs(t *testing.T) {
	kafka.Libs(t)
	n := broker.Start(t, "log.cleaner.backoff.ms=200", "transaction.state.log.num.partitions=1")
	s := &suite{n: n}
	s.tool(t, "topics", "--create", "--topic", "cleaned", "--partitions", "1", "--config", "cleanup.policy=compact", "--config",
		"min.cleanable.dirty.ratio=0.01", "--config", "segment.ms=300")
	w := &cleanedWriter{addr: n.Addr, last: map[string]string{}}
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for i := range rounds {
		w.write(t, i)
		time.Sleep(400 * time.Millisecond) // the next batch begins a segment
	}
	w.tail(t)
	w.cleaned(t)
	for _, level := range []string{"read_committed", "read_uncommitted"} {
		w.check(t, level, s.tool(t, "console-consumer", "--topic", "cleaned", "--partition", "0", "--offset", "earliest",
			"--isolation-level", level, "--timeout-ms", "4000", "--formatter-property", "print.key=true",
			"--formatter-property", "print.offset=true"))
	}
	n.Stop(t)
	t.Run("dump", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(n.LogDir, "cleaned-0", "*.log"))
		if err != nil || len(files) < 2 {
			t.Fatal(files, err)
		}
		indexes, _ := filepath.Glob(filepath.Join(n.LogDir, "cleaned-0", "*index"))
		dump(t, files, "--deep-iteration", "--print-data-log")
		dump(t, indexes, "--index-sanity-check")
	})
}

// cleanedWriter writes the topic and knows what it must hold.
type cleanedWriter struct {
	addr    string
	written int
	last    map[string]string // by key; "null" for one that was deleted
}

func (w *cleanedWriter) client(t *testing.T, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(o, kgo.SeedBrokers(w.addr), kgo.DefaultProduceTopic("cleaned"),
		kgo.ProducerLinger(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// write writes every key in every codec, then some in a transaction that is committed and in one that is aborted.
func (w *cleanedWriter) write(t *testing.T, round int) {
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()} {
		c := w.client(t, kgo.ProducerBatchCompression(codec))
		for k := range cleanedKeys {
			if (k+i)%5 != 0 { // so that what is left of a batch has gaps
				w.put(t, c, k, fmt.Sprintf("%d/%d", round, i), true)
			}
		}
		flush(t, c)
	}
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		c := w.client(t, kgo.TransactionalID(fmt.Sprint("cleaner-", commit)))
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for k := 0; k < cleanedKeys; k += 7 {
			w.put(t, c, k, fmt.Sprintf("%d/transaction %v", round, commit), bool(commit))
		}
		flush(t, c)
		if err := c.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *cleanedWriter) put(t *testing.T, c *kgo.Client, k int, value string, counts bool) {
	t.Helper()
	r := kgo.KeyStringRecord(fmt.Sprintf("k%02d", k), value)
	if k%10 == 3 {
		r.Value, value = nil, "null"
	}
	w.written++
	if counts {
		w.last[string(r.Key)] = value
	}
	c.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
		if err != nil {
			t.Error(err)
		}
	})
}

func flush(t *testing.T, c *kgo.Client) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// tail begins the segment that is never cleaned, so that all before can be.
func (w *cleanedWriter) tail(t *testing.T) {
	c := w.client(t)
	for range 3 {
		w.put(t, c, 99, "tail", true)
		flush(t, c)
		time.Sleep(400 * time.Millisecond)
	}
}

// cleaned waits until the log has been cleaned: what is left are the newest of each key, and the tail.
func (w *cleanedWriter) cleaned(t *testing.T) {
	t.Helper()
	admin := kadm.NewClient(w.client(t))
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		ends := settled(t, ctx, admin, "cleaned")
		end, _ := ends.Lookup("cleaned", 0)
		seen := 0
		c := w.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"cleaned": {0: kgo.NewOffset().AtStart()}}),
			kgo.KeepControlRecords())
		for at := int64(0); at < end.Offset; {
			fetches := c.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("%d records of %d are left: %v", seen, w.written, err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				at = r.Offset + 1
				if !r.Attrs.IsControl() {
					seen++
				}
			})
		}
		c.Close()
		if seen <= len(w.last)+3 {
			return
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// check compares what a consumer has printed with what was written.
func (w *cleanedWriter) check(t *testing.T, level, out string) {
	t.Helper()
	got, at := map[string]string{}, int64(-1)
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("%s: consumed line %q", level, line)
		}
		offset, err := strconv.ParseInt(strings.TrimPrefix(f[0], "Offset:"), 10, 64)
		if err != nil || offset <= at {
			t.Errorf("%s: %q after offset %d", level, line, at)
		}
		at, got[f[1]] = offset, f[2]
	}
	if !maps.Equal(got, w.last) {
		t.Errorf("%s: read %v\nwant %v", level, got, w.last)
	}
	if keys := slices.Sorted(maps.Keys(got)); len(keys) != cleanedKeys+1 {
		t.Errorf("%s: %d keys", level, len(keys))
	}
}
