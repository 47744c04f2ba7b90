// Package vfs is the only door to a disk. Everything that reads or writes files goes through FS, so that tests and the
// simulator can crash, fill or break the disk under unchanged code.
//
// Three implementations: OS (the real one), Mem (in memory, can be crashed at any call) and Faulty (a wrapper driven by
// short scripts). The package never retries, never caches and knows nothing of logs. Start reading at vfs.go.
package vfs
