// Package transactions drives transactional clients against a broker: one request of every kind and version in every state
// of a transaction, whose answers and records are compared with those of Apache Kafka, and whole programs that must count
// each input once.
//
// Environment: TRANSACTIONS_RECORD names a directory that gets Apache Kafka's answers (with INTEROP_TARGET=kafka).
package transactions
