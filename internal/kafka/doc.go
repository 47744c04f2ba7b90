// Package kafka is the vocabulary every other package speaks: identifiers, offsets, epochs and error codes of the
// Kafka protocol as distinct types, so that two of them cannot be swapped.
//
// It owns no behaviour beyond parsing and printing those values, imports nothing of this module, holds no state and
// needs no lock. Start reading at types.go, then error.go.
package kafka
