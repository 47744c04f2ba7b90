// Package peer sends requests of this node to other nodes: Kafka's protocol from the client's side, for the traffic
// between brokers and controllers.
//
// It owns one TCP connection per address and lane. Lanes keep kinds of traffic apart: a snapshot's bytes must not stand
// before a vote. A connection is dialled when something is to be sent, begins with ApiVersions, carries requests
// pipelined and takes their answers in order. It also owns the goroutines that serve connections, which end before
// Close returns.
//
// It never blocks a caller, never sends a request twice, never follows a leader or reads an answer's errors: whoever
// asks decides what an error means. It believes no length that a peer names before the bytes are there.
//
// Locking: Pool.mu (the map of links) before link.mu (one link's queues). Neither is held while a promise is set.
//
// Start reading at pool.go, then link.go (queues and redialling) and conn.go (one connection).
package peer
