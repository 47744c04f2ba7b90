package moldautest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/moldautest"
)

// The soak lets several producers and consumers work while the node is killed, loses power, stops in order and comes
// back, and while connections break. It holds what clients were told against what the log has in the end.

const (
	soakTopic      = "soak"
	soakPartitions = 3
)

// gate is where clients connect: to the node of the moment, through connections that can be broken all at once.
type gate struct {
	mu    sync.Mutex
	dial  func(context.Context, string, string) (net.Conn, error) // nil while the node is down
	conns map[net.Conn]struct{}
}

var errDown = errors.New("the node is down")

func (g *gate) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	dial := g.dial
	g.mu.Unlock()
	if dial == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errDown}
	}
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
	return c, nil
}

// set opens the gate to a node, or closes it.
func (g *gate) set(dial func(context.Context, string, string) (net.Conn, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dial = dial
}

// cut breaks the connections: all, or a random half of them.
func (g *gate) cut(all bool, random *rand.Rand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if all || random.IntN(2) == 0 {
			c.Close()
			delete(g.conns, c)
		}
	}
}

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// sender is one producer and what it was told.
type sender struct {
	name       string
	client     *kgo.Client
	idempotent bool
	acks       int // 0: nothing is known of any record
	sent       int
	mu         sync.Mutex
	acked      map[int]place
	errors     map[string]int
	broken     int // records that the client gave up when a connection ended before its first answer
	// overtaken says that the client sent a batch before those that precede it: it was refused, as it must be, and the
	// client numbered its batches anew without knowing which of them stand in the log. forgotten are first batches in
	// flight that were refused all the same: the node did not know what it had taken.
	overtaken bool
	forgotten []string
}

// Level and Log make a sender the logger of its client, which tells nowhere else why a batch was refused.
func (s *sender) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (s *sender) Log(_ kgo.LogLevel, message string, pairs ...any) {
	if !strings.HasPrefix(message, "batch errored with OUT_OF_ORDER_SEQUENCE_NUMBER") {
		return
	}
	said := map[any]any{}
	for pair := range slices.Chunk(pairs, 2) {
		said[pair[0]] = pair[len(pair)-1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if said["sequence"] == said["first_sequence"] {
		s.forgotten = append(s.forgotten, fmt.Sprint(pairs...))
		return
	}
	s.overtaken = true
}

// run sends numbered records, each with the sender's name, to partitions in turn.
func (s *sender) run(ctx context.Context) {
	for ; ctx.Err() == nil; s.sent++ {
		n := s.sent
		// A context that does not end: a record whose context ends is given up, and its fate is unknown.
		s.client.Produce(context.Background(), &kgo.Record{Topic: soakTopic, Partition: int32(n % soakPartitions),
			Value: fmt.Appendf(nil, "%s/%d", s.name, n)}, func(r *kgo.Record, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, answered := errors.AsType[*kerr.Error](err); answered {
				s.errors[err.Error()]++
				return
			}
			if err != nil {
				s.broken++
				return
			}
			s.acked[n] = place{r.Partition, r.Offset}
		})
		if n%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// reader is one consumer. It must see offsets rise by one, and never another record at an offset than others saw.
type reader struct {
	name   string
	client *kgo.Client
	seen   *sightings
	next   [soakPartitions]int64
}

// sightings is what readers have seen, by partition and offset.
type sightings struct {
	mu     sync.Mutex
	values [soakPartitions]map[int64]string
	faults []string
}

func (s *sightings) fault(format string, args ...any) {
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := r.client.PollFetches(ctx)
		fetches.EachError(func(_ string, p int32, err error) {
			if ctx.Err() != nil || errors.Is(err, context.Canceled) {
				return
			}
			_, answered := errors.AsType[*kerr.Error](err)
			_, lost := errors.AsType[*kgo.ErrDataLoss](err)
			if !answered && !lost {
				return // a connection that ended in some way; the client goes on
			}
			r.seen.mu.Lock()
			defer r.seen.mu.Unlock()
			r.seen.fault("%s: partition %d: %v", r.name, p, err)
		})
		r.take(fetches)
	}
}

func (r *reader) take(fetches kgo.Fetches) {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	fetches.EachRecord(func(rec *kgo.Record) {
		if want := r.next[rec.Partition]; rec.Offset != want {
			r.seen.fault("%s: partition %d: offset %d after %d", r.name, rec.Partition, rec.Offset, want-1)
		}
		r.next[rec.Partition] = rec.Offset + 1
		values := r.seen.values[rec.Partition]
		if old, ok := values[rec.Offset]; ok && old != string(rec.Value) {
			r.seen.fault("%s: partition %d: offset %d was %q and is %q", r.name, rec.Partition, rec.Offset, old, rec.Value)
		}
		values[rec.Offset] = string(rec.Value)
	})
}

// soak is one run.
type soak struct {
	t       *testing.T
	node    *moldautest.Node
	gate    *gate
	random  *rand.Rand
	senders []*sender
	readers []*reader
	seen    *sightings
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{t: t, node: moldautest.Start(t, moldautest.Seed(seed), moldautest.Config("log.segment.bytes", "1048576")),
		gate: &gate{conns: map[net.Conn]struct{}{}}, random: rand.New(rand.NewPCG(seed, 1)), seen: &sightings{}}
	for i := range s.seen.values {
		s.seen.values[i] = map[int64]string{}
	}
	s.gate.set(s.node.Dial)
	if _, err := kadm.NewClient(s.client()).CreateTopic(t.Context(), soakPartitions, 1, nil, soakTopic); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]kgo.Opt{
		"idempotent": {}, "idempotent-2": {kgo.ProducerBatchCompression(kgo.ZstdCompression())},
		"all":  {kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1)},
		"one":  {kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.MaxProduceRequestsInflightPerBroker(1)},
		"none": {kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())},
	} {
		x := &sender{name: name, idempotent: strings.HasPrefix(name, "idempotent"), acks: 1, acked: map[int]place{},
			errors: map[string]int{}}
		if name == "none" {
			x.acks = 0
		}
		x.client = s.client(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(500),
			kgo.ProducerBatchMaxBytes(16<<10), kgo.UnknownTopicRetries(-1), kgo.WithLogger(x))...)
		s.senders = append(s.senders, x)
	}
	for i := range 2 {
		all := map[int32]kgo.Offset{}
		for p := range int32(soakPartitions) {
			// If the log should lack what was read, that is an error and not a reason to begin elsewhere.
			all[p] = kgo.NoResetOffset().At(0)
		}
		options := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{soakTopic: all}),
			kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(200 * time.Millisecond)}
		if i == 0 { // the other one has them
			options = append(options, kgo.DisableFetchSessions())
		}
		s.readers = append(s.readers, &reader{name: fmt.Sprint("reader ", i), seen: s.seen, client: s.client(options...)})
	}
	return s
}

