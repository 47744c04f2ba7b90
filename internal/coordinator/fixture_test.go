package coordinator

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
	"moldau/internal/telemetry"
)

var t0 = time.UnixMilli(1_700_000_000_000)

const testTopic = "__toy_state"

func testTopicID(generation byte) kafka.UUID { return kafka.UUID{0: 4, 1: generation, 15: 201} }

// toy is a machine for tests: keys with values, and one counter that transactions add to. Its requests are the words of
// toyRequest.
type toy struct {
	values  map[string]string
	pending map[Stamp]map[string]string // by open transaction
	log     []string                    // everything it was told but requests
	held    []*Pending
	applied int
	bad     error
}

func newToy() *toy { return &toy{values: map[string]string{}, pending: map[Stamp]map[string]string{}} }

// toyRequest is a request as text: a heartbeat's group id.
func toyRequest(format string, args ...any) *Pending {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group = fmt.Sprintf(format, args...)
	p := NewPending(Call{}, r)
	p.Verify = replica.Trusted
	return p
}

func toyAnswer(text string) Answer {
	r := kmsg.NewPtrHeartbeatResponse()
	r.UnknownTags.Set(7, []byte(text))
	return Answer{Body: r}
}

// text gives an answer as text, errors as their names.
func text(a Answer) string {
	if a.Err != nil {
		return kafka.CodeOf(a.Err).Name()
	}
	var out string
	a.Body.(*kmsg.HeartbeatResponse).UnknownTags.Each(func(_ uint32, v []byte) { out = string(v) })
	return out
}

func (m *toy) Apply(r Record, at Origin) error {
	m.applied++
	k := string(r.Key)
	if k == "bad" {
		return kafka.Errorf(kafka.CorruptMessage, "bad on purpose")
	}
	if k == "broken" {
		panic("on purpose")
	}
	if at.Producer != NoStamp {
		p := m.pending[at.Producer]
		if p == nil {
			p = map[string]string{}
			m.pending[at.Producer] = p
		}
		p[k] = string(r.Value)
		return nil
	}
	if r.Value == nil {
		delete(m.values, k)
	} else {
		m.values[k] = string(r.Value)
	}
	return nil
}

func (m *toy) Ended(p Stamp, commit bool, _ Origin) {
	if commit {
		maps.Copy(m.values, m.pending[p])
	}
	delete(m.pending, p)
}

func (m *toy) state() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m.values)) {
		fmt.Fprintf(&b, "%s=%s ", k, m.values[k])
	}
	for _, p := range slices.SortedFunc(maps.Keys(m.pending), func(a, b Stamp) int { return int(a.ID - b.ID) }) {
		fmt.Fprintf(&b, "(%d/%d %d) ", p.ID, p.Epoch, len(m.pending[p]))
	}
	return strings.TrimSpace(b.String())
}

func (m *toy) Handle(now time.Time, e Event, rnd *rand.Rand) Result {
	switch e := e.(type) {
	case *Pending:
		return m.request(now, e, strings.Fields(e.Body.(*kmsg.HeartbeatRequest).Group))
	case TimerFired:
		m.log = append(m.log, fmt.Sprintf("timer %s at %d", e.Key.Scope, now.Sub(t0).Milliseconds()))
		if e.Key.Member == "release" {
			return Result{Scope: e.Key.Scope, Replies: m.release()}
		}
	case ImageChanged:
		m.log = append(m.log, "image")
	case Loaded:
		m.log = append(m.log, "loaded")
	case string:
		m.log = append(m.log, e)
		if n, ok := strings.CutPrefix(e, "chain "); ok && n != "" {
			return Result{Next: []Event{"chain " + n[1:], "after " + n}}
		}
	}
	return Result{}
}

func (m *toy) release() []Reply {
	var out []Reply
	for _, p := range m.held {
		out = append(out, Reply{p, toyAnswer("released")})
	}
	m.held = nil
	return out
}

