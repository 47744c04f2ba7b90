// Package moldautest starts Moldau nodes for tests, in milliseconds and without a socket or a real disk.
//
//	func TestOrders(t *testing.T) {
//		n := moldautest.Start(t)
//		client := n.Client(t, kgo.DefaultProduceTopic("orders"))
//		...
//	}
//
// The node's disk is in memory and can be made to fail as real ones do: Kill ends the process but not the machine,
// PowerCut loses or tears what was not synced. Restart brings the node up again on what is left. Everything is cleaned
// up when the test ends. Start reading at node.go.
package moldautest
