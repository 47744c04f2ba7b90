// Package promise holds the one asynchronous primitive of the cores: a result that is set once.
//
// A core that cannot answer yet hands out a Promise and completes it later, outside every lock: callbacks run on the
// goroutine that sets the value. Only drivers (server, node, tests) block in Wait. Start reading at promise.go.
package promise
