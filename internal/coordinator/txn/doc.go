// Package txn coordinates transactions: which producer id and epoch a transactional id has, which partitions its open
// transaction has touched, and whether that ends in commit or abort (KIP-98, KIP-360, KIP-890). It is a
// coordinator.Machine over one partition of __transaction_state.
//
// It owns the transitions of a transaction's state and the bytes of the records that hold it. It never writes markers
// itself: it asks for them (WriteMarkers) once the decision is committed, and it draws no producer ids (DrawProducerID).
//
// Locking: none; the shard calls it from one goroutine at a time.
//
// Start reading at transaction.go (the states), then machine.go. Each request has a file of its own.
package txn
