// Package replica is the behaviour of a partition's replica on one node: leading it (offsets, in-sync set, high
// watermark, acknowledgements) and following a leader, over a storage/log, and the Manager that turns metadata images
// into partitions of log directories.
//
// It starts no goroutine, opens no socket and reads no clock. It never writes metadata: changes of the in-sync set are
// proposals that the host carries to the controller, and they count when the image says so.
//
// Locking: a Partition has one mutex for everything that changes it. Readers use an immutable state that is published
// atomically after every change and never take that mutex. Follower progress and watchers have small locks of their own,
// taken last and never held during I/O. No callback runs under any of them: methods return Effects, which the caller
// runs after the method has returned. Order: Manager, Partition, log.
//
// Start reading at partition.go, then append.go and read.go; fetcher.go for a follower.
package replica
