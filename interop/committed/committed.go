// Package committed reads what is committed in topics while others write and are killed, and lets a suite judge each
// record once. Start reading at Watch.
package committed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader reads the committed records of some topics from their start, once, in the order of each partition. Safe for
// use by several goroutines.
type Reader struct {
	cl   *kgo.Client
	take func(*kgo.Record) error

	mu   sync.Mutex
	at   map[string]map[int32]int64 // next offset of each partition, markers included
	seen int
	err  error
}

// Watch starts reading at the broker with address addr. Take judges a record; after its first error no more is read.
// The reader ends with the test.
func Watch(t testing.TB, addr string, take func(*kgo.Record) error, topics ...string) *Reader {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topics...), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second)) // topics and partitions may come late
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{cl: cl, take: take, at: map[string]map[int32]int64{}}
	for _, topic := range topics {
		r.at[topic] = map[int32]int64{}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r.poll() {
		}
	}()
	t.Cleanup(func() { cl.Close(); <-done })
	return r
}

func (r *Reader) poll() bool {
	fetches := r.cl.PollFetches(context.Background())
	if fetches.IsClientClosed() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachRecord(r.one)
	return r.err == nil
}

func (r *Reader) one(rec *kgo.Record) {
	if r.err != nil {
		return
	}
	if next := r.at[rec.Topic][rec.Partition]; rec.Offset < next {
		r.err = fmt.Errorf("offset %d of %s-%d is read after %d", rec.Offset, rec.Topic, rec.Partition, next-1)
		return
	}
	r.at[rec.Topic][rec.Partition] = rec.Offset + 1
	if rec.Attrs.IsControl() {
		return
	}
	r.seen++
	r.err = r.take(rec)
}

// Count of the records that were read.
func (r *Reader) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// String says how far it is.
func (r *Reader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d records, next offsets %v", r.seen, r.at)
}

// Err is what was found wrong first.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Finish reads on to where the partitions end now, which shows what came too often. It fails the test with Err.
func (r *Reader) Finish(ctx context.Context, t testing.TB) {
	t.Helper()
	topics := slices.Sorted(maps.Keys(r.at))
	ends, err := kadm.NewClient(r.cl).ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	for ; err == nil && !r.reached(ends); time.Sleep(10 * time.Millisecond) {
		if err = r.Err(); err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		t.Fatalf("after %d records: %v", r.Count(), err)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
}

func (r *Reader) reached(ends kadm.ListedOffsets) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := true
	ends.Each(func(e kadm.ListedOffset) { all = all && r.at[e.Topic][e.Partition] >= e.Offset })
	return all
}
