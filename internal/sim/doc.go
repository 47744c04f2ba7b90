// Package sim runs whole clusters in one thread, from one seed: the cores of quorum, controller and replicas on disks in
// memory, a network and clocks that a plan of faults disturbs. After every event it looks for what must never be true;
// when the faults end it wants progress. The same seed gives the same run, event for event.
//
// A World owns virtual time, the queue of events and the random source. A machine has a disk, a clock and at most one
// running process, and dies and comes back at any event, or inside any call of its disk. What a process does, it does
// through the same pumps that the node drives: the order of things stands there and not here.
//
// The package must never read a clock, start a goroutine, or range over a map where the order could show.
//
// Locking: none; a World belongs to one goroutine. Several worlds may run side by side.
//
// Start reading at run.go, then world.go and machine.go; quorum.go is one kind of process, broker.go the other, and the
// truth files say what is checked.
package sim