// client makes a client that is patient with the node and looks for it again soon.
func (s *soak) client(options ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.node.Address()), kgo.Dialer(s.gate.Dial),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.RetryTimeout(time.Minute),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.RequestRetries(10_000),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil))}, options...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// disturb ends the node in some way and starts it again, or breaks connections.
func (s *soak) disturb() string {
	end := func(how func()) {
		s.gate.set(nil)
		how()
		s.gate.cut(true, s.random)
		s.node.Restart(s.t)
		s.gate.set(s.node.Dial)
	}
	switch s.random.IntN(6) {
	case 0, 1:
		end(s.node.Kill)
		return "kill"
	case 2, 3:
		end(s.node.PowerCut)
		return "power cut"
	case 4:
		end(func() { s.node.Stop(s.t) })
		return "stop"
	}
	s.gate.cut(false, s.random)
	return "cut"
}

func TestSoak(t *testing.T) {
	length, seed := 8*time.Second, uint64(time.Now().UnixNano())
	if os.Getenv("MOLDAU_LONG") != "" {
		length = 5 * time.Minute
	}
	if text := os.Getenv("MOLDAU_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("MOLDAU_SEED=%d gives the same disturbances", seed)
	s := newSoak(t, seed)
	sending, stopSending := context.WithCancel(context.Background())
	reading, stopReading := context.WithCancel(context.Background())
	defer stopSending()
	defer stopReading()
	var senders, readers sync.WaitGroup
	for _, x := range s.senders {
		senders.Go(func() { x.run(sending) })
	}
	for _, r := range s.readers {
		readers.Go(func() { r.run(reading) })
	}
	disturbances := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(time.Duration(20+s.random.IntN(300)) * time.Millisecond)
		disturbances[s.disturb()]++
	}
	stopSending()
	senders.Wait()
	flush, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, x := range s.senders {
		if err := x.client.Flush(flush); err != nil {
			t.Fatalf("%s: records are neither acknowledged nor refused: %v", x.name, err)
		}
	}
	s.node.PowerCut() // what was acknowledged last must stay too
	s.gate.cut(true, s.random)
	s.node.Restart(t)
	s.gate.set(s.node.Dial)
	log := s.readAll()
	s.wait(log)
	stopReading()
	readers.Wait()
	s.judge(log)
	t.Logf("disturbances: %v", disturbances)
}

