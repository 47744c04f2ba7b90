package etl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
)

const (
	partitions = 8
	records    = 8000
	workers    = 3 // at a time
)

// protocols are all ways to share partitions out that the client speaks.
var protocols = []struct {
	name string
	opts []kgo.Opt
}{
	{"range", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
	{"roundrobin", []kgo.Opt{kgo.Balancers(kgo.RoundRobinBalancer())}},
	{"sticky", []kgo.Opt{kgo.Balancers(kgo.StickyBalancer())}},
	{"cooperative-sticky", []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}},
	{"server-uniform", []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}},
	{"server-range", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()}},
}

func TestPipeline(t *testing.T) {
	n := broker.Start(t, "group.min.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=200",
		"group.consumer.session.timeout.ms=3000", "group.consumer.assignment.interval.ms=0")
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	t.Cleanup(cancel)
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { run(t, ctx, n.Addr, p.name, p.opts) })
	}
	n.Stop(t)
}

// pipeline is one group between two topics.
type pipeline struct {
	t        *testing.T
	addr     string
	group    string
	from, to string
	opts     []kgo.Opt
	rnd      *rand.Rand

	mu      sync.Mutex
	owners  map[int32]string // who works on a partition
	robbed  map[claim]bool   // partitions that somebody else was given while the worker had them
	repeats int
	crashed int
	next    map[int32]int64 // the first offset that no worker has seen
}

// claim is a worker's on a partition.
type claim struct {
	worker    string
	partition int32
}

func seed(t *testing.T) uint64 {
	s := uint64(time.Now().UnixNano() % 100000)
	if given := os.Getenv("ETL_SEED"); given != "" {
		s, _ = strconv.ParseUint(given, 10, 64)
	}
	t.Logf("ETL_SEED=%d", s)
	return s
}

func run(t *testing.T, ctx context.Context, addr, name string, opts []kgo.Opt) {
	p := &pipeline{t: t, addr: addr, group: "etl-" + name, from: "from-" + name, to: "to-" + name, opts: opts,
		rnd: rand.New(rand.NewPCG(seed(t), 1)), owners: map[int32]string{}, robbed: map[claim]bool{},
		next: map[int32]int64{}}
	client := p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, topic := range []string{p.from, p.to} {
		if _, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	written := make(chan error, 1)
	go func() { written <- p.produce(ctx, client) }()
	p.work(ctx, admin)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	p.check(ctx, client)
	t.Logf("%d crashes, %d records came again", p.crashed, p.repeats)
}

func (p *pipeline) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.addr), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return cl
}

// produce writes numbered records, slowly enough that members come and go meanwhile.
func (p *pipeline) produce(ctx context.Context, client *kgo.Client) error {
	for i := 0; i < records; i += 200 {
		var rs []*kgo.Record
		for j := i; j < i+200; j++ {
			rs = append(rs, &kgo.Record{Topic: p.from, Partition: int32(j % partitions),
				Value: binary.BigEndian.AppendUint64(nil, uint64(j/partitions))})
		}
		if err := client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			return err
		}
		time.Sleep(120 * time.Millisecond)
	}
	return nil
}

// work keeps workers running until everything is committed. Every now and then one leaves, or dies without a word, and
// another takes its place.
func (p *pipeline) work(ctx context.Context, admin *kadm.Client) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	var running []*worker
	defer func() {
		for _, w := range running {
			w.end(false)
		}
	}()
	for n := 0; ctx.Err() == nil && !p.done(ctx, admin); n++ {
		if len(running) == workers {
			i := p.rnd.IntN(workers)
			w := running[i]
			running = slices.Delete(running, i, i+1)
			w.end(p.rnd.IntN(3) == 0)
		}
		running = append(running, p.start(fmt.Sprintf("worker-%d", n)))
		time.Sleep(time.Duration(200+p.rnd.IntN(500)) * time.Millisecond)
	}
	if ctx.Err() != nil {
		p.t.Error("the group did not get through in time")
	}
}

// done says whether the group has committed everything.
func (p *pipeline) done(ctx context.Context, admin *kadm.Client) bool {
	got, err := admin.FetchOffsets(ctx, p.group)
	if err != nil {
		return false
	}
	sum := int64(0)
	got.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	return sum == records
}

// worker is one member.
type worker struct {
	p      *pipeline
	name   string
	client *kgo.Client
	out    *kgo.Client
	net    *cable
	dying  atomic.Bool // it will not commit any more
	stop   context.CancelFunc
	ended  chan struct{}
}

// cable is a worker's way to the broker, which can be cut.
type cable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

var errCut = errors.New("the cable is cut")

