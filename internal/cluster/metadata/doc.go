// Package metadata is what a cluster knows about itself: Kafka's metadata records (KRaft) in every version, the Image
// they add up to, and the Diff between two images.
//
// It owns the meaning of every record: Image.Apply is the only place in the program that understands one, and it is
// used by the controller (before a record is appended), by brokers, by snapshots and by the dump tool. It also owns
// the table of features and of metadata.version levels.
//
// It never does I/O, starts no goroutine, reads no clock and writes no batch: batches, control records and snapshot
// files belong to package quorum. It does not decide anything either: which records to write is the business of
// package controller.
//
// Locking: none is needed. Images, diffs and everything reached through them are immutable once Apply or Merge has
// returned them, and may be read and applied to by several goroutines at once. Callers must not write through the
// slices and pointers they are given, nor into the slices of a record once it was applied.
//
// Start reading at record.go (the list of records), then image.go, then apply.go.
package metadata