func (m *toy) request(now time.Time, p *Pending, w []string) Result {
	answer := func(format string, args ...any) []Reply {
		return []Reply{{p, toyAnswer(fmt.Sprintf(format, args...))}}
	}
	res := Result{Scope: w[1]}
	switch w[0] {
	case "set": // set KEY VALUE
		res.Records, res.Replies = []Record{{[]byte(w[1]), []byte(w[2])}}, answer("ok %s", w[2])
	case "then": // as set, and tells in the log and in the answer what became of it
		res.Records = []Record{{[]byte(w[1]), []byte(w[2])}}
		res.Then = func(_ time.Time, err error) Result {
			return Result{Scope: w[1], Replies: answer("then %v %s", err, m.values[w[1]])}
		}
	case "delete":
		res.Records, res.Replies = []Record{{[]byte(w[1]), nil}}, answer("gone")
	case "get":
		res.Replies = answer("%s", m.values[w[1]])
	case "all":
		res.WholeShard, res.Replies = true, answer("%s", m.state())
	case "big": // big KEY COUNT SIZE [split]
		var n, size int
		_, _ = fmt.Sscan(w[2], &n)
		_, _ = fmt.Sscan(w[3], &size)
		for i := range n {
			res.Records = append(res.Records, Record{fmt.Appendf(nil, "%s-%d", w[1], i), bytes.Repeat([]byte("x"), size)})
		}
		res.Split, res.Replies = len(w) > 4, answer("big")
	case "txn": // txn KEY VALUE PRODUCER EPOCH
		s := stampOf(w[3], w[4])
		res.Stamp = &s
		res.Records, res.Replies = []Record{{[]byte(w[1]), []byte(w[2])}}, answer("pending")
	case "hold": // until a timer or release
		m.held = append(m.held, p)
		if len(w) > 2 {
			var ms int
			_, _ = fmt.Sscan(w[2], &ms)
			res.Timers = []Timer{{TimerKey{Scope: w[1], Member: "release"}, now.Add(time.Duration(ms) * time.Millisecond)}}
		}
	case "release":
		res.Replies = append(m.release(), answer("done")...)
	case "timer": // timer NAME MS; 0 cancels
		var ms int
		_, _ = fmt.Sscan(w[2], &ms)
		at := now.Add(time.Duration(ms) * time.Millisecond)
		if ms == 0 {
			at = time.Time{}
		}
		res.Timers, res.Replies = []Timer{{TimerKey{Scope: w[1]}, at}}, answer("set")
	case "chain":
		res.Next, res.Replies = []Event{"chain abc", "last"}, answer("chained")
	case "panic": // after what cannot be trusted
		m.values[w[1]] = "half"
		panic("on purpose")
	case "late": // as panic, with a write before
		res.Records, res.Replies = []Record{{[]byte(w[1]), []byte(w[2])}}, answer("ok %s", w[2])
		res.Then = func(time.Time, error) Result { panic("on purpose") }
	case "twice":
		res.Replies = append(answer("one"), answer("two")...)
	}
	return res
}

func stampOf(id, epoch string) Stamp {
	var s Stamp
	_, _ = fmt.Sscan(id, &s.ID)
	_, _ = fmt.Sscan(epoch, &s.Epoch)
	return s
}

// world is a node without its network: the partitions of the topic in memory, a hand-turned clock, and an image made of
// records.
type world struct {
	*Runtime
	t        testing.TB
	mem      *vfs.Mem
	faults   *vfs.FaultFS
	dir      *log.Dir
	config   *log.Config
	metrics  *telemetry.Registry
	machines map[int32]*toy
	logged   *bytes.Buffer

	mu      sync.Mutex
	now     time.Time
	timers  []*worldTimer
	image   *metadata.Image
	loads   []func() bool
	manual  bool // loads wait for runLoads
	held    bool // flushes wait for flush
	flushes []*replica.Partition
	failed  []error
}

type worldTimer struct {
	at   time.Time
	f    func()
	done bool
}

type worldOptions struct {
	partitions int32
	configure  func(*log.Config)
	options    func(*Options)
	mem        *vfs.Mem // a disk that was used before
	manual     bool
	noTopic    bool
}

func newWorld(t testing.TB, o worldOptions) *world {
	t.Helper()
	w := &world{t: t, mem: o.mem, now: t0, image: metadata.New(), machines: map[int32]*toy{}, logged: &bytes.Buffer{},
		metrics: telemetry.NewRegistry(), manual: o.manual}
	if w.mem == nil {
		w.mem = vfs.NewMem(vfs.MemOptions{})
	}
	var err error
	if w.faults, err = vfs.Faulty(w.mem, ""); err != nil {
		t.Fatal(err)
	}
	meta := log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{0: 9, 15: 255}}
	if _, err := w.faults.Stat("/data/meta.properties"); err != nil {
		if err := log.FormatDir(w.faults, "/data", meta); err != nil {
			t.Fatal(err)
		}
	}
	if w.dir, err = log.OpenDir(w.faults, "/data", meta); err != nil {
		t.Fatal(err)
	}
	c := log.DefaultConfig()
	c.Compact, c.Delete = true, false
	if o.configure != nil {
		o.configure(&c)
	}
	w.config = &c
	w.open(o)
	if !o.noTopic {
		w.create(1, max(o.partitions, 1))
	}
	return w
}

