// Package node puts the parts together and runs them: it owns every goroutine that is not a connection's, drives the pure
// cores with real clocks, disks and sockets, and starts and stops a whole node in the right order.
//
// It decides nothing that a core decides. Its loops: control (metadata quorum and controller), publisher (images to
// partitions), one flusher per log directory (group commit), one fetcher per leader, directory
// and shard (replication), lifecycle (registration and heartbeats), upkeep (retention,
// checkpoints, scrubbing, expiry). A few goroutines load coordinators while there is something to load. Each has an owner,
// Node.Stop, that waits for it.
//
// Locking: loops talk through mailboxes with small locks of their own, held for moving values in and out and never while
// anything else is called.
//
// Start reading at node.go, then control.go.
package node
