// Package log is one partition's log on disk, byte for byte as Apache Kafka writes it: segments with their offset, time
// and transaction indexes, the leader epoch history, producer state and its snapshots, recovery, retention, compaction,
// and the log directory that holds many such partitions. __cluster_metadata is a Log too.
//
// It never starts a goroutine, reads a clock or draws a random number: time is a parameter, files come through vfs, and
// whatever takes long (recovery, scrubbing, compaction) is an object with steps of bounded size. It does not know
// leaders, followers or high watermarks beyond what it is told, and it does not check batches that are appended: package
// record does that before the partition is locked.
//
// Locking. A Log has no lock for its mutators: the owner (replica.Partition, the quorum) holds one mutex around them.
// What readers need is an immutable View, published through an atomic pointer after each change, so reads take no lock
// that an append holds; opening a segment's files is guarded by a small mutex in the segment. Methods that say so may be
// called without the owner's mutex. FlushToken.Sync and SyncGroup do blocking I/O and must be called without it, and so
// do the steps of a Cleaning that are not Exclusive. Dir is safe for concurrent use.
//
// Start reading at log.go, then append.go, view.go, flush.go and load.go; clean.go for compaction. docs/formats describes
// the files.
package log