// open makes manager and runtime over what the directory holds.
func (w *world) open(o worldOptions) {
	manager := replica.NewManager(replica.ManagerOptions{Self: 1, Dirs: []*log.Dir{w.dir},
		Config:  func(*metadata.Image, string) *log.Config { return w.config },
		NewUUID: func() kafka.UUID { return kafka.UUID{0: 3, 15: 77} }})
	found, err := w.dir.Partitions()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range found {
		l, _, err := w.dir.Open(p.Partition, w.config, log.Options{}, w.now)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := manager.Adopt(l); err != nil {
			w.t.Fatal(err)
		}
	}
	seed := uint64(0)
	options := Options{Topic: testTopic, Self: 1, Partitions: manager, Host: w, Now: w.clock, After: w.after, Go: w.run,
		NewMachine: func(partition int32, _ *metadata.Image) Machine {
			m := newToy()
			w.machines[partition] = m
			return m
		},
		Rand:          func() *rand.Rand { seed++; return rand.New(rand.NewPCG(seed, 1)) },
		CommitTimeout: func() time.Duration { return 5 * time.Second }, LoadBytes: 5 << 20,
		KeepBytes: func() int { return 1 << 20 }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: telemetry.NewCoordinator(w.metrics, "toy", func() telemetry.CoordinatorCounts { return w.Counts() })}
	if o.options != nil {
		o.options(&options)
	}
	w.Runtime = New(options)
}

func (w *world) run(step func() bool) {
	if w.manual {
		w.loads = append(w.loads, step)
		return
	}
	for step() {
	}
}

// runLoads does the steps of loads that wait, at most limit each; 0: all.
func (w *world) runLoads(limit int) {
	loads := w.loads
	w.loads = nil
	for _, step := range loads {
		for n := 1; step(); n++ {
			if n == limit {
				w.loads = append(w.loads, step)
				break
			}
		}
	}
}

// apply puts records into the image, and makes partitions and runtime follow.
func (w *world) apply(rs ...metadata.Record) {
	w.t.Helper()
	next, diff, err := w.image.Apply(rs)
	if err != nil {
		w.t.Fatal(err)
	}
	w.image = next.WithPosition(w.image.Offset()+kafka.Offset(len(rs)), 1, w.clock().UnixMilli())
	w.o.Partitions.Apply(w.clock(), w.image, diff, true, w)
	w.Changed(w.image, diff)
}

// create makes the topic, led by node 1.
func (w *world) create(generation byte, partitions int32) {
	id := testTopicID(generation)
	rs := []metadata.Record{&metadata.TopicRecord{Name: testTopic, TopicID: id}}
	for i := range partitions {
		rs = append(rs, &metadata.PartitionRecord{PartitionID: i, TopicID: id, Replicas: []kafka.NodeID{1, 2},
			ISR: []kafka.NodeID{1}, Leader: 1, Directories: make([]kafka.UUID, 2)})
	}
	w.apply(rs...)
}

// lead makes a node the leader of partition 0.
func (w *world) lead(leader kafka.NodeID) {
	w.t.Helper()
	w.apply(&metadata.PartitionChangeRecord{TopicID: testTopicID(1), Leader: &leader})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) after(d time.Duration, f func()) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	timer := &worldTimer{at: w.now.Add(d), f: f}
	w.timers = append(w.timers, timer)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		timer.done = true
	}
}

// advance turns the clock and runs what is due, each at its own time.
func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	end := w.now.Add(d)
	for {
		w.timers = slices.DeleteFunc(w.timers, func(x *worldTimer) bool { return x.done })
		slices.SortStableFunc(w.timers, func(a, b *worldTimer) int { return a.at.Compare(b.at) })
		if len(w.timers) == 0 || w.timers[0].at.After(end) {
			break
		}
		timer := w.timers[0]
		timer.done = true
		if timer.at.After(w.now) {
			w.now = timer.at
		}
		w.mu.Unlock()
		timer.f()
		w.mu.Lock()
	}
	w.now = end
	w.mu.Unlock()
}

// RequestFlush implements replica.Host: the disk syncs at once unless held.
func (w *world) RequestFlush(p *replica.Partition) {
	w.mu.Lock()
	held := w.held
	if held {
		w.flushes = append(w.flushes, p)
	}
	w.mu.Unlock()
	if !held {
		w.sync(p)
	}
}

