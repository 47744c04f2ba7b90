//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reader is one consumer that follows the topics, or all members of one group.
type reader struct {
	name string
	all  bool // it reads what is not committed too
	mu   sync.Mutex
	got  map[place]bool
	next map[string]map[int32]int64 // nil for a group, whose members begin again at what is committed
}

// read follows all topics with a consumer of its own.
func (l *Load) read(name string, level kgo.IsolationLevel) {
	r := &reader{name: name, all: level == kgo.ReadUncommitted(), got: map[place]bool{}, next: map[string]map[int32]int64{}}
	l.readers = append(l.readers, r)
	l.others.Go(func() {
		l.follow(r, kgo.FetchIsolationLevel(level), kgo.ConsumeTopics(Plain, OneDisk, Transactional))
	})
}

// join adds a member to the group that reads all committed records.
func (l *Load) join(i int) {
	if i == 0 {
		l.readers = append(l.readers, &reader{name: "group", got: map[place]bool{}})
	}
	r := l.readers[len(l.readers)-1]
	l.others.Go(func() {
		l.follow(r, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(Plain, OneDisk, Transactional),
			kgo.ConsumerGroup("audit"), kgo.AutoCommitInterval(300*time.Millisecond), kgo.SessionTimeout(6*time.Second),
			kgo.HeartbeatInterval(500*time.Millisecond))
	})
}

func (l *Load) follow(r *reader, opts ...kgo.Opt) {
	cl, err := l.c.Client(append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))...)
	if err != nil {
		l.History.Fault("%s: %v", r.name, err)
		return
	}
	defer cl.CloseAllowingRebalance()
	for l.alive.Err() == nil {
		fetches := cl.PollFetches(l.alive)
		for _, e := range fetches.Errors() {
			var lost *kgo.ErrDataLoss
			if errors.As(e.Err, &lost) {
				l.History.Fault("%s is told that records are gone: %v", r.name, e.Err)
			}
		}
		fetches.EachRecord(func(rec *kgo.Record) { r.take(l.History, rec) })
	}
}

func (r *reader) take(h *History, rec *kgo.Record) {
	at := place{rec.Topic, rec.Partition, rec.Offset}
	h.saw(r.name, at, string(rec.Value))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[at] = true
	if r.next == nil {
		return
	}
	if r.next[rec.Topic] == nil {
		r.next[rec.Topic] = map[int32]int64{}
	}
	if rec.Offset < r.next[rec.Topic][rec.Partition] {
		h.Fault("%s goes back to %s-%d@%d", r.name, rec.Topic, rec.Partition, rec.Offset)
	}
	r.next[rec.Topic][rec.Partition] = rec.Offset + 1
}

// catchUp waits until every reader has all that it should, and looks for what it should not have.
func (l *Load) catchUp(ctx context.Context, all, committed Contents) {
	for _, r := range l.readers {
		want := committed
		if r.all {
			want = all
		}
		missing, example := 1, place{}
		for missing > 0 && ctx.Err() == nil {
			if missing, example = r.missing(want); missing > 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		if missing > 0 {
			l.History.Fault("%s is stuck: it never got %d records, such as %s-%d@%d", r.name, missing, example.topic,
				example.partition, example.offset)
		}
		wanted := map[place]bool{}
		each(want, func(at place, _ string) { wanted[at] = true })
		each(Contents{OneDisk: all[OneDisk]}, func(at place, _ string) { wanted[at] = true }) // a second try may come late
		r.mu.Lock()
		for at := range r.got {
			if !wanted[at] {
				l.History.Fault("%s got %s-%d@%d, which is not committed or not there", r.name, at.topic, at.partition, at.offset)
			}
		}
		r.mu.Unlock()
	}
}

func (r *reader) missing(want Contents) (n int, example place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	each(want, func(at place, _ string) {
		if !r.got[at] {
			n, example = n+1, at
		}
	})
	return n, example
}

// Read reads whole topics, once no transaction is open in them.
func (c *Cluster) Read(ctx context.Context, level kgo.IsolationLevel, topics ...string) (Contents, error) {
	ends, err := c.stableEnds(ctx, topics...)
	if err != nil {
		return nil, err
	}
	from, left, out := map[string]map[int32]kgo.Offset{}, 0, Contents{}
	ends.Each(func(o kadm.ListedOffset) {
		if from[o.Topic] == nil {
			from[o.Topic], out[o.Topic] = map[int32]kgo.Offset{}, map[int32][]Record{}
		}
		if o.Offset > 0 {
			from[o.Topic][o.Partition] = kgo.NewOffset().At(0)
			left++
		}
	})
	// Markers are kept because the last record of a partition may be one.
	cl, err := c.Client(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d partitions cannot be read to their ends: %w", left, errors.Join(ctx.Err(), fetches.Err()))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
			if !r.Attrs.IsControl() {
				out[r.Topic][r.Partition] = append(out[r.Topic][r.Partition], Record{r.Offset, string(r.Value)})
			}
		})
	}
	return out, nil
}

