package telemetry

import "github.com/prometheus/client_golang/prometheus"

// ReplicaLag is how far a replica is behind its leader.
type ReplicaLag struct {
	Topic, Partition, Leader string
	Records                  int64
}

// replicaLags publishes what lag gives at the moment metrics are read: its series come and go with what is behind.
type replicaLags struct {
	records *prometheus.Desc
	lag     func() []ReplicaLag
}

// WatchReplicaLag publishes the lag of replicas. lag must not block, and bounds the number of series.
func WatchReplicaLag(r *Registry, lag func() []ReplicaLag) {
	row := r.row("moldau_replica_lag_records", GaugeKind, make([]string, 3))
	r.prom.MustRegister(&replicaLags{prometheus.NewDesc(row.Name, row.Help, row.Labels, nil), lag})
}

// Describe implements prometheus.Collector.
func (g *replicaLags) Describe(to chan<- *prometheus.Desc) { to <- g.records }

// Collect implements prometheus.Collector.
func (g *replicaLags) Collect(to chan<- prometheus.Metric) {
	for _, x := range g.lag() {
		labels := valid([]string{x.Topic, x.Partition, x.Leader})
		to <- prometheus.MustNewConstMetric(g.records, prometheus.GaugeValue, float64(x.Records), labels...)
	}
}
