package replica

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Unthrottled is the rate that bounds nothing, as Kafka's settings have it.
const Unthrottled int64 = math.MaxInt64

// Quota bounds how many bytes a second are copied, as Kafka's ReplicationQuotaManager does: what was copied counts over a
// window of samples, and whoever wants to copy more asks first whether that is too much already. So a single answer may
// exceed it, and later ones wait until the average is back below. It is safe for concurrent use; the zero value must not be
// used.
type Quota struct {
	rate   atomic.Int64 // bytes per second, Unthrottled for none
	sample time.Duration

	mu      sync.Mutex
	samples []quotaSample // a ring
	current int
}

// quotaSample is what was copied in a stretch of time that began at start; zero start: nothing.
type quotaSample struct {
	start time.Time
	bytes int64
}

// NewQuota makes a quota that bounds nothing yet, and that looks at so many samples of a length (the settings
// replication.quota.window.num and replication.quota.window.size.seconds).
func NewQuota(samples int, length time.Duration) *Quota {
	q := &Quota{sample: length, samples: make([]quotaSample, max(samples, 1))}
	q.rate.Store(Unthrottled)
	return q
}

// SetRate changes the bound, in bytes per second.
func (q *Quota) SetRate(bytesPerSecond int64) { q.rate.Store(bytesPerSecond) }

// Rate is the bound, in bytes per second.
func (q *Quota) Rate() int64 { return q.rate.Load() }

// Record counts bytes that were copied.
func (q *Quota) Record(now time.Time, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.samples[q.current]
	if s.start.IsZero() || now.Sub(s.start) >= q.sample {
		if !s.start.IsZero() {
			q.current = (q.current + 1) % len(q.samples)
			s = &q.samples[q.current]
		}
		*s = quotaSample{start: now}
	}
	s.bytes += bytes
}

// Exceeded says whether more was copied than the bound allows, so that nothing should be for now.
func (q *Quota) Exceeded(now time.Time) bool {
	rate := q.rate.Load()
	if rate == Unthrottled {
		return false
	}
	bytes, elapsed := q.measure(now)
	return float64(bytes) > float64(rate)*elapsed.Seconds()
}

// Wait is how long nothing should be copied for the average to be back at the bound: 0 while it is not exceeded, and never
// longer than the window, after which all is forgotten.
func (q *Quota) Wait(now time.Time) time.Duration {
	if !q.Exceeded(now) {
		return 0
	}
	window := q.sample * time.Duration(len(q.samples))
	bytes, elapsed := q.measure(now)
	need := float64(bytes) / float64(max(q.rate.Load(), 1)) * float64(time.Second)
	if need >= float64(window+elapsed) {
		return window
	}
	return max(time.Duration(need)-elapsed, time.Millisecond)
}

// measure gives what was copied within the window, and over how long: at least one sample.
func (q *Quota) measure(now time.Time) (bytes int64, elapsed time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	window := q.sample * time.Duration(len(q.samples))
	for i := range q.samples {
		s := &q.samples[i]
		age := now.Sub(s.start)
		if s.start.IsZero() || age >= window {
			*s = quotaSample{}
			continue
		}
		bytes += s.bytes
		elapsed = max(elapsed, age)
	}
	return bytes, max(elapsed, q.sample)
}