// stableEnds waits until readers of committed records see the whole of all partitions.
func (c *Cluster) stableEnds(ctx context.Context, topics ...string) (ends kadm.ListedOffsets, err error) {
	err = c.admin(func(_ *kgo.Client, a *kadm.Client) error {
		for {
			stable, err := a.ListCommittedOffsets(ctx, topics...)
			if err == nil {
				ends, err = a.ListEndOffsets(ctx, topics...)
			}
			why := "the ends are not told"
			if err == nil && stable.Error() == nil && ends.Error() == nil {
				why = ""
				ends.Each(func(o kadm.ListedOffset) {
					if s, _ := stable.Lookup(o.Topic, o.Partition); s.Offset != o.Offset {
						why = fmt.Sprintf("%s-%d is stable to %d of %d: a transaction hangs", o.Topic, o.Partition, s.Offset, o.Offset)
					}
				})
			}
			if why == "" {
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w", why, errors.Join(err, ctx.Err()))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return ends, err
}

// copy is a member of the pipeline that copies Plain to Copied, each record once.
func (l *Load) copy(i int) {
	name := fmt.Sprint("pipeline-", i)
	for l.alive.Err() == nil {
		opts := append(l.c.options(), writerOptions()...)
		s, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(name), kgo.TransactionTimeout(8*time.Second),
			kgo.ConsumerGroup("pipeline"), kgo.ConsumeTopics(Plain), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.RequireStableFetchOffsets(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))...)
		if err != nil {
			l.History.Fault("%s: %v", name, err)
			return
		}
		for err == nil && l.alive.Err() == nil {
			err = l.copySome(s)
		}
		if l.alive.Err() == nil {
			l.c.Logf("%s begins anew: %v", name, err)
		}
		s.Close()
	}
}

// copySome copies what one poll gives, in one transaction. An error says that the client is of no use any more.
func (l *Load) copySome(s *kgo.GroupTransactSession) error {
	polling, cancel := context.WithTimeout(l.alive, time.Second)
	fetches := s.PollFetches(polling)
	cancel()
	if fetches.NumRecords() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.alive, attempt)
	defer cancel()
	if err := s.Begin(); err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	fetches.EachRecord(func(r *kgo.Record) {
		s.Produce(ctx, &kgo.Record{Topic: Copied, Partition: r.Partition, Value: r.Value}, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	})
	if err := s.Client().Flush(ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	_, err := s.End(ctx, kgo.TransactionEndTry(failed == nil))
	return errors.Join(failed, err)
}

// checkCopies waits until the pipeline is through and judges what it wrote.
func (l *Load) checkCopies(ctx context.Context, committed Contents) {
	want := map[string]bool{}
	each(committed, func(at place, value string) {
		if at.topic == Plain {
			want[value] = true
		}
	})
	for {
		got, err := l.c.Read(ctx, kgo.ReadCommitted(), Copied)
		if err != nil {
			l.History.Fault("copies: %v", err)
			return
		}
		count := map[string]int{}
		each(got, func(_ place, value string) { count[value]++ })
		for value, n := range count {
			if n > 1 || !want[value] {
				l.History.Fault("%s was copied %d times", label(value), n)
			}
		}
		if len(count) >= len(want) {
			return
		}
		select {
		case <-ctx.Done():
			l.History.Fault("the pipeline is stuck: it copied %d of %d records", len(count), len(want))
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
