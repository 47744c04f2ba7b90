package moldautest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/storage/record"
	"moldau/moldautest"
)

// history is what producers were told and consumers saw while a cluster suffered. problems holds it against what the
// cluster has in the end.
type history struct {
	t          *testing.T
	c          *moldautest.Machines
	topic      string
	partitions int32

	quit    context.CancelFunc // of producers; consumers go on until the end
	work    sync.WaitGroup
	readers sync.WaitGroup
	unread  context.CancelFunc

	mu       sync.Mutex
	sent     map[string]bool  // by value
	acked    map[string]spot  // values are never sent twice
	refused  map[string]error // may or may not be there
	consumed [][]seen         // by consumer
}

// spot is where a record is.
type spot struct {
	partition int32
	offset    int64
}

// seen is what a consumer was given.
type seen struct {
	spot
	value string
}

// between is the pause between two records of a producer, so that a test's machine has time for the faults.
const between = 2 * time.Millisecond

// begin starts producers, two for each partition, and two consumers. options are those of the producers, which wait for all
// replicas and are idempotent by default.
func begin(t *testing.T, c *moldautest.Machines, topic string, partitions int32, options ...kgo.Opt) *history {
	t.Helper()
	h := &history{t: t, c: c, topic: topic, partitions: partitions, sent: map[string]bool{}, acked: map[string]spot{},
		refused: map[string]error{}}
	run, quit := context.WithCancel(t.Context())
	read, unread := context.WithCancel(t.Context())
	h.quit, h.unread = quit, unread
	for p := range partitions {
		for i := range 2 {
			cl := c.Client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
				kgo.MaxBufferedRecords(200)}, options...)...)
			h.work.Go(func() { h.produce(run, cl, p, fmt.Sprintf("%d-%d", p, i)) })
		}
	}
	for i := range 2 {
		h.consumed = append(h.consumed, nil)
		cl := c.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		h.readers.Go(func() { h.consume(read, cl, i) })
	}
	t.Cleanup(func() {
		quit()
		unread()
		h.work.Wait()
		h.readers.Wait()
	})
	return h
}

func (h *history) produce(ctx context.Context, cl *kgo.Client, partition int32, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		value := fmt.Sprintf("%s/%d", name, n)
		h.mu.Lock()
		h.sent[value] = true
		h.mu.Unlock()
		cl.Produce(h.t.Context(), &kgo.Record{Topic: h.topic, Partition: partition, Value: []byte(value)}, h.told)
		time.Sleep(between)
	}
	// The records in work are retried for as long as the test waits: every one of them is told its fate.
	flush, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if err := cl.Flush(flush); err != nil && h.t.Context().Err() == nil {
		h.t.Errorf("producer %s is not done a minute after the last fault: %v", name, err)
	}
}

func (h *history) told(r *kgo.Record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.refused[string(r.Value)] = err
		return
	}
	h.acked[string(r.Value)] = spot{r.Partition, r.Offset}
}

func (h *history) consume(ctx context.Context, cl *kgo.Client, i int) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		h.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			h.consumed[i] = append(h.consumed[i], seen{spot{r.Partition, r.Offset}, string(r.Value)})
		})
		h.mu.Unlock()
	}
}

// progress waits until that many more records were acknowledged.
func (h *history) progress(more int) {
	h.t.Helper()
	from := h.count()
	done := false
	defer func() {
		for p := range h.partitions {
			if s, ok := h.c.State(h.topic, p); !done {
				h.t.Logf("%s-%d, known: %v: %+v", h.topic, p, ok, s)
			}
		}
	}()
	h.c.WaitFor("more records are acknowledged", func() bool { return h.count() >= from+more })
	done = true
}

// count is the number of acknowledged records.
func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acked)
}

// verify ends the work and fails the test with each problem.
func (h *history) verify() {
	h.t.Helper()
	problems := h.problems()
	for i, p := range problems {
		if i == 20 {
			h.t.Errorf("and %d more", len(problems)-i)
			return
		}
		h.t.Error(p)
	}
}

// problems ends the producers, reads everything, and says what is wrong: an acknowledged record that is lost or elsewhere,
// a record that is there twice or was never sent, records of one producer out of order, a consumer that saw what is not
// there, or not what is there.
func (h *history) problems() []string {
	h.t.Helper()
	h.quit()
	h.work.Wait()
	log, ends := h.readAll()
	h.c.WaitFor("the consumers reach the end", func() bool { return h.caughtUp(ends) })
	h.unread()
	h.readers.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.t.Logf("%d records acknowledged, %d refused, %d there", len(h.acked), len(h.refused), len(log))
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	at := map[spot]string{}
	where := map[string]spot{}
	last := map[string]int{} // by producer
	for _, s := range log {
		at[s.spot] = s.value
		if first, twice := where[s.value]; twice {
			bad("duplicated: %s is at %v and at %v", s.value, first, s.spot)
		}
		where[s.value] = s.spot
		if !h.sent[s.value] {
			bad("invented: %s at %v was never sent", s.value, s.spot)
		}
		name, number, _ := strings.Cut(s.value, "/")
		n := -1
		_, _ = fmt.Sscan(number, &n)
		if before, ok := last[name]; ok && n < before {
			bad("reordered: %s at %v comes after number %d", s.value, s.spot, before)
		}
		last[name] = n
	}
	for value, p := range h.acked {
		if there, ok := where[value]; !ok {
			bad("lost: %s was acknowledged at %v; there is %q", value, p, at[p])
		} else if there != p {
			bad("moved: %s was acknowledged at %v and is at %v", value, p, there)
		}
	}
	for i, all := range h.consumed {
		out = append(out, compareView(i, all, at)...)
	}
	slices.Sort(out)
	return out
}