// readAll reads what the log has in the end, by partition.
func (s *soak) readAll() [soakPartitions][]string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(s.client()).ListEndOffsets(ctx, soakTopic)
	if err := errors.Join(err, ends.Error()); err != nil {
		s.t.Fatal(err)
	}
	var out [soakPartitions][]string
	missing := int64(0)
	ends.Each(func(o kadm.ListedOffset) { missing += o.Offset })
	c := s.client(kgo.ConsumeTopics(soakTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for missing > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			s.t.Fatalf("%d records are missing: %v", missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if int64(len(out[r.Partition])) != r.Offset {
				s.t.Fatalf("partition %d: offset %d after %d", r.Partition, r.Offset, len(out[r.Partition])-1)
			}
			out[r.Partition] = append(out[r.Partition], string(r.Value))
			missing--
		})
	}
	return out
}

// wait lets the readers come to the end.
func (s *soak) wait(log [soakPartitions][]string) {
	s.t.Helper()
	done := func() bool {
		s.seen.mu.Lock()
		defer s.seen.mu.Unlock()
		for _, r := range s.readers {
			for p := range log {
				if r.next[p] < int64(len(log[p])) {
					return false
				}
			}
		}
		return true
	}
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Errorf("the readers do not reach the end of the log: %v %v", s.readers[0].next, s.readers[1].next)
			return
		}
	}
}

// judge holds what clients were told and have seen against the log.
func (s *soak) judge(log [soakPartitions][]string) {
	s.t.Helper()
	for _, f := range s.seen.faults {
		s.t.Error(f)
	}
	for p, values := range s.seen.values {
		gone, first := 0, int64(-1)
		for offset, v := range values {
			if offset < int64(len(log[p])) && log[p][offset] == v {
				continue
			}
			if gone++; first < 0 || offset < first {
				first = offset
			}
		}
		if gone > 0 {
			s.t.Errorf("partition %d: %d records that readers saw are not there any more, the first at offset %d: %q", p, gone,
				first, values[first])
		}
	}
	for _, x := range s.senders {
		s.judgeSender(x, log)
	}
}

func (s *soak) judgeSender(x *sender, log [soakPartitions][]string) {
	s.t.Helper()
	places := map[int][]place{}
	total := 0
	for p, values := range log {
		last := -1
		for offset, v := range values {
			name, number, _ := strings.Cut(v, "/")
			if name != x.name {
				continue
			}
			n, err := strconv.Atoi(number)
			if err != nil || n%soakPartitions != p {
				s.t.Errorf("%s: %q in partition %d", x.name, v, p)
			}
			places[n] = append(places[n], place{int32(p), int64(offset)})
			total++
			if x.idempotent && !x.overtaken && n <= last {
				s.t.Errorf("%s: partition %d: record %d at offset %d comes after %d", x.name, p, n, offset, last)
			}
			last = max(last, n)
		}
	}
	for _, f := range x.forgotten {
		s.t.Errorf("%s: the first batch in flight is out of order: %s", x.name, f)
	}
	lost, moved, twice := 0, 0, 0
	for n, at := range x.acked {
		switch {
		case x.acks == 0: // nobody promised anything
		case len(places[n]) == 0:
			lost++
		case !slices.Contains(places[n], at):
			moved++
		}
	}
	for _, at := range places {
		if len(at) > 1 {
			twice++
		}
	}
	s.t.Logf("%s: sent %d, acknowledged %d, in the log %d (%d more than once), given up %d, overtaken %v, errors %v", x.name,
		x.sent, len(x.acked), total, twice, x.broken, x.overtaken, x.errors)
	if lost > 0 || moved > 0 {
		s.t.Errorf("%s: %d acknowledged records are lost, %d are elsewhere than acknowledged", x.name, lost, moved)
	}
	if x.idempotent && !x.overtaken && twice > 0 {
		s.t.Errorf("%s: %d records are there more than once", x.name, twice)
	}
	if x.acks != 0 && len(x.acked) == 0 {
		s.t.Errorf("%s: nothing was acknowledged", x.name)
	}
	if x.idempotent && len(x.errors) > 0 {
		s.t.Errorf("%s: a producer that may retry for ever gave records up: %v", x.name, x.errors)
	}
}
