// Package quorum keeps the cluster's metadata log: Kafka's KRaft protocol (KIP-595, 630, 853, 996) over the
// log __cluster_metadata-0, its snapshots and its election state, byte for byte as Apache Kafka writes them.
//
// Three parts, from the inside out. Core is the protocol: a pure state machine that takes events (a message,
// a tick, an append, a flush) and returns actions; it touches no file. Store is the metadata directory: log,
// checkpoints and the quorum-state file. Pump joins the two and owns the order of things: what must be
// durable before what is sent, appended or told. A driver (the node, the simulator) feeds the pump, carries
// its messages and runs its Work.
//
// The package starts no goroutine and reads no clock. It never interprets metadata records (package metadata
// does) and never decides what is appended (package controller does); it does interpret the control records,
// which are its own.
//
// Locking: a Pump and everything in it belongs to one owner at a time (the driver's loop or lock). Only
// Work.Run, a SnapshotReader and a SnapshotWriter may be used outside of it: they share nothing that changes.
//
// Start reading at pump.go and example_test.go, then core.go; core_roles.go has the transitions, the other
// core files one exchange each. testdata/core tells the protocol as scripts; cluster_test.go lets random
// clusters loose on it.
package quorum