func (w *world) sync(p *replica.Partition) {
	token := p.BeginFlush()
	if token.Empty() {
		token.Drop()
		return
	}
	e := p.Flushed(w.clock(), token, token.Sync())
	e.Run(w)
}

func (w *world) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// flush syncs what was held back, and everything at once from now on.
func (w *world) flush() {
	w.mu.Lock()
	round := w.flushes
	w.flushes, w.held = nil, false
	w.mu.Unlock()
	for _, p := range round {
		w.sync(p)
	}
}

// Verify implements replica.Host.
func (w *world) Verify(*replica.Partition, replica.TxnCheck) {}

// ProposeISR implements replica.Host.
func (w *world) ProposeISR(*replica.Partition, replica.ISRProposal) {}

// DirFailed implements replica.Host.
func (w *world) DirFailed(d *log.Dir, err error) {
	w.mu.Lock()
	w.failed = append(w.failed, err)
	w.mu.Unlock()
	w.o.Partitions.DirFailed(d, w)
}

// DirFull implements replica.Host.
func (w *world) DirFull(*log.Dir) {}

// LogBroken implements replica.Host.
func (w *world) LogBroken(*replica.Partition, error) {}

// ask sends a request and gives the answer, "..." while there is none.
func (w *world) ask(format string, args ...any) string {
	w.t.Helper()
	return w.got(w.send(format, args...))
}

func (w *world) send(format string, args ...any) *Pending {
	p := toyRequest(format, args...)
	w.Do(strings.Fields(fmt.Sprintf(format, args...))[1], p)
	return p
}

func (w *world) got(p *Pending) string {
	w.t.Helper()
	a, ok := p.Answer().Get()
	if !ok {
		return "..."
	}
	return text(a)
}

// expect fails the test unless an answer is as wanted.
func (w *world) expect(want, got string) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("answered %q, want %q", got, want)
	}
}

// state gives what partition 0 holds, without waiting for anything.
func (w *world) state() string {
	w.t.Helper()
	var out string
	found := false
	w.InspectAll(func(p int32, m Machine) {
		if p == 0 {
			out, found = m.(*toy).state(), true
		}
	})
	if !found {
		w.t.Fatal("partition 0 is not active")
	}
	return out
}

// reloaded gives what a machine holds that reads the log of partition 0 anew.
func (w *world) reloaded() string {
	w.t.Helper()
	part, err := w.o.Partitions.Get(kafka.TopicPartition{Topic: testTopic})
	if err != nil {
		w.t.Fatal(err)
	}
	s := newShard(w.Runtime, testTopicID(1), 0)
	m := newToy()
	l := &load{s: s, part: part, machine: m}
	for {
		more, err := l.read()
		if err != nil {
			w.t.Fatal(err)
		}
		if !more && l.next >= l.end() {
			return m.state()
		}
	}
}

// partition gives the replica of partition 0.
func (w *world) partition() *replica.Partition {
	w.t.Helper()
	p, err := w.o.Partitions.Get(kafka.TopicPartition{Topic: testTopic})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// code is the error of a promise that must be set.
func code(t testing.TB, get func() (error, bool)) kafka.Code {
	t.Helper()
	err, ok := get()
	if !ok {
		t.Fatal("not set")
	}
	if err == nil {
		return kafka.None
	}
	return kafka.CodeOf(err)
}

// batches reads the log of partition 0.
func (w *world) batches() []record.Batch {
	w.t.Helper()
	v := w.partition().Log().View()
	x, err := v.Read(0, v.End, 1<<30, true)
	if err != nil {
		w.t.Fatal(err)
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		w.t.Fatal(err)
	}
	var out []record.Batch
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			w.t.Fatal(err)
		}
		out, b = append(out, batch), rest
	}
	return out
}

// fault makes the disk misbehave; see vfs.FaultFS.
func (w *world) fault(rules string) {
	w.t.Helper()
	if _, err := w.faults.Add(rules); err != nil {
		w.t.Fatal(err)
	}
}

// metric reads one metric, of one series.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.metrics.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, name+"{") {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				w.t.Fatal(err)
			}
			return v
		}
	}
	w.t.Fatalf("%s is not served", name)
	return 0
}

// begin takes what is to be synced now, and gives a function that syncs it.
func (w *world) begin() func() {
	p := w.partition()
	token := p.BeginFlush()
	return func() {
		e := p.Flushed(w.clock(), token, token.Sync())
		e.Run(w)
	}
}
