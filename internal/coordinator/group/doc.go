// Package group coordinates consumer groups: the classic protocol (JoinGroup, SyncGroup, Heartbeat), the consumer protocol
// of KIP-848, and the committed offsets of both. It is a coordinator.Machine over one partition of __consumer_offsets.
//
// It owns the rules of membership, generations, assignments and offsets, and the bytes of the records that hold them. It
// never appends, waits, or reads a clock: see package coordinator.
//
// Locking: none; the shard calls it from one goroutine at a time.
//
// Start reading at machine.go, then group.go. Offsets are in offsets*.go, classic groups in classic*.go, consumer groups in
// consumer*.go (consumer_reconcile.go is why no partition has two owners) and regex.go, the change of a group from one kind
// to the other in convert.go.
package group
