// Package vnet is a network for tests: nodes of one process reach each other and are reached without a socket, and every
// way from one machine to another can be cut.
//
// A way that is cut swallows what is sent on it, as a network does that drops packets: nobody is told, connections stay
// open, and what was under way arrives when the way is mended. Break ends connections, as a reset does. The package
// starts no goroutine and knows nothing of what it carries.
//
// Locking: Network.mu is held for looking up and changing what is cut, never while anybody waits.
//
// Start reading at network.go, then conn.go.
package vnet
