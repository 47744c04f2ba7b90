// Package server is the Kafka protocol server: listeners, framing, limits, the memory budget of requests,
// replies in order and their way onto the wire (sendfile included). It knows the shape of every request and
// the meaning of none.
//
// It owns connections and the goroutines that serve them: one accept loop per listener, one reader and one
// writer per connection, one sweeper per server that judges slow and idle peers. Every goroutine ends before
// Close returns.
//
// It never interprets a request (rows of the Table do), never blocks a connection because of another one
// except through the shared memory Budget, and never trusts a length before it is paid for: a frame is
// charged to the budget as it is read, and what decoding will allocate is computed by a walk over the bytes
// (schema.go) and charged before the decoder runs. Hostile bytes cost their sender its connection and nobody
// else anything.
//
// Locking: Server.mu (listeners, connections), queue.mu (one connection's unanswered requests), Budget.mu,
// ConnInfo.mu and canceler.mu are all leaves: none is taken while another is held, and no handler, hook or
// promise callback runs under one of them.
//
// Start reading at api.go (what a handler sees), then reader.go (the way in) and writer.go (the way out).
package server
