package telemetry

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"moldau/internal/invariant"
)

// Kind is what a metric can do.
type Kind int8

// The kinds. Counters only rise; gauges go both ways; histograms count observations by size.
const (
	CounterKind Kind = iota
	GaugeKind
	HistogramKind
)

// String gives the name Prometheus uses.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Counter is a value that only rises. The zero Counter counts nothing.
type Counter struct{ c prometheus.Counter }

// Inc adds one.
func (c Counter) Inc() {
	if c.c != nil {
		c.c.Inc()
	}
}

// Add adds n, which must not be negative.
func (c Counter) Add(n int) {
	if c.c != nil {
		c.c.Add(float64(n))
	}
}

// AddSeconds adds a duration to a counter of seconds.
func (c Counter) AddSeconds(d time.Duration) {
	if c.c != nil {
		c.c.Add(max(d, 0).Seconds())
	}
}

// Gauge is a value that goes both ways. The zero Gauge shows nothing.
type Gauge struct{ g prometheus.Gauge }

// Set sets the value.
func (g Gauge) Set(n int64) { g.SetFloat(float64(n)) }

// SetFloat sets a value with a fraction.
func (g Gauge) SetFloat(f float64) {
	if g.g != nil {
		g.g.Set(f)
	}
}

// SetBool sets 1 or 0.
func (g Gauge) SetBool(b bool) {
	if b {
		g.SetFloat(1)
	} else {
		g.SetFloat(0)
	}
}

// SetSeconds sets a duration in seconds.
func (g Gauge) SetSeconds(d time.Duration) { g.SetFloat(d.Seconds()) }

// Add adds n, which may be negative.
func (g Gauge) Add(n int64) {
	if g.g != nil {
		g.g.Add(float64(n))
	}
}

// Histogram counts observations by size. The zero Histogram counts nothing.
type Histogram struct{ h prometheus.Observer }

// Observe counts one duration.
func (h Histogram) Observe(d time.Duration) {
	if h.h != nil {
		h.h.Observe(d.Seconds())
	}
}

// ObserveCount counts one number.
func (h Histogram) ObserveCount(n int) {
	if h.h != nil {
		h.h.Observe(float64(n))
	}
}

// Registry holds the metrics of one node.
type Registry struct {
	prom *prometheus.Registry
	rows map[string]*Row

	mu         sync.Mutex // guards what follows
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry {
	r := &Registry{prom: prometheus.NewRegistry(), rows: map[string]*Row{},
		counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{}}
	for _, s := range table {
		for i := range s.rows {
			r.rows[s.rows[i].Name] = &s.rows[i]
		}
	}
	return r
}

// WithProcess adds what the Go runtime and the operating system say about the process (go_*, process_*). Call it
// once, for a node that has the process to itself.
func (r *Registry) WithProcess() *Registry {
	r.prom.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves the metrics in Prometheus' text format.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.prom, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 30 * time.Second})
}

// row finds a declared metric. A name that is not in the table is a mistake of ours; in builds without assertions
// it gets a row of its own, so that nothing but its documentation is missing.
func (r *Registry) row(name string, kind Kind, labels []string) *Row {
	row, ok := r.rows[name]
	invariant.Check(ok && row.Kind == kind && len(row.Labels) == len(labels), "metric %s is not declared so", name)
	if ok && row.Kind == kind && len(row.Labels) == len(labels) {
		return row
	}
	names := make([]string, len(labels))
	for i := range names {
		names[i] = "label" + string(rune('a'+i))
	}
	return &Row{Name: name + "_undeclared", Kind: kind, Labels: names, Help: "Not declared."}
}

// Counter gives the counter of a name and its label values, in the order of the table.
func (r *Registry) Counter(name string, labels ...string) Counter {
	row := r.row(name, CounterKind, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	vec, ok := r.counters[row.Name]
	if !ok {
		vec = prometheus.NewCounterVec(prometheus.CounterOpts{Name: row.Name, Help: row.Help}, row.Labels)
		r.prom.MustRegister(vec)
		r.counters[row.Name] = vec
	}
	return Counter{vec.WithLabelValues(valid(labels)...)}
}

// Gauge gives the gauge of a name and its label values.
func (r *Registry) Gauge(name string, labels ...string) Gauge {
	row := r.row(name, GaugeKind, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	vec, ok := r.gauges[row.Name]
	if !ok {
		vec = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: row.Name, Help: row.Help}, row.Labels)
		r.prom.MustRegister(vec)
		r.gauges[row.Name] = vec
	}
	return Gauge{vec.WithLabelValues(valid(labels)...)}
}

// Histogram gives the histogram of a name and its label values.
func (r *Registry) Histogram(name string, labels ...string) Histogram {
	row := r.row(name, HistogramKind, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	vec, ok := r.histograms[row.Name]
	if !ok {
		vec = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: row.Name, Help: row.Help, Buckets: row.Buckets},
			row.Labels)
		r.prom.MustRegister(vec)
		r.histograms[row.Name] = vec
	}
	return Histogram{vec.WithLabelValues(valid(labels)...)}
}

// GaugeFunc makes a gauge whose value is asked for when metrics are read. f runs on the reader's goroutine and must
// not block. The same name and labels may be given once only, and not to Gauge.
func (r *Registry) GaugeFunc(f func() float64, name string, labels ...string) {
	row := r.row(name, GaugeKind, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prom.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: row.Name, Help: row.Help,
		ConstLabels: constLabels(row, labels)}, f))
}

// CounterFunc makes a counter whose value is asked for when metrics are read; as GaugeFunc.
func (r *Registry) CounterFunc(f func() float64, name string, labels ...string) {
	row := r.row(name, CounterKind, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prom.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: row.Name, Help: row.Help,
		ConstLabels: constLabels(row, labels)}, f))
}

func constLabels(row *Row, values []string) prometheus.Labels {
	out := prometheus.Labels{}
	for i, v := range valid(values) {
		out[row.Labels[i]] = v
	}
	return out
}

// Remove forgets the series of one label value, such as a deleted topic. Handles on it go on to work unseen.
func (r *Registry) Remove(name string, labels ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	labels = valid(labels)
	if vec, ok := r.counters[name]; ok {
		vec.DeleteLabelValues(labels...)
	}
	if vec, ok := r.gauges[name]; ok {
		vec.DeleteLabelValues(labels...)
	}
	if vec, ok := r.histograms[name]; ok {
		vec.DeleteLabelValues(labels...)
	}
}

// valid makes label values UTF-8, which Prometheus insists on.
func valid(labels []string) []string {
	if !slices.ContainsFunc(labels, func(s string) bool { return s != strings.ToValidUTF8(s, "?") }) {
		return labels
	}
	out := make([]string, len(labels))
	for i, s := range labels {
		out[i] = strings.ToValidUTF8(s, "?")
	}
	return out
}
