// Package controller decides: it turns a request and the present metadata into the records to write and the
// reply to give, exactly as Kafka's active controller does.
//
// It owns the rules of topics, partitions, in-sync and eligible leader replicas, broker registrations,
// configurations, features and producer ids, and the soft knowledge of which brokers are alive (Liveness). It
// never appends a record, waits for a commit, opens a connection or reads a clock: the driver hands in the
// time, the image (which already holds what was appended but is not committed yet) and a random source,
// appends the records of the Result and lets the reply go when they are committed.
//
// Locking: none. Everything but Liveness is a value; Liveness belongs to the one goroutine that calls Handle
// and Tick.
//
// Start reading at controller.go (Handle, Activate, Tick), then change.go: the one place that knows how a
// partition moves from one state to the next. Each request has a file of its own.
package controller
