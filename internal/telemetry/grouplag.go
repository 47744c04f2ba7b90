package telemetry

import "github.com/prometheus/client_golang/prometheus"

// GroupLag is how far a group is behind in one partition. Seconds is negative when it is not known.
type GroupLag struct {
	Group, Topic string
	Partition    string
	Records      int64
	Seconds      float64
}

// groupLags publishes what lag gives at the moment metrics are read. Its series come and go with the groups, so there are
// no handles on them.
type groupLags struct {
	records, seconds *prometheus.Desc
	lag              func() []GroupLag
}

// WatchGroupLag publishes the lag of groups. lag must not block, and bounds the number of series. Hidden counts the
// partitions that it leaves out for that.
func WatchGroupLag(r *Registry, lag func() []GroupLag) (hidden Gauge) {
	describe := func(name string) *prometheus.Desc {
		row := r.row(name, GaugeKind, make([]string, 3))
		return prometheus.NewDesc(row.Name, row.Help, row.Labels, nil)
	}
	r.prom.MustRegister(&groupLags{describe("moldau_group_lag_records"), describe("moldau_group_lag_seconds"), lag})
	return r.Gauge("moldau_group_lag_hidden_partitions")
}

// Describe implements prometheus.Collector.
func (g *groupLags) Describe(to chan<- *prometheus.Desc) {
	to <- g.records
	to <- g.seconds
}

// Collect implements prometheus.Collector.
func (g *groupLags) Collect(to chan<- prometheus.Metric) {
	for _, x := range g.lag() {
		labels := valid([]string{x.Group, x.Topic, x.Partition})
		to <- prometheus.MustNewConstMetric(g.records, prometheus.GaugeValue, float64(x.Records), labels...)
		if x.Seconds >= 0 {
			to <- prometheus.MustNewConstMetric(g.seconds, prometheus.GaugeValue, x.Seconds, labels...)
		}
	}
}
