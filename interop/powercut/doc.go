// Package powercut runs a cluster of processes on file systems that forget what was not synced when their power is cut.
//
// A Disk is a file system of FUSE whose files and directories are in memory twice: as programs see them, and as the plates
// have them. Writes and names reach the plates when a file, or the directory of a name, is synced. Cut ends it: from that
// moment every call fails, and what is left is a Disk with what the plates had and, by a seed, a part of the rest: data and
// names that happened to be written back already, files cut short, files that are longer but zero. A sync of the whole file
// system is not supported, as nowhere on FUSE.
//
// It is a module of its own because of the library for FUSE. Locking: one lock for each Disk.
package powercut