func (c *cable) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = conn.Close()
		return nil, errCut
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func (p *pipeline) start(name string) *worker {
	w := &worker{p: p, name: name, net: &cable{}, ended: make(chan struct{})}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.client = p.client(append([]kgo.Opt{kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.from), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(3 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.RebalanceTimeout(10 * time.Second), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.ClientID(name), kgo.Dialer(w.net.dial),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { w.own(got[p.from]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { w.disown(gone[p.from], false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { w.disown(gone[p.from], true) }),
	}, p.opts...)...)
	w.out = p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	go w.run(ctx)
	return w
}

// end stops a worker in good order, or cuts it off: the group then waits for it until its session ends.
func (w *worker) end(crash bool) {
	if crash {
		w.dying.Store(true)
		time.Sleep(50 * time.Millisecond) // let it write something without committing
	}
	w.stop()
	<-w.ended
	if crash {
		w.p.mu.Lock()
		w.p.crashed++
		w.p.mu.Unlock()
		w.disown(everything(), true)
		w.net.sever()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	if crash {
		cancel() // there is nobody to tell
	}
	w.client.AllowRebalance()
	w.client.LeaveGroupContext(ctx)
	cancel()
	w.client.CloseAllowingRebalance()
	w.disown(everything(), crash)
	w.out.Close()
}

func everything() []int32 {
	var all []int32
	for n := range int32(partitions) {
		all = append(all, n)
	}
	return all
}

// own notes what a worker is given. Somebody else may still think that he has it, if his session has ended without his
// knowing; he must be told then that it is lost.
func (w *worker) own(got []int32) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for _, n := range got {
		if other, taken := w.p.owners[n]; taken && other != w.name {
			w.p.robbed[claim{other, n}] = true
		}
		w.p.owners[n] = w.name
	}
}

func (w *worker) disown(gone []int32, lost bool) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for _, n := range gone {
		if w.p.owners[n] == w.name {
			delete(w.p.owners, n)
		}
		if c := (claim{w.name, n}); w.p.robbed[c] {
			delete(w.p.robbed, c)
			if !lost {
				w.p.t.Errorf("partition %d was given to somebody else while %s had it", n, w.name)
			}
		}
	}
}

// run reads, transforms, writes and commits, in this order. A poll's work is always finished: what is interrupted is
// only the waiting for more.
func (w *worker) run(ctx context.Context) {
	defer close(w.ended)
	for ctx.Err() == nil {
		fetches := w.client.PollRecords(ctx, 100)
		if rs := fetches.Records(); len(rs) > 0 {
			w.load(rs)
		}
		w.client.AllowRebalance()
	}
}

func (w *worker) load(rs []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := make([]*kgo.Record, len(rs))
	for i, r := range rs {
		out[i] = &kgo.Record{Topic: w.p.to, Partition: r.Partition, Value: r.Value}
	}
	w.note(rs)
	if err := w.out.ProduceSync(ctx, out...).FirstErr(); err != nil {
		w.p.t.Errorf("%s: %v", w.name, err)
		return
	}
	if w.dying.Load() {
		return
	}
	// A commit that is refused is one of a member that has been replaced: the records come again, which is allowed.
	_ = w.client.CommitRecords(ctx, rs...)
}

// note counts records that come again.
func (w *worker) note(rs []*kgo.Record) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for _, r := range rs {
		if r.Offset < w.p.next[r.Partition] {
			w.p.repeats++
		}
		w.p.next[r.Partition] = max(w.p.next[r.Partition], r.Offset+1)
	}
}

// check reads the second topic: every number is there, and a number never comes before a smaller one has been there.
func (p *pipeline) check(ctx context.Context, client *kgo.Client) {
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, p.to)
	if err != nil {
		p.t.Fatal(err)
	}
	from, total := map[int32]kgo.Offset{}, int64(0)
	ends.Each(func(o kadm.ListedOffset) { from[o.Partition] = kgo.NewOffset().AtStart(); total += o.Offset })
	reader := p.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.to: from}))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	next := map[int32]uint64{} // the smallest number that has not come
	for read := int64(0); read < total; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			p.t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			read++
			n := binary.BigEndian.Uint64(r.Value)
			if n > next[r.Partition] {
				p.t.Fatalf("partition %d: %d comes where %d should: lost, or out of order", r.Partition, n, next[r.Partition])
			}
			if n == next[r.Partition] {
				next[r.Partition]++
			}
		}
	}
	for n := range int32(partitions) {
		if next[n] != records/partitions {
			p.t.Errorf("partition %d: %d of %d records came through", n, next[n], records/partitions)
		}
	}
	if extra := total - records; extra != int64(p.repeats) {
		p.t.Errorf("%d records were written again, %d were read again", extra, p.repeats)
	}
}
