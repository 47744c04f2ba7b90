//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics of a load. Copied holds what a pipeline made of Plain, in transactions.
const (
	Plain         = "plain"
	OneDisk       = "one-disk"
	Transactional = "transactional"
	Copied        = "copied"
	partitions    = 3
)

// LoadOptions say how much is done at once.
type LoadOptions struct {
	Plain, OneDisk, Transactional int // writers of each kind
	Pipelines                     int // members that copy Plain to Copied exactly once
	Members                       int // of a group that reads all
	Administrators                int // that create and change topics and move replicas of the others
	Pause                         time.Duration
	Seed                          uint64
}

// Load is the clients of a run. Start them with StartLoad, end them with Finish.
type Load struct {
	History *History
	c       *Cluster
	o       LoadOptions

	writing  context.Context // ends when writers begin nothing new
	quiet    context.CancelFunc
	alive    context.Context // ends everything
	end      context.CancelFunc
	writers  sync.WaitGroup
	others   sync.WaitGroup
	pending  atomic.Int64 // records without a last word
	readers  []*reader
	copiesMu sync.Mutex
	stuck    []string
}

// StartLoad creates the topics and starts all clients.
func StartLoad(ctx context.Context, c *Cluster, o LoadOptions) (*Load, error) {
	if o.Pause == 0 {
		o.Pause = 5 * time.Millisecond
	}
	for _, topic := range []string{Plain, OneDisk, Transactional, Copied} {
		if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil {
			return nil, err
		}
	}
	l := &Load{History: NewHistory(), c: c, o: o}
	l.alive, l.end = context.WithCancel(context.Background())
	l.writing, l.quiet = context.WithCancel(l.alive)
	for i := range o.Plain {
		l.writers.Go(func() { l.write(fmt.Sprint("plain-", i), Plain, int32(i%partitions), once) })
	}
	for i := range o.OneDisk {
		l.writers.Go(func() { l.write(fmt.Sprint("one-", i), OneDisk, int32(i%partitions), perhaps) })
	}
	for i := range o.Transactional {
		l.writers.Go(func() { l.transact(fmt.Sprint("txn-", i), rand.New(rand.NewPCG(o.Seed, uint64(i)))) })
	}
	for i := range o.Administrators {
		l.writers.Go(func() { l.administrate(rand.New(rand.NewPCG(o.Seed, 100+uint64(i)))) })
	}
	l.read("reader of all", kgo.ReadUncommitted())
	l.read("reader of what is committed", kgo.ReadCommitted())
	for i := range o.Members {
		l.join(i)
	}
	for i := range o.Pipelines {
		l.others.Go(func() { l.copy(i) })
	}
	return l, nil
}

// writerOptions let a producer wait as long as it takes.
func writerOptions() []kgo.Opt {
	return []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(200), kgo.UnknownTopicRetries(-1),
		kgo.ProducerBatchMaxBytes(16 << 10), kgo.ProduceRequestTimeout(5 * time.Second), kgo.ProducerLinger(0),
		kgo.StopProducerOnDataLossDetected()}
}

// write writes to one partition until it is told to stop. A producer that may wait is never refused.
func (l *Load) write(name, topic string, partition int32, p promised) {
	opts := writerOptions()
	if p == perhaps {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
			kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	cl, err := l.c.Client(opts...)
	if err != nil {
		l.History.Fault("%s: %v", name, err)
		return
	}
	defer cl.Close()
	w := l.History.add(name, p)
	for l.writing.Err() == nil {
		number, value := l.History.send(w, topic, partition)
		l.pending.Add(1)
		cl.Produce(l.alive, &kgo.Record{Topic: topic, Partition: partition, Value: value}, func(r *kgo.Record, err error) {
			l.pending.Add(-1)
			switch {
			case err == nil:
				l.History.told(w, number, confirmed, r.Offset)
			case l.alive.Err() == nil && p != perhaps: // who is not idempotent cannot always try again
				l.History.Fault("%s/%d: the producer is told %v", name, number, err)
			}
		})
		time.Sleep(l.o.Pause)
	}
	if err := cl.Flush(l.alive); err != nil {
		l.History.Fault("%s is stuck: %v", name, err)
	}
}

// attempt bounds one try of a transaction; an unlucky one is begun anew with another client.
const attempt = 30 * time.Second

// transact writes transactions until it is told to stop.
func (l *Load) transact(name string, r *rand.Rand) {
	w := l.History.add(name, together)
	var cl *kgo.Client
	defer func() {
		if cl != nil {
			cl.Close()
		}
	}()
	for l.writing.Err() == nil {
		if cl == nil {
			var err error
			if cl, err = l.c.Client(append(writerOptions(), kgo.TransactionalID(name),
				kgo.TransactionTimeout(8*time.Second))...); err != nil {
				l.History.Fault("%s: %v", name, err)
				return
			}
		}
		if err := l.transaction(cl, w, r); err != nil {
			l.c.Logf("%s begins anew: %v", name, err)
			cl.Close()
			cl = nil
		}
	}
}

// transaction writes one and commits it or not. An error says that the client is of no use any more.
func (l *Load) transaction(cl *kgo.Client, w *writer, r *rand.Rand) error {
	ctx, cancel := context.WithTimeout(l.alive, attempt)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	l.History.begin(w)
	var failed error
	var mu sync.Mutex
	for range 1 + r.IntN(10) {
		partition := r.Int32N(partitions)
		number, value := l.History.send(w, Transactional, partition)
		cl.Produce(ctx, &kgo.Record{Topic: Transactional, Partition: partition, Value: value}, func(rec *kgo.Record, err error) {
			if err == nil {
				l.History.told(w, number, confirmed, rec.Offset)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
		time.Sleep(l.o.Pause)
	}
	flushed := cl.Flush(ctx)
	mu.Lock()
	failed = errors.Join(failed, flushed)
	mu.Unlock()
	if failed != nil {
		return failed
	}
	if r.IntN(3) == 0 {
		return cl.EndTransaction(ctx, kgo.TryAbort)
	}
	l.History.decided(w, unknown)
	err := cl.EndTransaction(ctx, kgo.TryCommit)
	switch {
	case err == nil:
		l.History.decided(w, confirmed)
	case errors.Is(err, kerr.TransactionAbortable), errors.Is(err, kerr.OperationNotAttempted):
		l.History.decided(w, denied)
	}
	return err
}

// Finish lets everybody come to an end: writers get their last answers, open transactions are over, readers and the pipeline
// reach the ends. It gives what the history and the readers find wrong.
func (l *Load) Finish(ctx context.Context) ([]string, error) {
	l.quiet()
	if err := l.wait(ctx, &l.writers); err != nil {
		l.Stop()
		return append(l.History.Check(nil, nil), "writers are stuck"), err
	}
	var all, committed Contents
	var err error
	if committed, err = l.c.Read(ctx, kgo.ReadCommitted(), Plain, OneDisk, Transactional); err == nil {
		all, err = l.c.Read(ctx, kgo.ReadUncommitted(), Plain, OneDisk, Transactional)
	}
	if err != nil {
		l.Stop()
		return nil, err
	}
	l.catchUp(ctx, all, committed)
	if l.o.Pipelines > 0 {
		l.checkCopies(ctx, committed)
	}
	l.Stop()
	l.c.Logf("history: %v", l.History.summary())
	return l.History.Check(all, committed), nil
}

func (l *Load) wait(ctx context.Context, g *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d records have no answer: %w", l.pending.Load(), ctx.Err())
	}
}

// Stop ends all clients at once.
func (l *Load) Stop() {
	l.end()
	l.writers.Wait()
	l.others.Wait()
}
