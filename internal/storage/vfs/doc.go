// Package vfs is the only door to a disk. Everything that reads or writes files goes through FS, so that tests and the
// simulator can crash, fill or break the disk under unchanged code.
//
// Three implementations: OS (the real one), Mem (in memory, can be crashed at any call) and Faulty (a wrapper driven by
// short scripts). Mem is never kinder than a real disk: what was not synced may be lost, torn, reordered or zero; what
// was synced stays. The package never caches, knows nothing of logs, and retries nothing but EINTR: a failed sync above
// all is final.
//
// Locking: every FS and File is safe for concurrent use, except that one file's Write belongs to one writer. Mem takes
// Mem.mu first (shared for data, exclusive for names, SyncAll and clones), then one inode's mu, then Mem.dirtyMu.
//
// Start reading at vfs.go; then mem.go (the calls), inode.go (blocks and sizes), tree.go (names), crash.go (what a
// power cut leaves), faulty.go and rule.go (the scripts).
package vfs
