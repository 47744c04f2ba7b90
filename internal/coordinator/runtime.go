package coordinator

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
	"moldau/internal/telemetry"
)

// Options are what a Runtime depends on.
type Options struct {
	// Topic is the internal topic that holds the state.
	Topic string
	Self  kafka.NodeID
	// NewMachine makes the empty machine of a partition that is about to be loaded.
	NewMachine func(partition int32, image *metadata.Image) Machine
	Partitions *replica.Manager
	// Host runs the effects of partitions.
	Host replica.Host
	Now  func() time.Time
	// After calls f once after d unless the returned function is called before. It never calls f itself: a shard's lock
	// is held.
	After func(d time.Duration, f func()) (cancel func())
	// Go runs step again and again, on a goroutine of its choice, until it answers false. The owner of the goroutine may
	// stop between two steps; what it does not run any more stays in the state of loading.
	Go func(step func() (again bool))
	// Work takes what a machine asks of others; it must not block. done gives the event that comes of it back, now or
	// later, once or often; alive says whether that would still be heard. Machines without Outgoing need no Work.
	Work func(w Work, at ShardID, alive func() bool, done func(Event))
	// Rand gives a random source of its own to every shard.
	Rand func() *rand.Rand
	// CommitTimeout is how long a request waits for its records to be committed before it is answered with an error.
	CommitTimeout func() time.Duration
	// Codec compresses the records, where the topic keeps what its producers chose.
	Codec record.Codec
	// LoadBytes is how much of the log one step of a load reads at most; a larger batch is read whole.
	LoadBytes int
	// KeepBytes is the largest write buffer that a shard keeps for the next write.
	KeepBytes func() int
	Log       *slog.Logger
	Metrics   telemetry.Coordinator
}

// ShardID names a shard in its time.
type ShardID struct {
	Partition   int32
	LeaderEpoch kafka.LeaderEpoch // in which it was loaded
}

// Runtime holds the shards that this node leads. It is safe for concurrent use.
type Runtime struct {
	o      Options
	writes sync.Pool // *write
	table  atomic.Pointer[table]

	mu     sync.Mutex // guards changes of table
	closed bool
}

// table is the topic as the newest image has it. It is immutable; changes replace it.
type table struct {
	image   *metadata.Image
	topicID kafka.UUID
	shards  []*shard // by partition; nil: led by another node. Empty: there is no topic
}

// New makes a Runtime without shards: the first Changed brings them.
func New(o Options) *Runtime {
	r := &Runtime{o: o}
	r.writes.New = func() any {
		w := &write{}
		w.Done = func(*replica.AppendWaiter) { w.committed() }
		return w
	}
	r.table.Store(&table{})
	return r
}

// PartitionFor gives the partition that a group or transactional id belongs to. It reports false while the topic does not
// exist.
func (r *Runtime) PartitionFor(id string) (int32, bool) {
	n := len(r.table.Load().shards)
	if n == 0 {
		return 0, false
	}
	return partitionOf(id, n), true
}

// Do gives a request to the machine of the shard that id belongs to. The answer's Err is NotCoordinator when that shard is
// not led here or its log cannot be read, CoordinatorLoadInProgress while it is loaded, CoordinatorNotAvailable when the
// runtime is closed or the records were not committed in time, and otherwise what the machine says.
func (r *Runtime) Do(id string, p *Pending) *promise.Promise[Answer] {
	t := r.table.Load()
	if len(t.shards) == 0 {
		p.answer.Set(Answer{Err: r.nobody()})
		return &p.answer
	}
	r.ask(t.shards[partitionOf(id, len(t.shards))], p)
	return &p.answer
}

func (r *Runtime) ask(s *shard, p *Pending) {
	if s == nil {
		p.answer.Set(Answer{Err: r.nobody()})
		return
	}
	s.request(p)
}

// nobody is why there is no shard.
func (r *Runtime) nobody() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return kafka.CoordinatorNotAvailable
	}
	return kafka.NotCoordinator
}

// Each gives one request to every shard that this node leads, in the order of partitions; what is being loaded or could
// not be answers as Do does.
func (r *Runtime) Each(request func() *Pending) []*promise.Promise[Answer] {
	var out []*promise.Promise[Answer]
	for _, s := range r.table.Load().shards {
		if s != nil {
			p := request()
			s.request(p)
			out = append(out, &p.answer)
		}
	}
	return out
}

// Inspect shows the machine that id belongs to. f must only read, keep nothing, and be quick: the shard waits. The errors
// are those of Do.
func (r *Runtime) Inspect(id string, f func(Machine)) error {
	t := r.table.Load()
	if len(t.shards) == 0 {
		return r.nobody()
	}
	s := t.shards[partitionOf(id, len(t.shards))]
	if s == nil {
		return r.nobody()
	}
	return s.inspect(f)
}

// InspectAll shows every machine that is loaded, in the order of partitions; as Inspect.
func (r *Runtime) InspectAll(f func(partition int32, m Machine)) {
	for _, s := range r.table.Load().shards {
		if s != nil {
			_ = s.inspect(func(m Machine) { f(s.tp.Partition, m) }) // one that is not loaded has nothing to show
		}
	}
}

// EndTransaction writes the marker that ends a producer's transaction to a partition, and tells its machine. The promise
// is set when the marker is committed, or with the reason why it is not: the errors of Do, those of markers in
// replica.Partition.Append.
func (r *Runtime) EndTransaction(m Marker) *promise.Promise[error] {
	t := r.table.Load()
	if m.Partition < 0 || int(m.Partition) >= len(t.shards) || t.shards[m.Partition] == nil {
		return promise.Done(r.nobody())
	}
	return t.shards[m.Partition].end(m)
}

// Close ends all shards: what is parked is answered, and nothing is appended any more once Close has returned. Requests
// that wait for the disk are answered by it.
func (r *Runtime) Close() {
	r.mu.Lock()
	old := r.table.Load()
	r.closed = true
	r.table.Store(&table{image: old.image})
	r.mu.Unlock()
	for _, s := range old.shards {
		if s != nil {
			s.close()
		}
	}
}
