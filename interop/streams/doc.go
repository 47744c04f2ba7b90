// Package streams runs Kafka Streams applications that compute exactly once (exactly_once_v2) while they and the broker
// are killed, and compares what readers of committed records see with the same computation over the input in memory.
// Start reading at app.keepRunning.
//
// Environment: STREAMS_LINES is how many records go in (a long run takes 1,000,000), STREAMS_SEED repeats a run.
package streams
