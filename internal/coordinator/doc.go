// Package coordinator runs coordinators: the state of groups and transactions that lives in an internal topic. A shard is
// one partition of that topic that this node leads, with a Machine that decides; the runtime appends what the machine
// writes, applies it, and lets replies go once it is committed.
//
// It never decides anything about groups or transactions, starts no goroutine and reads no clock: loading is handed to
// whoever runs the node in bounded steps, and time comes from Options.
//
// Locking: a shard has one mutex, held over one event: Handle, the append, Apply. Order: shard, replica.Partition, log.
// Replies and effects run after it is released. The runtime's own mutex guards which shards there are, and is never held
// together with a shard's.
//
// Start reading at machine.go (the contract), then runtime.go and shard.go.
package coordinator
