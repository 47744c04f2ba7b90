// Package assignor computes target assignments of consumer groups whose partitions the broker hands out (KIP-848): which
// member should own which partition, given who subscribes to what and who owns what now.
//
// It owns the two assignors that Apache Kafka ships, `uniform` and `range`, and nothing of a group's life: when a target
// is computed and how members get from the old one to the new one is the business of its caller. An Assignor is a pure
// function. It keeps no state, reads neither clock nor random source, and the same Spec always gives the same
// Assignment: members count in the order of their ids, topics in the order of theirs.
//
// Where Kafka's own result depends on the iteration order of its hash tables, this package has a fixed order in place of
// it; apart from that the results are equal, and testdata holds answers of Apache Kafka which prove it. Like Kafka's, the
// assignors do not look at racks.
//
// Locking: none; an Assignor may be used by several goroutines.
//
// Start reading at assignor.go, then uniform.go.
package assignor
