package moldautest

import (
	"fmt"
	"path"
	"strings"
	"time"

	"moldau/internal/storage/vfs"
)

// SlowDisk makes every sync of a node's disk take longer, until MendDisk.
func (c *Machines) SlowDisk(id int32, by time.Duration) {
	c.member(id).breakDisk(c, fmt.Sprintf("sync * latency %s\nsyncall * latency %s", by, by))
}

// FullDisk lets a node's disk take nothing more, until MendDisk: the one of the log directories that are named, or of all.
func (c *Machines) FullDisk(id int32, dirs ...string) {
	m := c.member(id)
	m.breakDisk(c, inDirs(dirs, "alloc %s error ENOSPC"))
}

// FailDisk makes everything fail that a node asks of its disk, until MendDisk, with the error of broken hardware: the disk of
// the log directories that are named, or of all. Without a directory that works a node ends: see Running. A directory that
// failed is used again when the node is started again.
func (c *Machines) FailDisk(id int32, dirs ...string) {
	m := c.member(id)
	m.breakDisk(c, inDirs(dirs, "* %s error EIO"))
}

// MendDisk ends what SlowDisk, FullDisk and FailDisk did.
func (c *Machines) MendDisk(id int32) {
	m := c.member(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = nil
	if m.faults != nil {
		m.faults.Clear()
	}
}

// WipeDisk gives the machine of a node that does not run an empty disk.
func (c *Machines) WipeDisk(id int32) {
	c.t.Helper()
	m := c.member(id)
	m.ops.Lock()
	defer m.ops.Unlock()
	if m.machine.node != nil {
		c.t.Fatalf("node %d runs: its disk cannot be replaced", id)
	}
	m.machine.fs = vfs.NewMem(vfs.MemOptions{})
}

// SkewClock sets the clock of a node's machine that much before (above 0) or behind the right time, by whole seconds. As
// with a real clock, the node's notion of how much time has passed does not change.
func (c *Machines) SkewClock(id int32, by time.Duration) {
	c.member(id).clock.skew.Store(int64(by.Truncate(time.Second)))
}

// inDirs writes a rule for everything in some directories; for all when none is named.
func inDirs(dirs []string, rule string) string {
	if len(dirs) == 0 {
		return fmt.Sprintf(rule, "*")
	}
	var out []string
	for _, d := range dirs {
		for _, glob := range []string{d, path.Join(d, "*"), path.Join(d, "*/*")} {
			out = append(out, fmt.Sprintf(rule, glob))
		}
	}
	return strings.Join(out, "\n")
}

// breakDisk adds rules of vfs.Faulty to a disk, and gives a function that counts how often they struck.
func (m *member) breakDisk(c *Machines, rules string) func() int64 {
	c.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = append(m.rules, rules)
	if m.faults == nil {
		return func() int64 { return 0 }
	}
	faults := m.faults
	ids, err := faults.Add(rules)
	if err != nil {
		c.t.Fatal(err)
	}
	return func() (n int64) {
		for _, id := range ids {
			n += faults.Hits(id)
		}
		return n
	}
}
