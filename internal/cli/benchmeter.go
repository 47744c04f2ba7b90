package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in microseconds up to ten minutes, to three digits.
const (
	longestLatency  = 10 * time.Minute
	latencyDigits   = 3
	progressEvery   = time.Second
	bytesOfMegabyte = 1e6
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longestLatency.Microseconds(), latencyDigits)
}

// meter counts records and times, and says every second how it goes.
type meter struct {
	mu      sync.Mutex
	begun   time.Time
	records int64
	bytes   int64
	total   *hdrhistogram.Histogram
	recent  *hdrhistogram.Histogram
	seen    int64 // records and bytes at the last line of progress
	seenB   int64
	stop    chan struct{}
	done    sync.WaitGroup
}

// startMeter starts the clock; lines of progress go to w.
func startMeter(w io.Writer, what string) *meter {
	m := &meter{begun: time.Now(), total: newHistogram(), recent: newHistogram(), stop: make(chan struct{})}
	m.done.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintln(w, m.progress(what))
			case <-m.stop:
				return
			}
		}
	})
	return m
}

// add counts records with a common latency.
func (m *meter) add(records, bytes int64, latency time.Duration) {
	us := min(max(latency, time.Microsecond), longestLatency).Microseconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records += records
	m.bytes += bytes
	_ = m.total.RecordValue(us) // in range by the line above
	_ = m.recent.RecordValue(us)
}

func (m *meter) progress(what string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := progressEvery.Seconds()
	line := fmt.Sprintf("%4s  %s %.0f records/s  %.1f MB/s  p50 %s  p99 %s  max %s",
		time.Since(m.begun).Round(time.Second), what, float64(m.records-m.seen)/seconds,
		float64(m.bytes-m.seenB)/bytesOfMegabyte/seconds, quantile(m.recent, 50), quantile(m.recent, 99),
		quantile(m.recent, 100))
	m.seen, m.seenB = m.records, m.bytes
	m.recent.Reset()
	return line
}

// finish stops the clock and gives the result.
func (m *meter) finish() benchResult {
	took := time.Since(m.begun)
	close(m.stop)
	m.done.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return benchResult{Records: m.records, Bytes: m.bytes, Seconds: took.Seconds(),
		RecordsPerSecond: float64(m.records) / took.Seconds(),
		MBPerSecond:      float64(m.bytes) / bytesOfMegabyte / took.Seconds(), Latency: latencyOf(m.total)}
}

// benchResult is what a benchmark tells. A megabyte has 10^6 bytes.
type benchResult struct {
	Bench            string       `json:"bench"`
	Records          int64        `json:"records"`
	Bytes            int64        `json:"bytes"`
	Seconds          float64      `json:"seconds"`
	RecordsPerSecond float64      `json:"recordsPerSecond"`
	MBPerSecond      float64      `json:"megabytesPerSecond"`
	Latency          latencyView  `json:"latency"`
	EndToEnd         *latencyView `json:"endToEnd,omitempty"`
	Failed           int64        `json:"failed"`
	what             string       // what Latency is the time of
}

// latencyView is a distribution of times.
type latencyView struct {
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P99Ms  float64 `json:"p99Ms"`
	P999Ms float64 `json:"p999Ms"`
	MaxMs  float64 `json:"maxMs"`
}

func latencyOf(h *hdrhistogram.Histogram) latencyView {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	if h.TotalCount() == 0 {
		return latencyView{}
	}
	return latencyView{h.Mean() / 1000, ms(h.ValueAtPercentile(50)), ms(h.ValueAtPercentile(99)),
		ms(h.ValueAtPercentile(99.9)), ms(h.Max())}
}

func quantile(h *hdrhistogram.Histogram, q float64) string {
	if h.TotalCount() == 0 {
		return "-"
	}
	return msText(float64(h.ValueAtPercentile(q)) / 1000)
}

// msText gives milliseconds with three digits that count.
func msText(ms float64) string {
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func (v latencyView) String() string {
	return fmt.Sprintf("p50 %s  p99 %s  p99.9 %s  max %s", msText(v.P50Ms), msText(v.P99Ms), msText(v.P999Ms), msText(v.MaxMs))
}

// print writes the result to the command's output.
func (r benchResult) print(b *bench) error {
	if b.flags.output.value == "json" {
		return writeJSON(b.out, r)
	}
	fmt.Fprintf(b.out, "%s: %d records of %d bytes in %.1f s: %.0f records/s, %.1f MB/s\n", r.Bench, r.Records,
		b.flags.recordSize, r.Seconds, r.RecordsPerSecond, r.MBPerSecond)
	fmt.Fprintf(b.out, "%-11s %s\n", r.what, r.Latency)
	if r.EndToEnd != nil {
		fmt.Fprintf(b.out, "%-11s %s\n", "end to end", r.EndToEnd)
	}
	if r.Failed > 0 {
		return fmt.Errorf("%s failed", count(int(r.Failed), "record"))
	}
	return nil
}
