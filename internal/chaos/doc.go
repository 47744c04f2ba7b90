// Package chaos runs clusters of real processes (moldau serve, three of them on loopback), does to them what machines and
// networks do to clusters, and judges what clients were told meanwhile.
//
// A Cluster owns the processes and the links between them: every node is reached through a small relay of TCP, which knows
// who speaks to whom by the client ids of nodes and can hold one direction back or slow it down. A Load is producers,
// transactions, readers and a group, with a History of what each was told. A Nemesis does damage from a seed. At the end
// History.Check and CompareReplicas judge: no acknowledged record lost, twice or out of order, nothing aborted seen, no
// reader told what is not so later, nothing stuck, and all replicas equal byte for byte.
//
// It is for tests only and nothing of the product imports it; a suite with a module of its own may. It must know nothing of
// the product but its command line, its files and the protocol, so that any build can be run.
//
// Locking: Links, Cluster and History have one lock each, held for moments and never while another is taken. Start reading
// in cluster.go, then load.go and check.go.
package chaos
