package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollRecords = 10000
	// pollWait is how long a poll waits before the command looks around.
	pollWait = time.Second
	// newPartitionsEvery is how often --follow looks for partitions that were added.
	newPartitionsEvery = 5 * time.Second
)

// consuming is one run of consume.
type consuming struct {
	streams
	*session
	flags  *consumeFlags
	topics []string
	print  func([]byte, *kgo.Record) ([]byte, error)

	left  map[string]map[int32]int64 // where each partition that is not through ends
	known map[string]int             // partitions of each topic
	read  int64
}

// run prints until the end, the count or an interrupt, which for --follow is the ordinary end.
func (r *consuming) run(ctx context.Context) error {
	out := bufio.NewWriterSize(r.out, 64<<10)
	loop := r.loop
	if r.flags.group.name != "" {
		loop = r.member
	}
	err := loop(ctx, out)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if r.flags.follow && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *consuming) loop(ctx context.Context, out *bufio.Writer) error {
	progress, looked := time.Now(), time.Now()
	for !r.done() {
		poll, cancel := context.WithTimeout(ctx, pollWait)
		fetches := r.PollRecords(poll, pollRecords)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.fetchError(fetches); err != nil {
			return err
		}
		if fetches.NumRecords() > 0 {
			progress = time.Now()
		}
		if _, err := r.write(out, fetches); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		switch {
		case r.flags.follow && time.Since(looked) > newPartitionsEvery:
			r.findNewPartitions(ctx)
			looked = time.Now()
		case !r.flags.follow && time.Since(progress) > r.timeout:
			return r.stuck(ctx)
		}
	}
	return nil
}

// done says whether everything that was asked for is printed.
func (r *consuming) done() bool {
	return r.flags.count > 0 && r.read >= r.flags.count || !r.flags.follow && r.unread() == 0
}

func (r *consuming) unread() int {
	n := 0
	for _, partitions := range r.left {
		n += len(partitions)
	}
	return n
}

// write prints records, keeps account of what is left, and gives those that need not be read again. Control records move
// the account only.
func (r *consuming) write(out *bufio.Writer, fetches kgo.Fetches) (through []*kgo.Record, err error) {
	var text []byte
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		end, wanted := r.left[rec.Topic][rec.Partition]
		past := !r.flags.follow && (!wanted || rec.Offset >= end)
		if !past && !rec.Attrs.IsControl() && !r.done() {
			r.read++
			if text, err = r.print(text[:0], rec); err != nil {
				return nil, err
			}
			if _, err := out.Write(text); err != nil {
				return nil, err
			}
			through = append(through, rec)
		}
		if wanted && rec.Offset+1 >= end && !r.flags.follow {
			delete(r.left[rec.Topic], rec.Partition)
		}
	}
	return through, nil
}

// fetchError gives the first error that will not pass by itself, and tells of lost data.
func (r *consuming) fetchError(fetches kgo.Fetches) error {
	var first error
	fetches.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case retriedByGroup(err):
		case errors.As(err, &loss):
			fmt.Fprintf(r.err, "moldau: topic %s, partition %d: records from offset %d on were lost; going on at %d\n",
				topic, partition, loss.ConsumedTo, loss.ResetTo)
		case first == nil:
			first = r.about(fmt.Sprintf("topic %s, partition %d", topic, partition), err)
		}
	})
	return first
}

// retriedByGroup says whether the client goes on by itself after an error of its group.
func retriedByGroup(err error) bool {
	var session *kgo.ErrGroupSession
	if !errors.As(err, &session) {
		return false
	}
	e, ok := asBrokerError(session.Err)
	return ok && e.code.Retriable
}

// stuck ends a run that gets no further: the broker is gone, or compaction left nothing before the end.
func (r *consuming) stuck(parent context.Context) error {
	ctx, cancel := r.bound(parent)
	defer cancel()
	if err := r.Ping(ctx); err != nil {
		return r.explain(err)
	}
	if _, failed := r.dials.last(); failed != nil {
		return r.explain(context.DeadlineExceeded)
	}
	fmt.Fprintf(r.err, "moldau: %s had no record up to the end for %s\n", count(r.unread(), "partition"), r.timeout)
	return nil
}

// findNewPartitions adds the partitions that the topics got since. Trouble is left to the next time.
func (r *consuming) findNewPartitions(parent context.Context) {
	if len(r.flags.partitions) > 0 {
		return
	}
	ctx, cancel := r.bound(parent)
	defer cancel()
	topics, err := r.admin.ListTopicsWithInternal(ctx, r.topics...)
	if err != nil {
		return
	}
	for _, t := range topics {
		if t.Err != nil || len(t.Partitions) <= r.known[t.Topic] {
			continue
		}
		added := map[int32]kgo.Offset{}
		for p := r.known[t.Topic]; p < len(t.Partitions); p++ {
			added[int32(p)] = kgo.NewOffset().AtStart()
		}
		r.known[t.Topic] = len(t.Partitions)
		r.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.Topic: added})
	}
}
