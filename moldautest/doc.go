// Package moldautest starts Moldau nodes and clusters for tests, in milliseconds and without a socket or a real disk.
//
//	func TestOrders(t *testing.T) {
//		n := moldautest.Start(t)
//		client := n.Client(t, kgo.DefaultProduceTopic("orders"))
//		...
//	}
//
// The node's disk is in memory and can be made to fail as real ones do: Kill ends the process but not the machine,
// PowerCut loses or tears what was not synced. Restart brings the node up again on what is left. Everything is cleaned
// up when the test ends.
//
// Cluster starts several nodes, each on a machine of its own with a disk, a clock and a place in a virtual network:
//
//	c := moldautest.Cluster(t, 3)
//	c.CreateTopic("orders", 1, 3)
//	client := c.Client(kgo.DefaultProduceTopic("orders"))
//	...
//	leader := c.WaitLeader("orders", 0)
//	c.Isolate(leader)          // or Partition, PartitionOneWay; Heal mends it
//	c.Kill(leader)             // or Stop, PowerCut; Start brings it back
//	c.FullDisk(leader)         // or SlowDisk, FailDisk; MendDisk; WipeDisk while it does not run
//	c.SkewClock(leader, -time.Hour)
//
// Brokers and Dial are for clients of other makes; with the option Loopback any program of this machine reaches the
// cluster.
//
// Start reading at node.go and cluster.go.
package moldautest
