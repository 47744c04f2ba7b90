package config

// clientMetricsKeys: the configurations of a client-metrics subscription (KIP-714).
var clientMetricsKeys = []Key{
	key("interval.ms", Int, "300000", nil, ClusterWide, Medium,
		"Time between two pushes of a client's metrics (ms)."),
	key("match", List, "", anyList(), ClusterWide, Medium,
		"Clients the subscription is for, as attribute=pattern entries; empty: all."),
	key("metrics", List, "", anyList(), ClusterWide, Medium,
		"Prefixes of the names of the metrics that are pushed; empty: none, *: all."),
}
