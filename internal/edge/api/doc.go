// Package api answers Kafka's requests: one file per API, named after it, with the row that puts it into the server's
// table and the handler that turns a decoded request into calls of the cores and their results into a response.
//
// A handler never blocks, never touches a file or socket itself and holds no state beyond what Broker names (fetch
// sessions). It decides nothing that a core decides: metadata changes go to the controller, appends and reads to
// replica.Partition.
//
// Locking: handlers run on connection goroutines, many at once. What a reply or anybody else keeps beyond the request's
// lease is copied: strings and bytes of a decoded request alias its buffer.
//
// Start reading at broker.go (what handlers may use), then table.go and produce.go.
package api
