package node

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// cleaner compacts logs: as many at once as log.cleaner.threads says, each time the one that needs it most. A log that
// cannot be compacted is reported and left alone until the node restarts; the others go on.
type cleaner struct {
	n    *Node
	seed maphash.Seed
	rate throttle

	mu      sync.Mutex
	running int // workers
	busy    map[*replica.Partition]bool
	refused map[*replica.Partition]bool
}

func newCleaner(n *Node) *cleaner {
	return &cleaner{n: n, seed: maphash.MakeSeed(), busy: map[*replica.Partition]bool{},
		refused: map[*replica.Partition]bool{}}
}

// cleanerSettings are the dynamic settings as one look at them gives.
type cleanerSettings struct {
	workers int
	backoff time.Duration
	rate    float64 // bytes in a second
	options log.CleanOptions
}

func (c *cleaner) settings() cleanerSettings {
	r := resolver(c.n.config, c.n.self, c.n.publisher.Image())
	workers := int(r.Broker("log.cleaner.threads").Int64())
	share := int64(max(workers, 1))
	return cleanerSettings{
		workers: workers,
		backoff: time.Duration(min(r.Broker("log.cleaner.backoff.ms").Int64(), math.MaxInt64/int64(time.Millisecond))) *
			time.Millisecond,
		rate: r.Broker("log.cleaner.io.max.bytes.per.second").Float64(),
		options: log.CleanOptions{
			Hash:        func(key []byte) uint64 { return maphash.Bytes(c.seed, key) },
			KeyBytes:    r.Broker("log.cleaner.dedupe.buffer.size").Int64() / share,
			KeyLoad:     r.Broker("log.cleaner.io.buffer.load.factor").Float64(),
			BufferBytes: int(r.Broker("log.cleaner.io.buffer.size").Int64() / share),
		},
	}
}

// supervise starts workers until there are as many as configured, and looks again from time to time.
func (c *cleaner) supervise(u *upkeep, loops *sync.WaitGroup) {
	const look = time.Second
	u.repeat(look, 0, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for c.running < c.settings().workers && !u.stopping() {
			index := c.running
			c.running++
			loops.Go(func() { c.work(u, index) })
		}
	})
}

// work compacts one log after the other until the node stops or there are fewer workers than its index.
func (c *cleaner) work(u *upkeep, index int) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}()
	for !u.stopping() {
		s := c.settings()
		if c.leaves(index, s) {
			return
		}
		if p, d := c.pick(u); p != nil {
			c.clean(u, p, d, s)
			c.release(p)
			continue
		}
		u.sleep(max(s.backoff, time.Millisecond))
	}
}

// leaves says whether the worker with the highest index should end because the setting was lowered.
func (c *cleaner) leaves(index int, s cleanerSettings) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return index >= s.workers && index == c.running-1
}

// pick claims the partition that needs compaction most; nil when none does.
func (c *cleaner) pick(u *upkeep) (*replica.Partition, log.Dirt) {
	var best *replica.Partition
	var dirt log.Dirt
	now := c.n.o.Now()
	waiting, uncleanable, highest := 0, 0, 0.0
	u.partitions(func(p *replica.Partition) {
		config := p.Config()
		if config == nil || !config.Compact {
			return
		}
		d, e, err := p.Dirt(now)
		e.Run(c.n)
		if c.isRefused(p) {
			uncleanable++
			return
		}
		if err != nil {
			c.n.log.Error("a log cannot be looked through for compaction", "partition", p.TopicPartition().String(), "error", err)
			return
		}
		highest = max(highest, d.Ratio())
		if !d.Due(config) {
			return
		}
		waiting++
		if !c.isBusy(p) && (best == nil || d.Before(dirt)) {
			best, dirt = p, d
		}
	})
	m := c.n.metrics.cleaner
	m.Waiting.Set(int64(waiting))
	m.Uncleanable.Set(int64(uncleanable))
	m.DirtyRatio.SetFloat(highest)
	if best == nil || !c.claim(best) {
		return nil, log.Dirt{}
	}
	return best, dirt
}

func (c *cleaner) claim(p *replica.Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[p] {
		return false
	}
	c.busy[p] = true
	c.n.metrics.cleaner.Running.Set(int64(len(c.busy)))
	return true
}

func (c *cleaner) release(p *replica.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, p)
	c.n.metrics.cleaner.Running.Set(int64(len(c.busy)))
}

func (c *cleaner) isBusy(p *replica.Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy[p]
}

func (c *cleaner) isRefused(p *replica.Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused[p]
}

// refuse leaves a partition alone from now on. Partitions that are gone are forgotten on the way.
func (c *cleaner) refuse(p *replica.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.refused { // the order does not show
		if other.Role() == replica.Gone {
			delete(c.refused, other)
		}
	}
	c.refused[p] = true
}

// cleanStep is how many bytes a step of a compaction reads and writes.
const cleanStep = 256 << 10

// clean compacts one log.
func (c *cleaner) clean(u *upkeep, p *replica.Partition, d log.Dirt, s cleanerSettings) {
	start := c.n.o.Now()
	x, err := p.Clean(start, d, s.options)
	for done := false; !done && err == nil; {
		if u.stopping() && !x.Swapping() {
			x.Abandon()
			return
		}
		var moved int64
		var e replica.Effects
		moved, done, e, err = x.Step(cleanStep)
		e.Run(c.n)
		c.n.metrics.cleaner.Bytes.Add(int(moved))
		u.sleep(c.rate.take(c.n.o.Now(), moved, s.rate))
	}
	if err == nil {
		c.done(p, x.Progress(), c.n.o.Now().Sub(start))
		return
	}
	if x != nil {
		x.Abandon()
	}
	c.failed(u, p, err, s)
}

func (c *cleaner) done(p *replica.Partition, r log.Cleaned, took time.Duration) {
	c.n.metrics.cleaned(r, took)
	c.n.log.Info("a log was compacted", "partition", p.TopicPartition().String(), "from", r.From, "end", r.End,
		"keys", r.Keys, "bytesBefore", r.BytesBefore, "bytesAfter", r.BytesAfter, "segmentsBefore", r.SegmentsBefore,
		"segmentsAfter", r.SegmentsAfter, "took", took, "partial", r.Partial)
}

// failed judges why a compaction ended early.
func (c *cleaner) failed(u *upkeep, p *replica.Partition, err error, s cleanerSettings) {
	if errors.Is(err, log.ErrCleanAborted) {
		u.sleep(max(s.backoff, time.Millisecond))
		return
	}
	c.n.metrics.cleaner.Failures.Inc()
	if vfs.IsDiskFailure(err) || vfs.IsNoSpace(err) || vfs.IsOutOfFiles(err) { // this log is not to blame
		c.n.log.Error("compaction failed", "partition", p.TopicPartition().String(), "error", err)
		u.sleep(max(s.backoff, time.Millisecond))
		return
	}
	c.refuse(p)
	c.n.log.Error("a log cannot be compacted and is left as it is until the next start",
		"partition", p.TopicPartition().String(), "error", err)
}

// throttle spreads bytes over time, for all workers together.
type throttle struct {
	mu   sync.Mutex
	free time.Time // when what was taken so far is paid for
}

// take says how long to wait for bytes at rate bytes in a second.
func (t *throttle) take(now time.Time, bytes int64, rate float64) time.Duration {
	if bytes == 0 || rate <= 0 || rate > math.MaxInt64 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(min(float64(bytes)/rate*float64(time.Second), float64(time.Hour))))
	return t.free.Sub(now)
}