// compareView compares what a consumer saw with what is there.
func compareView(consumer int, all []seen, at map[spot]string) (out []string) {
	next := map[int32]int64{}
	saw := map[spot]bool{}
	for _, s := range all {
		if at[s.spot] != s.value {
			out = append(out, fmt.Sprintf("vanished: consumer %d saw %s at %v; there is %q", consumer, s.value, s.spot, at[s.spot]))
		}
		if s.offset < next[s.partition] {
			out = append(out, fmt.Sprintf("repeated: consumer %d was given %v after offset %d", consumer, s.spot, next[s.partition]-1))
		}
		next[s.partition] = s.offset + 1
		saw[s.spot] = true
	}
	for p, v := range at {
		if !saw[p] {
			out = append(out, fmt.Sprintf("skipped: consumer %d never saw %s at %v", consumer, v, p))
		}
	}
	return out
}

// readAll reads the topic from its start to its end.
func (h *history) readAll() (log []seen, ends map[int32]int64) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	ends = map[int32]int64{}
	h.c.WaitFor("the ends of the partitions", func() bool {
		listed, err := h.c.Admin().ListEndOffsets(ctx, h.topic)
		if err != nil || listed.Error() != nil {
			return false
		}
		for p := range h.partitions {
			o, _ := listed.Lookup(h.topic, p)
			ends[p] = o.Offset
		}
		return true
	})
	cl := h.c.Client(kgo.ConsumeTopics(h.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := map[int32]int64{}
	for !reached(next, ends) {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			h.t.Fatalf("read up to %v of %v: %v", next, ends, fetches.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			log = append(log, seen{spot{r.Partition, r.Offset}, string(r.Value)})
			next[r.Partition] = r.Offset + 1
		})
	}
	return log, ends
}

func reached(next, ends map[int32]int64) bool {
	for p, end := range ends {
		if next[p] < end {
			return false
		}
	}
	return true
}

func (h *history) caughtUp(ends map[int32]int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.consumed {
		next := map[int32]int64{}
		for _, s := range all {
			next[s.partition] = max(next[s.partition], s.offset+1)
		}
		if !reached(next, ends) {
			return false
		}
	}
	return true
}

// sameLogs waits until all replicas are in sync, stops the cluster and fails the test unless the logs of all replicas hold
// the same bytes.
func sameLogs(t *testing.T, c *moldautest.Machines, topic string, partitions int32) {
	t.Helper()
	for p := range partitions {
		c.WaitISR(topic, p)
	}
	c.Stop()
	sameStopped(t, c, topic, partitions)
}

// sameStopped is sameLogs of a cluster that was stopped while all replicas were in sync.
func sameStopped(t *testing.T, c *moldautest.Machines, topic string, partitions int32) {
	t.Helper()
	for p := range partitions {
		var first []byte
		var of int32
		s := fmt.Sprintf("%s-%d", topic, p)
		for _, id := range c.IDs() {
			b, ok := logBytes(t, c, id, s)
			switch {
			case !ok:
			case of == 0:
				first, of = b, id
			case string(first) != string(b):
				t.Errorf("%s differs: %d bytes on node %d, %d bytes on node %d, equal up to byte %d (batch %s and %s)", s,
					len(first), of, len(b), id, equalUpTo(first, b), batchAt(first, b), batchAt(b, first))
			}
		}
	}
}

func equalUpTo(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// batchAt describes the first batch of a that b does not have.
func batchAt(a, b []byte) string {
	for len(a) > 0 {
		batch, rest, err := record.Split(a)
		if err != nil {
			return err.Error()
		}
		n := len(a) - len(rest)
		if len(b) < n || string(a[:n]) != string(b[:n]) {
			return fmt.Sprintf("at %d of epoch %d", batch.BaseOffset(), batch.LeaderEpoch())
		}
		a, b = rest, b[n:]
	}
	return "none"
}

// replicaDir finds the directory of a replica on a node's disk; empty: there is none.
func replicaDir(t *testing.T, c *moldautest.Machines, id int32, partition string) string {
	t.Helper()
	for _, dir := range []string{"/data", "/more"} {
		_, err := c.Disk(id).Stat(path.Join(dir, partition))
		switch {
		case err == nil:
			return path.Join(dir, partition)
		case !errors.Is(err, os.ErrNotExist):
			t.Fatal(err)
		}
	}
	return ""
}

// logBytes reads the segments of a replica one after the other; false: the node has no replica.
func logBytes(t *testing.T, c *moldautest.Machines, id int32, partition string) ([]byte, bool) {
	t.Helper()
	disk := c.Disk(id)
	dir := replicaDir(t, c, id, partition)
	if dir == "" {
		return nil, false
	}
	names, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, e := range names {
		if path.Ext(e.Name) != ".log" {
			continue
		}
		f, err := disk.Open(path.Join(dir, e.Name), os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		out = append(out, b...)
	}
	return out, true
}

// rewrite changes a file of a node that does not run. What it gives replaces the content; it is on the disk.
func rewrite(t *testing.T, c *moldautest.Machines, id int32, name string, change func([]byte) []byte) {
	t.Helper()
	disk := c.Disk(id)
	f, err := disk.Open(name, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	b = change(b)
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// without gives the nodes that are not named.
func without(ids []int32, not ...int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return slices.Contains(not, id) })
}

// short is a bound for what must not happen.
func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// beside lets a scenario that mostly waits, for sessions and timers to end, run beside the others.
func beside(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped by -short: a whole cluster under faults")
	}
	t.Parallel()
}
