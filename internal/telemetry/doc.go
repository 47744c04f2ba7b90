// Package telemetry owns the metrics and the logger: one declared table of metrics (name, kind, labels, help,
// Kafka's name for the same thing), typed handles on them, the HTTP handler of /metrics and
// docs/reference/metrics.md.
//
// A component gets the handles it needs at construction, with every label resolved, and on the hot path pays one
// atomic addition. There is no global registry: a node makes one Registry and hands it down; tests make their own.
//
// The package never opens a listener, starts a goroutine or imports another part of the broker but the vocabulary.
//
// Locking: handles are safe for concurrent use and lock-free. Registry methods take a lock of their own and are
// meant for construction and teardown.
//
// Start reading at table.go, then registry.go. To add a metric, add one row to table.go and a field to the group of
// handles it belongs to (requests.go, storage.go, cluster.go), and regenerate docs/reference/metrics.md.
package telemetry
